"""Rules about fire times and about who may plan them: each fire time has one row, on time, by a holder of its
shard."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.simulation.records import Promise, Row
from tests.simulation.verdict import Look, Violation
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import State


def one_row_per_fire_time(look: Look) -> Iterator[Violation]:
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
    fired = [
        row
        for row in rows
        if row.fire_until is None and row.fire_at not in promise.manual and not _was_dropped(row)
    ]
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


def _was_dropped(row: Row) -> bool:
    """Whether it was planned, missed, and does not run: that is no fire."""
    return row.state == State.SKIPPED and (row.reason or "").startswith("misfire")


def skipped_because_missed(look: Look) -> Iterator[Violation]:
    """Only fire times that lie in the past may be skipped."""
    for row in look.records.rows:
        if row.state == State.SKIPPED and row.finished_at is not None:
            last = row.fire_until or row.fire_at
            if last > row.finished_at:
                yield Violation("skips", "skipped before it was missed", row.key)


def nothing_left(look: Look) -> Iterator[Violation]:
    for row in look.records.live:
        yield Violation("leftover", f"still live, attempt {row.attempt}", row.key)
    for job_id in look.records.unfinished:
        yield Violation("leftover", f"the schedule of {job_id} is over, but the job is not")


def never_early(look: Look) -> Iterator[Violation]:
    for key, changes in look.changes.items():
        for change in changes:
            if change.state == State.RUNNING and change.started_at < change.run_at:
                yield Violation("early", f"started {change.run_at - change.started_at} µs early", key)
    for hit in look.records.hits:
        # Somebody who revives an execution that was called off ahead of its time wants it now.
        wanted = any(change.what == "revived" for change in look.changes[hit.key])
        if hit.at < hit.key.fire_at and not wanted:
            yield Violation("early", f"called {hit.key.fire_at - hit.at} µs early", hit.key)


def never_too_late(look: Look) -> Iterator[Violation]:
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
    yield from _never_called_too_late(look)


def _never_called_too_late(look: Look) -> Iterator[Violation]:
    """The same of what was started ahead of its instant, which says only in its history when it fired."""
    for row in look.records.rows:
        promise = look.promises.get(row.job_id)
        if promise is None or promise.start_within is None or row.fire_at in promise.manual:
            continue
        first = row.attempts[0] if row.attempts else {"started_at": row.started_at}
        revived = any(change.what == "revived" for change in look.changes.get(row.key, ()))
        latest = row.fire_at + promise.start_within
        if (first.get("started_at") or 0) > latest and len(promise.fire_times) > 1 and not revived:
            yield Violation(
                "late", f"fired {first['started_at'] - latest} µs after its latest start", row.key
            )


def epochs_grow(look: Look) -> Iterator[Violation]:
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


def plans_by_holders(look: Look) -> Iterator[Violation]:
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
