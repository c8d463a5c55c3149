"""Judges what a run left behind. Pure: records in, violations out.

Every rule is one function over the records. None of them asks the product what should have happened: fire
times come from the simulation's own arithmetic, the legal ways through the states from the one table of the
lifecycle, and everything else from what triggers and the target wrote down.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from tests.simulation.records import Change, Promise, Records, Row
from tests.simulation.target import Hit
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import TRANSITIONS, Event, State


class Violation(msgspec.Struct, frozen=True):
    """A rule that was broken, and where."""

    rule: str
    words: str
    key: ExecutionKey | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.words}" + (
            f" [{self.key.job_id} @ {self.key.fire_at}]" if self.key else ""
        )


def check(records: Records) -> list[Violation]:
    """All violations, in a fixed order."""
    look = _Look(records)
    return [violation for rule in _RULES for violation in rule(look)]


class _Look:
    """The records with the look-ups that rules share."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.promises = {promise.job_id: promise for promise in records.promises}
        self.rows: dict[ExecutionKey, list[Row]] = defaultdict(list)
        for row in records.rows:
            self.rows[row.key].append(row)
        self.hits: dict[ExecutionKey, list[Hit]] = defaultdict(list)
        for hit in records.hits:
            self.hits[hit.key].append(hit)
        self.changes: dict[ExecutionKey, list[Change]] = defaultdict(list)
        for change in records.changes:
            self.changes[change.key].append(change)

    def run_rows(self) -> Iterator[Row]:
        """Executions that are over, without the runs of skips."""
        return (row for row in self.records.rows if row.fire_until is None)

    def starts(self, key: ExecutionKey) -> dict[tuple[int | None, int], Instant]:
        """When each (token, attempt) of an execution was started."""
        return {
            (change.token, change.attempt): change.started_at
            for change in self.changes[key]
            if change.state == State.RUNNING and change.started_at is not None
        }


def _services(look: _Look) -> Iterator[Violation]:
    for words in look.records.errors:
        yield Violation("service", words)


def _one_row_per_fire_time(look: _Look) -> Iterator[Violation]:
    """Every fire time is one execution or part of one run of skips; nothing else is there."""
    of_job: dict[object, list[Row]] = defaultdict(list)
    for row in (*look.records.rows, *look.records.live):
        of_job[row.job_id].append(row)
    for job_id in of_job.keys() - look.promises.keys():
        yield Violation("phantom", f"rows of a job that nobody defined: {job_id}")
    for promise in look.promises.values():
        yield from _of_one_job(promise, of_job[promise.job_id])


def _of_one_job(promise: Promise, rows: list[Row]) -> Iterator[Violation]:
    times = [
        time for time in promise.fire_times if promise.ended_before is None or time < promise.ended_before
    ]
    fired = [row for row in rows if row.fire_until is None and row.fire_at not in promise.manual]
    if promise.most_fires is not None:
        if len(fired) > promise.most_fires:
            yield Violation("fire times", f"{promise.name}: fired {len(fired)} of {promise.most_fires} times")
        if len(fired) == promise.most_fires:
            last = max(row.fire_until or row.fire_at for row in rows if row.fire_at not in promise.manual)
            times = [time for time in times if time <= last]
    covered: Counter[Instant] = Counter()
    for row in rows:
        if row.fire_until is None:
            covered[row.fire_at] += 1
            continue
        inside = times[bisect_left(times, row.fire_at) : bisect_right(times, row.fire_until)]
        covered.update(inside)
        if len(inside) != row.fire_count:
            words = f"{promise.name}: a run of {row.fire_count} skips covers {len(inside)} fire times"
            yield Violation("fire times", words, row.key)
    expected = {*times, *promise.manual}
    for time in sorted(expected):
        if covered[time] != 1:
            key = ExecutionKey(promise.job_id, time)
            yield Violation("fire times", f"{promise.name}: {covered[time]} rows for one fire time", key)
    for time in sorted(covered.keys() - expected):
        yield Violation("phantom", f"{promise.name}: nothing fires then", ExecutionKey(promise.job_id, time))


def _skipped_because_missed(look: _Look) -> Iterator[Violation]:
    """Only fire times that lie in the past may be skipped."""
    for row in look.records.rows:
        if row.state == State.SKIPPED and row.finished_at is not None:
            last = row.fire_until or row.fire_at
            if last > row.finished_at:
                yield Violation("skips", "skipped before it was missed", row.key)


