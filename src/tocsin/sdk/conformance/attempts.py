"""Scenarios of attempts: how they are run, how they end, and what they tell meanwhile."""

import math
from typing import Any, Final

from tocsin.domain.protocol import MAX_LOG_LINES, MAX_RESULT
from tocsin.sdk.conformance.scenario import Scenario
from tocsin.sdk.conformance.stage import Stage, expect

TASKS: Final = frozenset(
    f"conformance.{name}"
    for name in (
        "echo", "attempt", "fail", "reject", "again", "postpone", "skip", "sleep", "spin", "progress", "log", "large",
        "crash",
    )
)  # fmt: skip
"""What the program under test serves."""
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 2**53 - 1, 0.1, 1e-7, "", 'ünïcödé 🔔 \\ " \u2028', "9223372036854775808", [], {}, [[1], [2, [3]]],
    {"a": {"b": [None, {"c": "d"}]}},
)  # fmt: skip
_LINES: Final = 40
_NAP: Final = 0.5
_MOST_WAITING: Final = 2001
_ROUNDING: Final = 0.05
"""Clocks and timers of a worker are not exact."""


def register(stage: Stage) -> str:
    stage.begin()
    new = next(iter(stage.book.workers.values()))
    missing = TASKS - {task.name for task in new.tasks}
    expect(not missing, f"not registered: {', '.join(sorted(missing))}")
    return f"{len(new.tasks)} tasks, capacity {new.capacity}, lease {new.lease}"


def json_types(stage: Stage) -> str:
    made = [stage.enqueue("echo", {"value": value}) for value in _VALUES]
    stage.begin()
    for execution, value in zip(made, _VALUES, strict=True):
        result = stage.settled(execution, "succeeded").result
        same = result == value and isinstance(result, bool) == isinstance(value, bool)
        expect(same, f"{value!r} came back as {result!r}")
    return f"{len(_VALUES)} values came back"


def tokens(stage: Stage) -> str:
    made = [stage.enqueue("echo", {"value": number}) for number in range(5)]
    stage.begin()
    for execution in made:
        stage.settled(execution, "succeeded")
    return "63 bits, as text, unchanged"


def batches(stage: Stage) -> str:
    made = [stage.enqueue("echo", {"value": number}) for number in range(200)]
    stage.begin()
    for number, execution in enumerate(made):
        expect(stage.settled(execution, "succeeded").result == number, f"task {number} gave something else")
    twice = [one.id for one in made if one.attempt != 1]
    expect(not twice, f"{len(twice)} of 200 were given more than once")
    return f"200 tasks over {stage.count('claim')} claims"


def beyond_capacity(stage: Stage) -> str:
    """Tasks that wait end no sooner than turns of `capacity` at once allow: a lower bound, which a slow
    machine cannot break."""
    stage.begin()
    capacity = next(iter(stage.book.workers.values())).capacity
    number = min(2 * capacity + 1, _MOST_WAITING)
    made = [stage.enqueue("sleep", {"seconds": _NAP}) for _ in range(number)]
    for execution in made:
        stage.settled(execution, "succeeded")
    took = max(one.settled_at for one in made) - min(one.given_at for one in made)
    least = math.ceil(number / capacity) * _NAP
    expect(took >= least - _ROUNDING, f"{number} tasks took {took:.2f} s: more than {capacity} ran at once")
    return f"{number} tasks, {capacity} at once"


def failed(stage: Stage) -> str:
    made = stage.enqueue("fail", {"message": "no such file"})
    stage.begin()
    error = stage.settled(made, "failed").error
    expect(error is not None and error.kind and "no such file" in error.message, f"the error is {error}")
    return f"failed, {error.kind if error else ''}"


def retried(stage: Stage) -> str:
    made = stage.enqueue("fail", {"message": "once"})
    stage.begin()
    stage.settled(made, "failed")
    with stage.book.changed:
        made.task, made.settled = "conformance.attempt", None
        stage.book.changed.notify_all()
    seen = stage.settled(made, "succeeded").result
    wanted = {"attempt": 2, "idempotency_key": made.id}
    expect(seen == wanted, f"the task saw {seen}, not {wanted}")
    return "attempt 2, the same key"


def rejected(stage: Stage) -> str:
    made = stage.enqueue("reject", {"message": "no such customer"})
    stage.begin()
    error = stage.settled(made, "rejected").error
    expect(error is not None and "no such customer" in error.message, f"the error is {error}")
    return "rejected, with its message"


def again(stage: Stage) -> str:
    made = stage.enqueue("again", {"wait_ms": 30_000})
    stage.begin()
    told = stage.settled(made, "failed")
    expect(told.retry_after_ms == 30_000, f"retry_after_ms is {told.retry_after_ms}")
    return "failed, retry_after_ms 30000"


def postponed(stage: Stage) -> str:
    made = stage.enqueue("postpone", {"wait_ms": 5000, "reason": "no file yet"})
    stage.begin()
    told = stage.settled(made, "postponed")
    expect(
        (told.retry_after_ms, told.reason) == (5000, "no file yet"), f"{told.retry_after_ms}, {told.reason}"
    )
    return "postponed, retry_after_ms 5000"


