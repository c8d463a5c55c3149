"""Scenarios of trouble: answers are lost, late or refused, claims pass on, workers are asked to stop."""

from time import monotonic
from typing import Final

from tocsin.sdk.conformance.book import Execution
from tocsin.sdk.conformance.gateway import ApiCall
from tocsin.sdk.conformance.scenario import Scenario
from tocsin.sdk.conformance.stage import Stage, expect

_LONG: Final = {"seconds": 3600}
_ROUNDING: Final = 0.02
"""Seconds by which a timer may ring early."""


def cancelled_by_heartbeat(stage: Stage) -> str:
    made = stage.enqueue("sleep", _LONG)
    stage.begin()
    stage.running(made)
    made.stop = "enough"
    stage.settled(made, "cancelled")
    stage.still_works()
    return "cancelled"


def cancelled_by_claim(stage: Stage) -> str:
    stage.book.stop_in_claims = True
    made = stage.enqueue("sleep", _LONG)
    stage.begin()
    stage.running(made)
    made.stop = "enough"
    stage.settled(made, "cancelled")
    return "cancelled"


def claim_lost(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 2})
    stage.begin()
    stage.running(made)
    _hold_back(stage, made)
    stage.until(lambda: made.lost_tokens, "no heartbeat heard that it is lost")
    stage.still_works()
    beats = stage.count("heartbeat")
    stage.until(lambda: stage.count("heartbeat") >= beats + 3, "no more heartbeats")
    last = [call for call in stage.gateway.calls if call.verb == "heartbeat"][-1]
    expect(made.id not in {held.id for held in last.body.held}, "heartbeats still name it")
    expect(not made.sent, "it was settled")
    return "not settled, not named any more"


def lost_and_given_again(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 1})
    stage.begin()
    stage.running(made)
    first = made.token
    stage.book.take_away(made)
    told = stage.settled(made, "succeeded")
    expect(told.token != first, "it was settled with the token that was lost")
    return "settled with the second token"


def settled_too_late(stage: Stage) -> str:
    stage.book.heartbeat_ms = 60_000  # only the settlement learns that it is lost
    made = stage.enqueue("sleep", {"seconds": 0.5})
    stage.begin()
    stage.until(lambda: made.token, "it was not claimed")
    _hold_back(stage, made)
    stage.until(lambda: made.sent, "nothing was settled")
    stage.still_works()
    stage.still_works()
    expect(len(made.sent) == 1, f"it was sent {len(made.sent)} times")
    return "sent once, and let go"


def settle_not_answered(stage: Stage) -> str:
    return _settled_again(stage, status=0, acts=True)


def settle_cut_off(stage: Stage) -> str:
    return _settled_again(stage, status=0, acts=False)


def settle_busy(stage: Stage) -> str:
    return _settled_again(stage, status=503, acts=False)


def retry_after(stage: Stage) -> str:
    made = stage.enqueue("echo", {"value": 1})
    fault = stage.fault("claim", "settle", status=503, retry_after=1, when=lambda call: _carries(call, made))
    stage.begin()
    stage.settled(made, "succeeded")
    waited = stage.sent(made)[1].at - fault.met[0]
    expect(waited >= 1 - _ROUNDING, f"it came again after {waited:.2f} s")
    return "not before the second was over"


def claim_not_answered(stage: Stage) -> str:
    made = [stage.enqueue("echo", {"value": number}) for number in range(3)]
    fault = stage.fault("claim", acts=True)
    stage.begin()
    for execution in made:
        stage.settled(execution, "succeeded")
        expect(execution.attempt == 1, "it was given twice")
    asks = [call.body for call in stage.gateway.calls if call.verb == "claim"]
    expect(fault.met and asks[0] == asks[1], "the call was not repeated as it was")
    return f"seq {asks[0].seq} again"


def claim_busy(stage: Stage) -> str:
    running = stage.enqueue("sleep", {"seconds": 1})
    stage.begin()
    stage.running(running)
    fault = stage.fault("claim", status=429, times=2)
    made = stage.enqueue("echo", {"value": 1})  # ends the call that is parked; the next ones meet the fault
    stage.settled(made, "succeeded")
    stage.settled(running, "succeeded")
    stage.still_works()
    stage.still_works()
    expect(fault.met, "no claim met the fault")
    return f"asked again after {len(fault.met)} × 429; what ran went on"


def register_busy(stage: Stage) -> str:
    fault = stage.fault("register", status=503, times=2)
    stage.begin()
    stage.still_works()
    expect(len(fault.met) == 2, "it registered without being told to wait")
    return "registered at the third try"


