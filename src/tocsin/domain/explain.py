"""Why an execution waited, was late, was skipped, or is where it is. Pure words over stored facts."""

from typing import Final

import msgspec

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, format_instant, format_span
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import HOST, VERSION, Attempt, Verdict

_LATE: Final = 1 * SECOND
SKIP_REASONS: Final = {
    "overlap": "an earlier execution of the job was still running, and its overlap policy does not run both",
    "paused": "the job was paused, and its misfire policy does not bring this fire time back",
    "blackout": "it lies in a blackout that the schedule excludes",
    "misfire_skipped": "it was missed while nothing could plan it, and the misfire policy is skip",
    "misfire_too_old": "it was missed, and is older than the misfire policy's lookback",
    "misfire_superseded": "it was missed, and a later missed fire time ran instead (fire_once)",
    "misfire_over_max": "it was missed, and more recent missed fire times filled the misfire policy's max",
    "skip_next": "somebody asked for it to be skipped",
}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored about an execution."""

    state: State
    cause: str
    due_at: Instant
    run_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    deadline_at: Instant | None
    attempt: int
    attempts: list[Attempt]
    reason: str | None
    cancel_requested: bool
    start_by: Instant | None
    overlap: str | None
    limit_key: str | None
    waits_for: str | None


def explain(facts: Facts, now: Instant) -> list[str]:
    """Sentences, in the order of the execution's life."""
    return [*_origin(facts), *_waiting(facts, now), *_past_attempts(facts), *_end(facts)]


def _origin(facts: Facts) -> list[str]:
    words = {
        "schedule": "The schedule named this fire time.",
        "catch_up": "The fire time was missed; the misfire policy runs it late, behind live fires.",
        "manual": "Somebody ran the job by hand.",
        "backfill": "A backfill of a past range made it.",
        "rerun": "Somebody ran an earlier execution again.",
    }
    return [words[facts.cause]]


def _waiting(facts: Facts, now: Instant) -> list[str]:
    first_start = facts.attempts[0].started_at if facts.attempts else facts.started_at
    if facts.state is State.QUEUED:
        return _why_queued(facts, now)
    if facts.state is State.CLAIMED:
        if facts.run_at > now:
            return [f"A worker holds it in memory and starts it in {_span(facts.run_at - now)}."]
        return ["A worker has claimed it and is about to start it, or waits for a free call."]
    if first_start is None:
        return []
    lag = first_start - facts.due_at
    if lag < _LATE:
        return [f"It started {_span(max(lag, 0))} after it was due."]
    if facts.cause == "catch_up":
        return [f"It started {_span(lag)} after its fire time, because it had been missed."]
    return [
        f"It started {_span(lag)} late: every worker was busy or away, its queue was paused, or it was planned late."
    ]


def _why_queued(facts: Facts, now: Instant) -> list[str]:
    if facts.waits_for == HOST:
        return [
            f"The host of its target fails, and is given a rest: the next try is at {format_instant(facts.run_at)}."
        ]
    if facts.waits_for == VERSION:
        tried = (
            "It waits for a worker of a newer version: those that had it could not read what its job says."
        )
        return [f"{tried} The next try is at {format_instant(facts.run_at)}."]
    if facts.attempts:
        return [
            f"It waits for attempt {facts.attempt} at {format_instant(facts.run_at)}, after a failed one."
        ]
    if facts.due_at > now:
        return [f"It is due in {_span(facts.due_at - now)}."]
    match facts.waits_for:
        case "turn":
            return [f"It waits for an earlier execution of the job (overlap: {facts.overlap})."]
        case "slot":
            return [
                f"It waits for a free slot: as many executions of limit key {facts.limit_key!r} run as may at once."
            ]
        case "rate":
            return [
                f"It waits for its place in the rate of limit key {facts.limit_key!r}: {format_instant(facts.run_at)}."
            ]
    late = f"It has been due for {_span(now - facts.due_at)}: "
    return [
        late
        + "no worker has had room for it, its tenant is at a limit, its queue or tenant is paused, or no worker serves its queue."
    ]


def _past_attempts(facts: Facts) -> list[str]:
    words = []
    for attempt in facts.attempts:
        if attempt.verdict is Verdict.LOST:
            words.append(
                f"Attempt {attempt.number} was lost: its worker died or hung past the claim's deadline."
            )
        else:
            words.append(f"Attempt {attempt.number} {attempt.verdict}: {attempt.error}.")
    return words


def _end(facts: Facts) -> list[str]:
    match facts.state:
        case State.RUNNING:
            asked = " It has been asked to stop." if facts.cancel_requested else ""
            return [f"Attempt {facts.attempt} is running.{asked}"]
        case State.SKIPPED:
            return [
                f"It was skipped: {SKIP_REASONS.get(facts.reason or '', facts.reason or 'no reason recorded')}."
            ]
        case State.SUCCEEDED:
            return [f"Attempt {facts.attempt} succeeded."]
        case State.DEAD:
            return [f"Attempt {facts.attempt} failed and no more are allowed: {facts.reason}."]
        case State.CANCELLED:
            return [f"It was cancelled: {facts.reason}."]
        case State.EXPIRED:
            return ["It expired: it was not started within the time its job allows (start_within)."]
        case _:
            return []


def _span(span: int) -> str:
    return f"{span / MILLISECOND:.1f} ms" if span < SECOND else format_span(span // SECOND * SECOND)
