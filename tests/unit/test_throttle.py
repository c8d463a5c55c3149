"""The API's brakes: requests per second, pending jobs. Time passes when the test says so."""

import asyncio
from typing import Any

import pytest

from tocsin.api.endpoint import Asker
from tocsin.api.quota import PendingJobs
from tocsin.api.throttle import Throttle, TooManyRequests
from tocsin.clock import VirtualClock
from tocsin.domain.instant import SECOND
from tocsin.domain.keys import Scope
from tocsin.domain.limits import TenantLimits


def _caller(tenant_id: int = 1, *scopes: Scope, **limits: Any) -> Asker:
    return Asker(tenant_id, "key", frozenset(scopes or (Scope.READ,)), "tenant", TenantLimits(**limits))


def test_without_a_limit_nothing_is_said_and_nothing_refused() -> None:
    throttle = Throttle(VirtualClock(0))
    assert all(throttle.admit(_caller()) == {} for _ in range(1000))


def test_a_tenant_over_its_rate_is_told_when_to_come_again() -> None:
    clock = VirtualClock(0)
    throttle = Throttle(clock)
    asker = _caller(requests_per_second=0.5, request_burst=2)
    assert throttle.admit(asker)["ratelimit"] == '"requests";r=1;t=2'
    assert throttle.admit(asker)["ratelimit-policy"] == '"requests";q=2;w=4'
    with pytest.raises(TooManyRequests, match="requests_per_second") as refused:
        throttle.admit(asker)
    assert refused.value.status == 429
    assert refused.value.headers["retry-after"] == "2"
    assert refused.value.headers["ratelimit"] == '"requests";r=0;t=4'
    clock.advance(2 * SECOND)
    throttle.admit(asker)


def test_tenants_do_not_share_a_bucket_and_their_keys_do() -> None:
    throttle = Throttle(VirtualClock(0))
    throttle.admit(_caller(1, requests_per_second=1))
    throttle.admit(_caller(2, requests_per_second=1))
    with pytest.raises(TooManyRequests):
        throttle.admit(_caller(1, Scope.WRITE, requests_per_second=1))


def test_an_operator_passes_so_that_a_limit_can_be_lifted() -> None:
    throttle = Throttle(VirtualClock(0))
    for _ in range(10):
        assert throttle.admit(_caller(1, Scope.ADMIN, requests_per_second=1)) == {}


def test_a_changed_limit_counts_from_the_next_request_on() -> None:
    throttle = Throttle(VirtualClock(0))
    throttle.admit(_caller(requests_per_second=1))
    assert throttle.admit(_caller()) == {}
    with pytest.raises(TooManyRequests):
        throttle.admit(_caller(requests_per_second=2, request_burst=5))


class CountedTenants:
    """Says how many jobs are pending, and how often it was asked."""

    def __init__(self, clock: VirtualClock, pending: int = 0, takes: int = 0) -> None:
        self.clock = clock
        self.pending = pending
        self.takes = takes
        self.asked = 0

    async def pending_jobs(self, tenant_id: int, horizon: float, most: int) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        self.clock.advance(self.takes)
        return min(self.pending, most)


def _place(pending: int = 0, takes: int = 0) -> tuple[VirtualClock, CountedTenants, PendingJobs]:
    clock = VirtualClock(0)
    tenants = CountedTenants(clock, pending, takes)
    return clock, tenants, PendingJobs(tenants, clock, 30.0)  # type: ignore[arg-type]


def test_without_a_limit_nothing_is_counted() -> None:
    _, tenants, jobs = _place()
    assert asyncio.run(jobs.admit(1, None, 1000)) == 1000
    assert tenants.asked == 0


def test_jobs_fit_until_the_limit_and_what_was_admitted_counts() -> None:
    async def scenario() -> None:
        _, tenants, jobs = _place(pending=7)
        assert [await jobs.admit(1, 10) for _ in range(5)] == [1, 1, 1, 0, 0]
        assert await jobs.admit(2, 10, 99) == 3, "of a batch, as many as fit"
        assert tenants.asked == 2, "a fresh count is not made again for every refusal"

    asyncio.run(scenario())


def test_room_that_came_free_is_found_before_anybody_is_refused() -> None:
    async def scenario() -> None:
        clock, tenants, jobs = _place(pending=10)
        assert await jobs.admit(1, 10) == 0
        tenants.pending = 9
        clock.advance(2 * SECOND)
        assert await jobs.admit(1, 10) == 1

    asyncio.run(scenario())


def test_an_old_count_is_renewed_beside_the_requests_and_a_dear_one_less_often() -> None:
    async def scenario(takes: int, wait: int, expected: int) -> None:
        clock, tenants, jobs = _place(pending=1, takes=takes)
        await jobs.admit(1, 100)
        clock.advance(wait)
        assert await jobs.admit(1, 100) == 1
        await asyncio.sleep(0.01)
        assert tenants.asked == expected

    asyncio.run(scenario(0, 4 * SECOND, 1))
    asyncio.run(scenario(0, 6 * SECOND, 2))
    asyncio.run(scenario(SECOND, 6 * SECOND, 1))
    asyncio.run(scenario(SECOND, 51 * SECOND, 2))


def test_many_requests_at_once_share_one_count_and_none_gets_through_twice() -> None:
    async def scenario() -> None:
        _, tenants, jobs = _place(pending=90)
        admitted = await asyncio.gather(*(jobs.admit(1, 100) for _ in range(50)))
        assert sum(admitted) == 10
        assert tenants.asked == 1

    asyncio.run(scenario())


def test_a_raised_limit_is_counted_up_to() -> None:
    async def scenario() -> None:
        _, _, jobs = _place(pending=500)
        assert await jobs.admit(1, 100) == 0
        assert await jobs.admit(1, 1000, 600) == 500

    asyncio.run(scenario())
