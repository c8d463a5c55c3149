"""Rules about what people asked for: cancellations are kept, executions that must not overlap take turns,
limits hold."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.simulation.records import Change
from tests.simulation.verdict import Look, Violation
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.lifecycle import State


def cancellations_kept(look: Look) -> Iterator[Violation]:
    """Called off means that no attempt starts any more, until somebody revives it."""
    for cancellation in look.records.cancellations:
        changes = look.changes[cancellation.key]
        revived = [c.at for c in changes if c.what == "revived" and c.at >= cancellation.at]
        until = min(revived, default=None)
        for start in _starts(changes):
            if start.at > cancellation.at and (until is None or start.at < until):
                words = f"answered {cancellation.answer}, but attempt {start.attempt} started afterwards"
                yield Violation("cancel", words, cancellation.key)
                break
        if cancellation.answer == "cancelled" and until is None:
            states = [row.state for row in look.rows[cancellation.key]]
            if states != ["cancelled"]:
                yield Violation("cancel", f"answered cancelled, ended as {states}", cancellation.key)


def _starts(changes: Iterable[Change]) -> list[Change]:
    """The change by which each attempt started; it may have waited for its instant after that."""
    running = [change for change in changes if change.state == State.RUNNING and change.what != "gone"]
    return list({change.token: change for change in reversed(running)}.values())


def cancelled_by_somebody(look: Look) -> Iterator[Violation]:
    asked = {cancellation.key for cancellation in look.records.cancellations}
    for row in look.run_rows():
        promise = look.promises.get(row.job_id)
        if (
            row.state == State.CANCELLED
            and row.key not in asked
            and (promise is None or promise.overlap != "replace")
        ):
            yield Violation("cancel", "cancelled, although nobody called it off", row.key)


def no_overlap(look: Look) -> Iterator[Violation]:
    """Of a job that must not overlap, one execution has the turn from its first start to its end."""
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


def limits_kept(look: Look) -> Iterator[Violation]:
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