def _nothing_left(look: _Look) -> Iterator[Violation]:
    for row in look.records.live:
        yield Violation("leftover", f"still live, attempt {row.attempt}", row.key)
    for job_id in look.records.unfinished:
        yield Violation("leftover", f"the schedule of {job_id} is over, but the job is not")


def _legal_paths(look: _Look) -> Iterator[Violation]:
    """Each execution goes only where the table of the lifecycle allows, and each step says who did it."""
    for key, changes in look.changes.items():
        before: Change | None = None
        for change in changes:
            if change.what == "gone":
                continue  # `ended` follows, unless a pause took it back
            if (words := _illegal(before, change)) is not None:
                yield Violation("lifecycle", words, key)
            before = change


def _illegal(before: Change | None, now: Change) -> str | None:
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
    tries = 1 if (before.state, now.state) == (State.RUNNING, State.QUEUED) else 0
    return (
        None if now.attempt == before.attempt + tries else f"attempt {now.attempt} follows {before.attempt}"
    )


_STEPS = {(state, after) for (state, event), after in TRANSITIONS.items()} | {(State.QUEUED, State.RUNNING)}
_REVIVABLE = {state for state, event in TRANSITIONS if event is Event.REVIVE}


def _claims_in_turn(look: _Look) -> Iterator[Violation]:
    """An attempt begins after the claim before it has ended, by the database's clock; none is taken back early."""
    for key, changes in look.changes.items():
        over: Instant = 0
        lost = {a["number"] for row in look.rows[key] for a in row.attempts if a.get("verdict") == "lost"}
        for before, now in pairwise(changes):
            if before.token is not None and now.token != before.token:
                over = now.at
            if now.state == State.RUNNING and now.started_at is not None and now.started_at < over:
                yield Violation("overlap", "started before the claim before it had ended", key)
            taken_back = (before.state, now.state) == (State.RUNNING, State.QUEUED)
            if taken_back and before.attempt in lost and now.at < (before.deadline_at or 0):
                yield Violation("overlap", f"attempt {before.attempt} was given up before its deadline", key)


def _never_early(look: _Look) -> Iterator[Violation]:
    for key, changes in look.changes.items():
        for change in changes:
            if change.state == State.RUNNING and change.started_at < change.run_at:
                yield Violation("early", f"started {change.run_at - change.started_at} µs early", key)
    for hit in look.records.hits:
        # Somebody who revives an execution that was called off ahead of its time wants it now.
        wanted = any(change.what == "revived" for change in look.changes[hit.key])
        if hit.at < hit.key.fire_at and not wanted:
            yield Violation("early", f"called {hit.key.fire_at - hit.at} µs early", hit.key)


def _never_too_late(look: _Look) -> Iterator[Violation]:
    """What has a latest start is not started later, unless somebody revives it."""
    for key, changes in look.changes.items():
        promise = look.promises.get(key.job_id)
        if promise is None or promise.start_within is None or len(promise.fire_times) == 1:
            continue
        latest = key.fire_at + promise.start_within
        for change in changes:
            if change.what == "revived" or key.fire_at in promise.manual:
                break
            if change.state == State.RUNNING and change.attempt == 1 and change.started_at > latest:
                yield Violation(
                    "late", f"started {change.started_at - latest} µs after its latest start", key
                )
                break


def _attempts_in_order(look: _Look) -> Iterator[Violation]:
    for row in look.run_rows():
        numbers = [attempt["number"] for attempt in row.attempts]
        if numbers not in (list(range(1, row.attempt)), list(range(1, row.attempt + 1))):
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


def _calls_explained(look: _Look) -> Iterator[Violation]:
    """A call belongs to a start by the very claim that made it, one for each; repeated calls have a reason."""
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


def _ends_are_true(look: _Look) -> Iterator[Violation]:
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


def _given_up(look: _Look, row: Row) -> bool:
    """Whether the row was ended for its worker at or after the claim's deadline."""
    deadlines = [c.deadline_at for c in look.changes[row.key] if c.token == row.token and c.deadline_at]
    return bool(deadlines) and row.finished_at is not None and row.finished_at >= deadlines[-1]


