"""What chooses the partition of a new job: what must be unique, else chance."""

from types import SimpleNamespace
from typing import Any

from tocsin.api.definitions import new_job
from tocsin.domain.cells import partition_for
from tocsin.domain.ids import partition_of
from tocsin.domain.instant import SECOND
from tocsin.domain.job import Definition
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget

NOW = 1_900_000_000 * SECOND
RECURRING, ONCE = Schedule(every="1h"), Schedule(at="2031-01-01T00:00:00Z")


def partitions(schedule: Schedule, name: str | None, key: str | None = None) -> set[int]:
    """Of many jobs that were created alike."""
    call: Any = SimpleNamespace(
        context=SimpleNamespace(shard_count=64), asker=SimpleNamespace(tenant_id=1), trail=None
    )
    definition = Definition(schedule, NoopTarget(), name)
    return {partition_of(new_job(definition, call, NOW, key).id) for _ in range(50)}


def test_recurring_jobs_of_one_name_meet_in_one_partition_whatever_their_idempotency_keys() -> None:
    assert (
        partitions(RECURRING, "report") == partitions(RECURRING, "report", "k1") == {partition_for("report")}
    )


def test_requests_with_one_idempotency_key_meet_in_one_partition() -> None:
    assert partitions(RECURRING, None, "k1") == {partition_for("k1")}
    assert partitions(ONCE, "names of one-offs are not unique", "k1") == {partition_for("k1")}


def test_everything_else_is_spread_by_chance() -> None:
    assert len(partitions(RECURRING, None)) > 10
    assert len(partitions(ONCE, "names of one-offs are not unique")) > 10