def unknown_worker(stage: Stage) -> str:
    running = stage.enqueue("sleep", {"seconds": 1.5})
    stage.begin()
    stage.running(running)
    stage.gateway.unknown |= set(stage.book.workers)
    stage.until(lambda: len(stage.book.workers) > 1, "it did not register again")
    stage.settled(running, "succeeded")
    stage.still_works()
    return "registered again, kept what ran"


def silence(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 8})
    stage.begin()
    stage.running(made)
    stage.gateway.silent = True
    began = len(stage.gateway.calls)
    over_at = monotonic() + 2 * stage.book.lease_ms / 1000
    stage.until(lambda: monotonic() >= over_at, "the silence did not end")
    expect(len(stage.gateway.calls) > began, "it did not call")
    with stage.book.changed:
        stage.gateway.silent = False
        stage.book.changed.notify_all()
    stage.still_works()
    beats = stage.count("heartbeat")
    stage.until(lambda: stage.count("heartbeat") >= beats + 2, "no more heartbeats")
    last = [call for call in stage.gateway.calls if call.verb == "heartbeat"][-1]
    expect(made.id not in {held.id for held in last.body.held}, "it still runs what it held")
    expect(not made.sent, "it settled what others may have")
    return "stopped what it held, then went on"


def wrong_clock(stage: Stage) -> str:
    made = stage.enqueue("sleep", {"seconds": 1})
    stage.begin()
    stage.settled(made, "succeeded")
    expect(made.named, "no heartbeat named it")
    return "ran, heartbeated and settled as ever"


def unknown_fields(stage: Stage) -> str:
    stage.gateway.extra = {"new_in_version_2": {"nested": [1, 2]}}
    made = stage.enqueue("sleep", {"seconds": 0.5})
    stage.begin()
    stage.settled(made, "succeeded")
    stage.still_works()
    return "ignored"


def _settled_again(stage: Stage, *, status: int, acts: bool) -> str:
    made = stage.enqueue("echo", {"value": 1})
    stage.fault("claim", "settle", status=status, acts=acts, times=2, when=lambda call: _carries(call, made))
    stage.begin()
    stage.until(lambda: len(stage.sent(made)) >= 3, "the settlement was not repeated")
    stage.settled(made, "succeeded")
    told = [one for call in stage.sent(made) for one in call.settlements if one.id == made.id]
    same = {(one.token, one.verdict) for one in told}
    expect(len(same) == 1, f"it was repeated otherwise: {same}")
    stage.still_works()
    return f"sent {len(told)} times, the same"


def _carries(call: ApiCall, execution: Execution) -> bool:
    return any(one.id == execution.id for one in call.settlements)


def _hold_back(stage: Stage, execution: Execution) -> None:
    """Another worker has it: it is not given again."""
    with stage.book.changed:
        execution.token = "1"  # noqa: S105 - another worker's
        stage.book.changed.notify_all()


SCENARIOS: Final = (
    Scenario("cancel, by heartbeat", "stopped and settled as cancelled", cancelled_by_heartbeat),
    Scenario("cancel, by claim", "stopped and settled as cancelled", cancelled_by_claim),
    Scenario("claim lost", "stopped, never settled", claim_lost),
    Scenario("lost and given again", "the second token alone", lost_and_given_again),
    Scenario("settled too late", "an answer of lost ends the matter", settled_too_late),
    Scenario("settlement's answer lost", "the same again", settle_not_answered),
    Scenario("settlement cut off", "the same again", settle_cut_off),
    Scenario("settlement answered 503", "the same again", settle_busy),
    Scenario("Retry-After", "not before its time is over", retry_after),
    Scenario("claim's answer lost", "the same seq, and each task once", claim_not_answered),
    Scenario("claim answered 429", "asks again, keeps what runs", claim_busy),
    Scenario("registration answered 503", "tries again", register_busy),
    Scenario("worker unknown (404)", "registers again, keeps what runs", unknown_worker),
    Scenario("silence for two leases", "stops what it holds, goes on after", silence, {"lease_ms": 1000}),
    Scenario("clock an hour ahead", "works by its monotonic clock", wrong_clock, {"clock_offset": 3600.0}),
    Scenario("clock an hour behind", "works by its monotonic clock", wrong_clock, {"clock_offset": -3600.0}),
    Scenario("unknown fields in answers", "ignored", unknown_fields),
)