def skipped(stage: Stage) -> str:
    made = stage.enqueue("skip", {"reason": "empty"})
    stage.begin()
    told = stage.settled(made, "skipped")
    expect(told.reason == "empty", f"the reason is {told.reason}")
    return "skipped: empty"


def timed_out(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 3600}, timeout_ms=400)
    stage.begin()
    stage.settled(made, "timed_out")
    stage.still_works()
    return "timed_out, and it goes on"


def spinning(stage: Stage) -> str:
    made = stage.enqueue("spin", {"seconds": 2})
    stage.begin()
    stage.settled(made, "succeeded")
    expect(len(made.named) >= 2, f"{len(made.named)} heartbeats named it in two seconds")
    return f"{len(made.named)} heartbeats meanwhile"


def progress(stage: Stage) -> str:
    made = stage.enqueue("progress", {"share": 0.5, "note": "half"})
    stage.begin()
    stage.until(lambda: made.progress, "no heartbeat told any progress")
    seen = made.progress[-1]
    expect((seen.share, seen.note) == (0.5, "half"), f"progress was {seen.share}, {seen.note}")
    made.stop = "seen"
    stage.settled(made, "cancelled")
    return "0.5, half"


def logs(stage: Stage) -> str:
    lost = stage.fault(
        "heartbeat", acts=True, times=1, when=lambda call: any(one.logs for one in call.body.held)
    )
    made = stage.enqueue("log", {"lines": _LINES, "seconds": 1})
    stage.begin()
    stage.settled(made, "succeeded")
    expect(sorted(made.logs) == list(range(1, _LINES + 1)), f"lines {sorted(made.logs)} came")
    wrong = [line.message for seq, line in made.logs.items() if line.message != f"line {seq}"]
    expect(not wrong, f"lines are out of order: {wrong[:3]}")
    return f"{_LINES} lines, numbered" + (", one heartbeat's told again" if lost.met else "")


def many_logs(stage: Stage) -> str:
    made = stage.enqueue("log", {"lines": 10_000, "seconds": 0})
    stage.begin()
    stage.settled(made, "succeeded")
    expect(0 < len(made.logs) <= MAX_LOG_LINES, f"{len(made.logs)} lines came")
    return f"{len(made.logs)} lines of 10,000"


def large(stage: Stage) -> str:
    fits = stage.enqueue("large", {"bytes": MAX_RESULT - 1024})
    too_large = stage.enqueue("large", {"bytes": 10 * 1024 * 1024})
    stage.begin()
    result = stage.settled(fits, "succeeded").result
    expect(isinstance(result, str) and len(result) == MAX_RESULT - 1024, "the result is not whole")
    error = stage.settled(too_large, "rejected", "failed").error
    expect(error is not None and error.message, "no error says why")
    stage.still_works()
    return f"255 KiB kept, 10 MiB {too_large.settled.verdict if too_large.settled else ''}"


def refused(stage: Stage) -> str:
    made = stage.enqueue("echo", {"value": 1})
    stage.book.refuse_results.add(made.id)
    stage.begin()
    stage.until(lambda: made.sent, "nothing was settled")
    stage.still_works()
    stage.still_works()
    sent = [told.verdict for told in made.sent]
    expect(sent.count("succeeded") <= 2, f"it was sent {sent.count('succeeded')} times")
    return f"sent as {', '.join(sent)}"


def unknown_task(stage: Stage) -> str:
    made = stage.enqueue("never_registered")
    stage.begin()
    stage.until(lambda: made.released or made.settled, "it was neither released nor settled")
    with stage.book.changed:
        stage.book.executions.pop(made.id)
    expect(made.settled is None or made.settled.verdict != "succeeded", "it was said to have succeeded")
    stage.still_works()
    return "released" if made.released else "settled as failed"


SCENARIOS: Final = (
    Scenario("register", "all conformance tasks, by version 1", register),
    Scenario("every JSON type", "echo gives back each value", json_types),
    Scenario("tokens", "each as the text that was given", tokens),
    Scenario("batches", "200 tasks, each run and settled once", batches),
    Scenario("more than its capacity", "no more run at once, none is kept waiting", beyond_capacity),
    Scenario("a failing task", "failed, with kind and message", failed),
    Scenario("a second attempt", "the task sees attempt 2 and the same key", retried),
    Scenario("a rejecting task", "rejected", rejected),
    Scenario("retry after", "failed, with the task's own wait", again),
    Scenario("postpone", "postponed, with wait and reason", postponed),
    Scenario("skip", "skipped, with its reason", skipped),
    Scenario("timeout", "stopped and timed_out", timed_out),
    Scenario("busy task", "heartbeats go on while it spins", spinning),
    Scenario("progress", "told with a heartbeat", progress),
    Scenario("logs", "every line once, numbered from 1", logs),
    Scenario("10,000 lines", "at most 1,000 are sent", many_logs),
    Scenario("large results", "255 KiB kept, 10 MiB rejected or failed", large),
    Scenario("settlement refused", "not repeated for ever", refused),
    Scenario("unknown task", "released or failed, and it goes on", unknown_task),
)
