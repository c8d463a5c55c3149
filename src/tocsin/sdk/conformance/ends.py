"""Scenarios of a worker's end: asked to, told to, refused, and killed."""

from typing import Final

from tocsin.sdk.conformance.scenario import Scenario
from tocsin.sdk.conformance.stage import Stage, expect

_LONG: Final = {"seconds": 3600}


def sigterm(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 1.5})
    stage.begin()
    stage.running(made)
    stage.program.terminate()
    stage.until(lambda: made.settled, "what ran was not settled", ends=True)
    stage.settled(made, "succeeded")
    stage.ended(0)
    expect(stage.book.left, "it did not leave")
    return "finished, settled, left, ended with 0"


def sigterm_idle(stage: Stage) -> str:
    stage.begin()
    stage.until(lambda: stage.count("claim"), "it did not ask for work")
    stage.program.terminate()
    stage.ended(0)
    expect(stage.book.left, "it did not leave")
    return "left, ended with 0"


def sigterm_full(stage: Stage) -> str:
    made = [stage.enqueue("spin", {"seconds": 0.2}) for _ in range(20)]
    stage.begin()
    stage.until(lambda: any(one.token for one in made), "nothing was claimed")
    stage.program.terminate()
    stage.ended(0)
    forgotten = sum(one.token is not None for one in made)
    expect(not forgotten, f"{forgotten} claims were neither settled nor released")
    settled = sum(one.settled is not None for one in made)
    return f"{settled} settled, {sum(one.released for one in made)} released, none forgotten"


def second_sigterm(stage: Stage) -> str:
    made = stage.enqueue("sleep", _LONG)
    stage.begin()
    stage.running(made)
    beats = stage.count("heartbeat")
    stage.program.terminate()
    stage.until(lambda: stage.count("heartbeat") >= beats + 2, "it did not heartbeat while draining")
    stage.program.terminate()
    stage.until(lambda: made.settled, "what ran was not settled", ends=True)
    stage.settled(made, "failed")
    stage.ended()
    return "settled as failed, and ended"


def drained(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 1})
    stage.begin()
    stage.running(made)
    with stage.book.changed:
        stage.book.draining = True
        stage.book.changed.notify_all()
    stage.until(lambda: made.settled, "what ran was not settled", ends=True)
    stage.settled(made, "succeeded")
    stage.ended(0)
    expect(stage.book.left, "it did not leave")
    return "finished, left, ended with 0"


def gone(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 1})
    stage.fault("claim", status=410, times=1000, when=lambda _: made.attempt > 0)
    stage.begin()
    stage.until(lambda: made.settled, "what ran was not settled", ends=True)
    stage.settled(made, "succeeded")
    stage.ended(0)
    return "finished, ended with 0"


def key_unknown(stage: Stage) -> str:
    stage.fault("register", status=403, times=1000)
    stage.program.start()
    return _refused(stage)


def key_revoked(stage: Stage) -> str:
    stage.begin()
    stage.until(lambda: stage.count("claim"), "it did not ask for work")
    stage.fault("claim", "heartbeat", "settle", "release", "leave", "register", status=401, times=1000)
    stage.enqueue("echo", {"value": 1})
    return _refused(stage)


def conflict(stage: Stage) -> str:
    stage.begin()
    stage.fault("claim", status=409, times=1000)
    stage.enqueue("echo", {"value": 1})
    return _refused(stage)


def _refused(stage: Stage) -> str:
    code = stage.ended()
    expect(code > 0, f"it ended with {code}")
    expect(stage.program.printed(), "no message says why")
    return f"ended with {code}, and a message"


def killed(stage: Stage) -> str:
    made = stage.enqueue("crash")
    stage.begin()
    stage.ended()
    expect(made.settled is None, "a settlement came from the dead")
    with stage.book.changed:
        made.task, made.payload, made.token = "conformance.attempt", {}, None
    stage.program.start()
    seen = stage.settled(made, "succeeded").result
    expect(len(stage.book.workers) == 2, "the new process did not register")
    expect(isinstance(seen, dict) and seen["attempt"] == 2, f"the task saw {seen}")
    return "the next process ran attempt 2"


SCENARIOS: Final = (
    Scenario("SIGTERM at work", "finishes, settles, leaves, ends with 0", sigterm),
    Scenario("SIGTERM at rest", "leaves, ends with 0", sigterm_idle),
    Scenario("SIGTERM with much in hand", "settles or releases each", sigterm_full),
    Scenario("a second SIGTERM", "settles what runs as failed, ends", second_sigterm),
    Scenario("drain", "finishes, leaves, ends with 0", drained),
    Scenario("410", "takes no more, finishes, ends with 0", gone),
    Scenario("403 at registration", "ends with a message", key_unknown),
    Scenario("key revoked (401)", "ends with a message", key_revoked),
    Scenario("409", "ends with a message", conflict),
    Scenario("killed", "the next process goes on", killed),
)
