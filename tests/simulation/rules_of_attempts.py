"""Rules about one execution: it goes only where the lifecycle allows, under one claim at a time, and says
what is true."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.records import Change, Row
from tests.simulation.verdict import Look, Violation
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import TRANSITIONS, Event, State


def legal_paths(look: Look) -> Iterator[Violation]:
    """Each execution goes only where the table of the lifecycle allows, and each step says who did it."""
    for key, changes in look.changes.items():
        before: Change | None = None
        for change in changes:
            if change.what == "gone":
                continue  # `ended` follows, unless a pause took it back
            called = before is not None and any(
                (hit.token, hit.attempt) == (before.token, before.attempt) for hit in look.hits.get(key, ())
            )
            if (words := _illegal(before, change, called=called)) is not None:
                yield Violation("lifecycle", words, key)
            before = change


def _illegal(before: Change | None, now: Change, *, called: bool) -> str | None:
    if now.what == "revived":
        return None if before is not None and before.state == now.state else "revived out of nowhere"
    if before is None or now.what == "born":
        held = before is None or before.state in (State.QUEUED, State.CLAIMED) or before.what == "revived"
        if before is not None and before.what == "revived" and State(before.state) not in _REVIVABLE:
            return f"revived although {before.state}"
        if not held:
            return f"made again although {before.state}" if before else None
        return None if now.state in (State.QUEUED, State.SKIPPED) else f"born {now.state}"
    if before.state == now.state and before.token == now.token and now.what == "changed":
        return None if before.attempt == now.attempt else "the attempt changed without a reason"
    if (before.state, now.state) not in _STEPS:
        return f"went from {before.state} to {now.state}"
    if before.token is not None and now.token is not None and before.token != now.token:
        return f"{before.state} under one claim, {now.state} under another"
    tries = {0}
    if (before.state, now.state) == (State.RUNNING, State.QUEUED):
        # Who takes back another's attempt does not know whether it made its call, and counts it.
        tries = {1} if called else {0, 1}
    known = now.attempt - before.attempt in tries
    return None if known else f"attempt {now.attempt} follows {before.attempt}"


_STEPS = {(state, after) for (state, event), after in TRANSITIONS.items()} | {(State.QUEUED, State.RUNNING)}
_REVIVABLE = {state for state, event in TRANSITIONS if event is Event.REVIVE}


def claims_in_turn(look: Look) -> Iterator[Violation]:
    """An attempt begins after the claim before it has ended, by the database's clock; none is taken back
    early."""
    for key, changes in look.changes.items():
        over: Instant = 0
        lost = {a["number"] for row in look.rows[key] for a in row.attempts if a.get("verdict") == "lost"}
        for before, now in pairwise(changes):
            if before.token is not None and now.token != before.token:
                over = now.at
            if now.state == State.RUNNING and now.started_at is not None and now.started_at < over:
                yield Violation("overlap", "started before the claim before it had ended", key)
            taken_back = (before.state, now.state) == (State.RUNNING, State.QUEUED)
            # A start that is undone, because its call was not made, costs no attempt; another may be lost
            # later by that number.
            undone = now.attempt == before.attempt
            if taken_back and not undone and before.attempt in lost and now.at < (before.deadline_at or 0):
                yield Violation("overlap", f"attempt {before.attempt} was given up before its deadline", key)


def attempts_in_order(look: Look) -> Iterator[Violation]:
    for row in look.run_rows():
        numbers = [attempt["number"] for attempt in row.attempts]
        if numbers != list(range(1, row.attempt)):
            yield Violation("attempts", f"attempt {row.attempt} is preceded by {numbers}", row.key)
        if any(attempt["verdict"] == "succeeded" for attempt in row.attempts):
            yield Violation("attempts", "tried again after a success", row.key)
        promise = look.promises.get(row.job_id)
        if promise is None:
            continue
        for first, second in pairwise(row.attempts):
            gap = second.get("started_at", 0) - first.get("finished_at", 0)
            if first["verdict"] in ("failed", "timed_out") and 0 < gap < promise.least_backoff:
                yield Violation("attempts", f"tried again after {gap} µs", row.key)
        rounds = 1 + sum(change.what == "revived" for change in look.changes[row.key])
        if row.attempt > promise.max_attempts * rounds:
            yield Violation("attempts", f"{row.attempt} attempts, {promise.max_attempts} allowed", row.key)


def calls_explained(look: Look) -> Iterator[Violation]:
    """A call belongs to a start by the very claim that made it, one for each; repeated calls have a
    reason."""
    for key, hits in look.hits.items():
        starts = look.starts(key)
        for hit in hits:
            started_at = starts.get((hit.token, hit.attempt))
            if started_at is None or started_at > hit.at:
                yield Violation("calls", f"attempt {hit.attempt} was called without having been started", key)
        for attempt, number in Counter(hit.attempt for hit in hits).items():
            if number > 1:
                yield Violation("calls", f"attempt {attempt} was called {number} times", key)
        for row in look.rows[key]:
            known = {attempt["number"] for attempt in row.attempts} | {row.attempt}
            if strays := sorted({hit.attempt for hit in hits} - known):
                yield Violation("calls", f"attempts {strays} were called and are not on record", key)
        if not look.rows[key] and not any(row.key == key for row in look.records.live):
            yield Violation("calls", "called, but there is no such execution", key)


def ends_are_true(look: Look) -> Iterator[Violation]:
    """What history says of the last attempt is what its own call was told."""
    for row in look.run_rows():
        promise = look.promises.get(row.job_id)
        mine = [hit for hit in look.hits[row.key] if (hit.token, hit.attempt) == (row.token, row.attempt)]
        if (
            row.state == State.SUCCEEDED
            and promise is not None
            and promise.called
            and not any(h.good for h in mine)
        ):
            told = [hit.fate for hit in mine]
            yield Violation("truth", f"succeeded, but its call was told {told}", row.key)
        given_up = _given_up(look, row) or "the worker stopped" in (row.reason or "")
        if row.state == State.DEAD and any(hit.good and hit.heard for hit in mine) and not given_up:
            yield Violation("truth", "dead, but its call went well", row.key)
        if row.state == State.EXPIRED:
            if promise is None or promise.start_within is None:
                yield Violation("truth", "expired without a latest start", row.key)
            elif mine:
                yield Violation("truth", "expired, but called", row.key)


def _given_up(look: Look, row: Row) -> bool:
    """Whether the row was ended for its worker at or after the claim's deadline."""
    mine = [change for change in look.changes[row.key] if change.token == row.token]
    deadlines = [change.deadline_at for change in mine if change.deadline_at]
    ended = [change.at for change in mine if change.what == "ended"]
    return bool(deadlines and ended) and ended[-1] >= deadlines[-1]
