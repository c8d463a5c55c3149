"""Why an execution waited, was late, was skipped, or is where it is. Pure words over stored facts.

The story is a list of steps in the order of the execution's life. A step says what was recorded, never what
may have been: lateness that no record covers is told as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, format_instant, format_span
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Attempt, Verdict
from tocsin.domain.waits import (
    LATE,
    Held,
    Reason,
    Timing,
    Wait,
    kind_of,
    outside,
    unexplained,
    waits_before_start,
)

SKIP_REASONS: Final = {
    "overlap": "an earlier execution of the job was still running, and its overlap policy does not run both",
    "paused": "the job was paused, and its misfire policy does not bring this fire time back",
    "blackout": "it lies in a blackout that the schedule excludes",
    "misfire_skipped": "it was missed, for it had not started within its grace, and the misfire policy is skip",
    "misfire_too_old": "it was missed, and is older than the misfire policy's lookback",
    "misfire_superseded": "it was missed, and a later missed fire time ran instead (fire_once)",
    "misfire_over_max": "it was missed, and more recent missed fire times filled the misfire policy's max",
    "skip_next": "a person asked for it to be skipped",
}
_ORIGINS: Final = {
    "schedule": "The schedule named this fire time.",
    "catch_up": "The fire time was missed; the misfire policy runs it late, behind live fires.",
    "manual": "A person ran the job by hand.",
    "backfill": "A backfill of a past range made it.",
    "rerun": "A person ran an earlier execution again.",
}
HELD: Final[Mapping[str, str]] = {
    Reason.TURN: "an earlier execution of the job had the turn (overlap: {overlap})",
    Reason.SLOT: "no slot of its limit key{key} was free",
    Reason.RATE: "the rate of its limit key{key} had no room for it",
    Reason.TENANT_LIMIT: "its worker's shares of its tenant's limits were used up",
    Reason.IN_FLIGHT: "its worker's share of its tenant's limit of executions in flight was used up",
    Reason.FIRES: "its worker's share of its tenant's limit of fires per second was used up",
    Reason.HOST: "it waited for the host of its target",
    Reason.HOST_LINE: "the line of calls for the host of its target was too long",
    Reason.HOST_REST: "the host of its target was at rest after failing",
    Reason.HOST_NAME: "the name of its target's host had no answer yet",
    Reason.HOST_TOKEN: "the host that gives tokens for its target was at rest after failing",
    Reason.TASK: "its task had put it off",
    Reason.DESCRIPTORS: "its worker had no file descriptor left for the call",
    Reason.PLACE: "its worker was busy with other executions",
    Reason.OTHERS: "other workers were running and did not take it",
    Reason.VERSION: "no worker was there that can use it",
    Reason.NEWER: "no worker was there that can read it: a newer version wrote it",
    Reason.KEY: "no worker was there that has the key of its secrets",
    Reason.OUTAGE: "no worker was running",
    Reason.DATABASE: "its worker could not reach the database",
    Reason.WORKER: "it was claimed by a worker that vanished before starting it",
    Reason.PLANNING: "no scheduler had planned it",
}
"""What a wait was about."""


_NEXT: Final[Mapping[str, str]] = {
    Reason.HOST: "It waits for the host of its target",
    Reason.HOST_LINE: "The line of calls for the host of its target is too long",
    Reason.HOST_REST: "The host of its target is given a rest after failing",
    Reason.HOST_NAME: "The name of its target's host has no answer yet",
    Reason.HOST_TOKEN: "The host that gives tokens for its target is given a rest after failing",
    Reason.TASK: "Its task put it off",
    Reason.DESCRIPTORS: "A worker had no file descriptor left for its call",
    Reason.VERSION: "It waits for a worker that can use it",
    Reason.NEWER: "It waits for a worker that can read it: a newer version wrote it",
    Reason.KEY: "It waits for a worker that has the key of its secrets",
}
"""What was put off, before the instant of its next try."""


class Step(msgspec.Struct, frozen=True):
    """A part of an execution's life, in words. `kind` is a wait's reason, or what happened."""

    kind: str
    words: str
    since: Instant | None = None
    until: Instant | None = None


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand around an execution that is due and queued."""

    queue_paused_at: Instant | None = None
    queue_paused_by: str | None = None
    queue_pause_reason: str | None = None
    queue_paused_until: Instant | None = None
    tenant_suspended: bool = False
    task: str | None = None
    """The task that it calls, if it calls one: only remote workers can run it."""
    last_worker: str | None = None
    """The worker that served the task last, and when it was heard of."""
    last_seen_at: Instant | None = None
    running: int = 0
    """Live workers."""
    workers_of_queue: int = 0
    """Those of them that serve its queue."""
    workers: int = 0
    """Those of the latter that serve its route, too: they can run it."""
    saturated: int = 0
    """Those of the latter whose places are all taken."""
    in_flight: int | None = None
    """How many executions of the tenant are in flight, if it is limited in that."""
    in_flight_limit: int | None = None
    fires_per_second: float | None = None


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
    waits: list[Wait]
    late_for: str | None
    missed_after: Instant | None = None

    @property
    def first_start(self) -> Instant | None:
        """When the first attempt started."""
        return self.attempts[0].started_at if self.attempts else self.started_at


