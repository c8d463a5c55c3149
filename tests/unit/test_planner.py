"""Looks for late jobs may be slow; planning what is on time goes on beside them."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.simulation.virtual_time import START, run_virtually
from tocsin.clock import VirtualClock
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.planner import Planner
from tocsin.store.plans import DueJob, PlanStore, Written
from tocsin.store.unread import Unread
from tocsin.telemetry import Telemetry


class SlowStore:
    """Looks for late jobs take a second. Remembers which looks were for them."""

    def __init__(self, *late: DueJob) -> None:
        self.clock = VirtualClock(START)
        self.looks: list[bool] = []
        self.fails = False
        self.unread = Unread("job")
        self._late = list(late)

    async def due(self, _shards: list[int], *_: Any, late: bool) -> list[DueJob]:
        self.looks.append(late)
        self.clock.advance(SECOND if late else 0)
        if late and self.fails:
            raise TimeoutError
        return self._late if late else []

    async def calendars(self, _due: list[DueJob]) -> dict[Any, Any]:
        return {}

    async def missed(self, _job_ids: list[UUID]) -> dict[Any, Any]:
        return {}

    async def write(self, _leases: dict[int, int], plans: list[Any], *, wake: bool) -> Written:
        assert wake in (True, False)
        return Written(1, len(plans), sum(len(plan.fires) for _, plan in plans))


def planning(store: SlowStore, shards: dict[int, int]) -> Planner:
    leases = cast("Leases", SimpleNamespace(trusted=lambda: shards))
    return Planner(
        cast("PlanStore", store),
        leases,
        horizon=45.0,
        wake_within=2.0,
        telemetry=Telemetry(),
        failpoints=Failpoints(),
    )


def run_every_second(store: SlowStore, seconds: int, shards: dict[int, int]) -> None:
    async def scene() -> None:
        planner = planning(store, shards)
        for _ in range(seconds):
            with suppress(TimeoutError):
                await planner.run_once(store.clock.now())
            store.clock.advance(SECOND)
            if len(store.looks) == seconds // 2:
                shards[5] = 1

    run_virtually(store.clock, scene())


def test_a_slow_look_for_late_jobs_that_found_none_is_rare() -> None:
    store = SlowStore()
    run_every_second(store, 100, {5: 1})
    assert len(store.looks) == 100
    assert sum(store.looks) in (5, 6)


def test_a_look_for_late_jobs_that_was_given_up_is_not_tried_again_at_once() -> None:
    store = SlowStore()
    store.fails = True
    run_every_second(store, 100, {5: 1})
    assert sum(store.looks) in (5, 6)


def test_shards_that_are_new_are_looked_at_for_late_jobs_at_once() -> None:
    store = SlowStore()
    run_every_second(store, 10, {0: 1})
    assert [place for place, late in enumerate(store.looks) if late] == [0, 5]


def test_while_there_are_late_jobs_each_look_is_for_them_too() -> None:
    cursor: Instant = START - 120 * SECOND
    store = SlowStore(DueJob(UUID(int=7), 0, 1, cursor, 1, 0, Schedule(every=3600.0), Policies()))
    run_every_second(store, 20, {0: 1, 5: 1})
    assert all(store.looks)