def _cancellations_kept(look: _Look) -> Iterator[Violation]:
    """Called off means that no attempt starts any more, until somebody revives it."""
    for cancellation in look.records.cancellations:
        changes = look.changes[cancellation.key]
        revived = [c.at for c in changes if c.what == "revived" and c.at >= cancellation.at]
        until = min(revived, default=None)
        for change in changes:
            late = change.state == State.RUNNING and change.started_at > cancellation.at
            if late and (until is None or change.started_at < until):
                words = f"answered {cancellation.answer}, but attempt {change.attempt} started afterwards"
                yield Violation("cancel", words, cancellation.key)
                break
        if cancellation.answer == "cancelled" and until is None:
            states = [row.state for row in look.rows[cancellation.key]]
            if states != ["cancelled"]:
                yield Violation("cancel", f"answered cancelled, ended as {states}", cancellation.key)


def _cancelled_by_somebody(look: _Look) -> Iterator[Violation]:
    asked = {cancellation.key for cancellation in look.records.cancellations}
    for row in look.run_rows():
        promise = look.promises.get(row.job_id)
        if (
            row.state == State.CANCELLED
            and row.key not in asked
            and (promise is None or promise.overlap != "replace")
        ):
            yield Violation("cancel", "cancelled, although nobody called it off", row.key)


def _no_overlap(look: _Look) -> Iterator[Violation]:
    """Of a job that must not overlap, one execution has the floor from its first start to its end."""
    holder: dict[object, ExecutionKey] = {}
    for change in look.records.changes:
        promise = look.promises.get(change.job_id)
        if promise is None or promise.overlap == "allow":
            continue
        other = holder.get(change.job_id)
        if change.what in ("gone", "ended"):
            if other == change.key:
                del holder[change.job_id]
        elif change.state == State.RUNNING:
            if other is not None and other != change.key:
                yield Violation("solo", f"started while {other.fire_at} was not over", change.key)
            holder[change.job_id] = change.key


def _limits_kept(look: _Look) -> Iterator[Violation]:
    """Of all executions that share a limit's key, no more run at once than it allows."""
    running: dict[str, set[ExecutionKey]] = defaultdict(set)
    for change in look.records.changes:
        promise = look.promises.get(change.job_id)
        if promise is None or promise.limit_key is None:
            continue
        at_once = running[promise.limit_key]
        if change.state != State.RUNNING or change.what == "gone":
            at_once.discard(change.key)
        elif change.key not in at_once:
            at_once.add(change.key)
            if len(at_once) > promise.max_parallel:
                words = f"{len(at_once)} run at once under a limit of {promise.max_parallel}"
                yield Violation("limit", words, change.key)


def _epochs_grow(look: _Look) -> Iterator[Violation]:
    newest: dict[int, int] = {}
    for change in look.records.leases:
        given = change.owner is None
        if change.epoch < newest.get(change.shard, 0) or (not given and change.epoch <= change.epoch_before):
            yield Violation(
                "lease", f"shard {change.shard}: epoch {change.epoch} after {change.epoch_before}"
            )
        taken = not given and change.owner_before is not None
        if taken and change.expired_before > change.at:
            yield Violation("lease", f"shard {change.shard}: taken while node {change.owner_before} held it")
        newest[change.shard] = change.epoch


def _plans_by_holders(look: _Look) -> Iterator[Violation]:
    """A planner's write took effect only under a lease that was its own, by epoch, at that moment."""
    for move in look.records.moves:
        if move.writer is None:
            continue
        node, *epochs = move.writer.split(",")
        believed = dict(tuple(map(int, text.split(":"))) for text in epochs)
        if (move.owner, move.epoch) != (int(node), believed.get(move.shard)) or move.expires_at <= move.at:
            yield Violation("lease", f"node {node} planned {move.job_id} without holding shard {move.shard}")
        if move.before is not None and move.after is not None and move.after < move.before:
            yield Violation("lease", f"node {node} moved the cursor of {move.job_id} back")


_RULES = (
    _services,
    _one_row_per_fire_time,
    _skipped_because_missed,
    _nothing_left,
    _legal_paths,
    _claims_in_turn,
    _never_early,
    _never_too_late,
    _attempts_in_order,
    _calls_explained,
    _ends_are_true,
    _cancellations_kept,
    _cancelled_by_somebody,
    _no_overlap,
    _limits_kept,
    _epochs_grow,
    _plans_by_holders,
)