def explain(facts: Facts, around: Surroundings, now: Instant, pauses: Sequence[Held] = ()) -> list[Step]:
    """The steps, in the order of the execution's life. `pauses` are those of its queue since it was due."""
    return [
        Step(
            "origin",
            _ORIGINS.get(facts.cause, f"Its cause is {facts.cause!r}, which only a newer version knows."),
        ),
        *_waits(facts, pauses, now),
        *_past_attempts(facts),
        *_present(facts, around, now),
        *_end(facts),
    ]


def _waits(facts: Facts, pauses: Sequence[Held], now: Instant) -> Iterator[Step]:
    """What held it back until its first start, and how late that was."""
    timing = Timing(
        due_at=facts.due_at,
        run_at=facts.run_at,
        first_start=facts.first_start,
        retried=bool(facts.attempts),
    )
    begun = facts.first_start or facts.finished_at
    held = {pause.since: pause for pause in _within(pauses, facts.due_at, begun)}
    waits = outside(waits_before_start(timing, facts.waits, facts.late_for), list(held.values()))
    waits += [Wait(Reason.QUEUE_PAUSED, since, pause.until) for since, pause in held.items()]
    for wait in sorted(waits, key=lambda wait: wait.since):
        if wait.until is not None and wait.until - wait.since >= MILLISECOND:
            span, pause = _span(wait.until - wait.since), held.get(wait.since)
            words = (
                _paused(pause) if pause and wait.reason == Reason.QUEUE_PAUSED else _held(wait.reason, facts)
            )
            yield Step(kind_of(wait.reason), f"For {span} {words}.", wait.since, wait.until)
    if facts.first_start is not None:
        yield _started(facts, facts.first_start, unexplained(timing, waits, now))


def _within(pauses: Sequence[Held], due_at: Instant, begun: Instant | None) -> Iterator[Held]:
    """Those parts of pauses that lie between due and start, or the end of what never started."""
    for pause in pauses:
        since = max(pause.since, due_at)
        until = pause.until if begun is None else min(pause.until or begun, begun)
        if until is None or since < until:
            yield Held(since, until, pause.by, pause.reason)


def _paused(pause: Held) -> str:
    return f"its queue was paused by {pause.by}{_because(pause.reason)}"


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _started(facts: Facts, first_start: Instant, unexplained_span: int) -> Step:
    lag = max(0, first_start - facts.due_at)
    words = f"It started {_span(lag)} after it was due."
    if facts.cause == "catch_up":
        words = f"It started {_span(lag)} after its fire time, because it had been missed."
    elif unexplained_span >= LATE:
        words += f" For {_span(unexplained_span)} of that no cause was recorded."
    return Step("started", words, first_start)


def _held(reason: str, facts: Facts) -> str:
    """What a wait was about, after 'For 3s'."""
    words = HELD.get(reason) or HELD.get(kind_of(reason), f"it waited ({reason})")
    return words.format(overlap=facts.overlap or "not allowed", key=_key(facts))


def _key(facts: Facts) -> str:
    return f" {facts.limit_key!r}" if facts.limit_key is not None else ""


def _past_attempts(facts: Facts) -> Iterator[Step]:
    for attempt in facts.attempts:
        words = f"Attempt {attempt.number} {attempt.verdict}: {attempt.error}."
        if attempt.verdict is Verdict.LOST:
            words = f"Attempt {attempt.number} was lost: its worker died or hung past the claim's deadline."
        yield Step("attempt", words, attempt.started_at, attempt.finished_at)


def _present(facts: Facts, around: Surroundings, now: Instant) -> Iterator[Step]:
    """Where it stands if it is live and not running."""
    if facts.state is State.CLAIMED:
        if facts.run_at > now:
            words = f"A worker holds it in memory and starts it in {_span(facts.run_at - now)}."
        else:
            words = "A worker has claimed it and has not started it yet."
        yield Step("claimed", words)
    elif facts.state is State.QUEUED:
        yield _queued(facts, around, now)


def _queued(facts: Facts, around: Surroundings, now: Instant) -> Step:
    since = facts.waits[-1].since if facts.waits_for and facts.waits else None
    reason = _known(facts)
    if reason in _NEXT:
        words = f"{_NEXT[reason]}: the next try is at {format_instant(facts.run_at)}."
        return Step(kind_of(reason), words, since)
    match facts.waits_for:
        case Reason.TURN if facts.due_at <= now:
            words = f"It waits for an earlier execution of the job (overlap: {facts.overlap})."
        case Reason.SLOT if facts.due_at <= now:
            words = f"It waits for a free slot: as many executions of limit key {facts.limit_key!r} run as may at once."
        case Reason.RATE if facts.due_at <= now:
            words = f"It waits for its place in the rate of limit key {facts.limit_key!r}: {format_instant(facts.run_at)}."
        case _:
            return _plainly_queued(facts, around, now)
    return Step(facts.waits_for, words, since)


def _known(facts: Facts) -> str:
    """What it waits for, as exactly as that is known: the last of its waits says more, if it is this one."""
    last = facts.waits[-1].reason if facts.waits else ""
    return last if last in _NEXT and kind_of(last) == facts.waits_for else facts.waits_for or ""


def _plainly_queued(facts: Facts, around: Surroundings, now: Instant) -> Step:
    if facts.attempts and facts.run_at <= now and around.queue_paused_at is not None:
        late = f"Attempt {facts.attempt} has been due for {_span(now - facts.run_at)}"
        return _due_and_queued(late, around)
    if facts.attempts:
        at = format_instant(facts.run_at)
        return Step("retry", f"It waits for attempt {facts.attempt} at {at}, after a failed one.")
    if facts.due_at > now:
        return Step("due", f"It is due in {_span(facts.due_at - now)}.")
    late = f"It has been due for {_span(now - facts.due_at)}"
    if facts.missed_after is not None and facts.missed_after < now:
        late += ", longer than its grace, so its misfire policy decides about it as soon as it could start"
    return _due_and_queued(late, around)


def _due_and_queued(late: str, around: Surroundings) -> Step:
    """What stands in the way at this moment."""
    if around.tenant_suspended:
        return Step(Reason.SUSPENSION, f"{late}: its tenant is suspended.")
    if around.queue_paused_at is not None:
        return Step(Reason.QUEUE_PAUSED, f"{late}: {_queue_pause(around)}.", around.queue_paused_at)
    if around.task is None:
        if (unserved := _unserved(late, around)) is not None:
            return unserved
    elif not around.workers:
        return Step(
            "unserved", f"{late}: no live worker serves the task {around.task} in its queue{_last(around)}."
        )
    limit = around.in_flight_limit
    if limit is not None and (around.in_flight or 0) >= limit:
        return Step(Reason.TENANT_LIMIT, f"{late}: its tenant has {limit} executions in flight, its limit.")
    if around.saturated >= around.workers:
        return Step(
            Reason.PLACE,
            f"{late}: every place of the {around.workers} workers that serve its queue is taken.",
        )
    if around.fires_per_second is not None:
        words = f"{late}: its tenant may start {around.fires_per_second:g} executions per second."
        return Step(Reason.TENANT_LIMIT, words)
    return Step("ready", f"{late}; a worker takes it with its next look.")


def _unserved(late: str, around: Surroundings) -> Step | None:
    """Whether no node of the fleet can run it."""
    if not around.running:
        return Step(Reason.OUTAGE, f"{late}: no worker is running.")
    if not around.workers_of_queue:
        return Step("unserved", f"{late}: no worker serves its queue.")
    if not around.workers:
        return Step("unserved", f"{late}: no worker of its queue can run its kind of target.")
    return None


def _last(around: Surroundings) -> str:
    """Who served the task before, as far as that is known."""
    if around.last_worker is None or around.last_seen_at is None:
        return ""
    return f"; the last one was {around.last_worker}, heard of at {format_instant(around.last_seen_at)}"


def _queue_pause(around: Surroundings) -> str:
    """The pause of its queue that lasts: by whom, since when, why, until when."""
    at, until = around.queue_paused_at, around.queue_paused_until
    since = "" if at is None else f" since {format_instant(at)}"
    end = "" if until is None else f"; it ends at {format_instant(until)}"
    by = around.queue_paused_by or "a person"
    return f"its queue is paused{since} by {by}{_because(around.queue_pause_reason)}{end}"


def _end(facts: Facts) -> Iterator[Step]:
    match facts.state:
        case State.RUNNING:
            asked = " It has been asked to stop." if facts.cancel_requested else ""
            yield Step("running", f"Attempt {facts.attempt} is running.{asked}", facts.started_at)
        case State.SKIPPED:
            why = SKIP_REASONS.get(facts.reason or "", facts.reason or "no reason recorded")
            yield Step("skipped", f"It was skipped: {why}.", facts.finished_at)
        case State.SUCCEEDED:
            words = f"Attempt {facts.attempt} succeeded."
            yield Step("succeeded", words, facts.started_at, facts.finished_at)
        case State.DEAD:
            words = f"Attempt {facts.attempt} failed and no more are allowed: {facts.reason}."
            yield Step("dead", words, facts.started_at, facts.finished_at)
        case State.CANCELLED:
            yield Step("cancelled", f"It was cancelled: {facts.reason}.", facts.finished_at)
        case State.EXPIRED:
            words = "It expired: it was not started within the time its job allows (start_within)."
            yield Step("expired", words, facts.finished_at)
        case _:
            return


def _span(span: int) -> str:
    return f"{span / MILLISECOND:.1f} ms" if span < SECOND else format_span(span // SECOND * SECOND)
