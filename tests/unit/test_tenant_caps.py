"""A tenant's limits are shared between workers so that the shares never add up to more."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import SECOND
from tocsin.domain.waits import Reason
from tocsin.queue.lanes import Lane, LaneView
from tocsin.queue.tenant_caps import Rank, TenantCaps

PATIENCE = 10.0


def rank(node_id: int, workers: list[int], *, since: float = 0.0) -> Rank:
    made = Rank(node_id, PATIENCE)
    made.learn(workers, since)
    return made


@given(limit=st.integers(1, 10_000), workers=st.sets(st.integers(1, 1000), min_size=1, max_size=20))
def test_whole_shares_of_all_workers_add_up_to_the_limit(limit: int, workers: set[int]) -> None:
    shares = [rank(node, list(workers)).share(limit, PATIENCE) for node in workers]
    assert sum(shares) == limit
    assert max(shares) - min(shares) <= 1


def test_a_new_worker_waits_with_its_share_until_the_others_have_heard_of_it() -> None:
    new = rank(2, [1, 2], since=100.0)
    assert new.share(10, 100.0 + PATIENCE - 0.1) == 0
    assert new.share(10, 100.0 + PATIENCE) == 5


def test_a_lone_worker_has_all_of_it_at_once() -> None:
    assert rank(7, [7], since=100.0).share(10, 100.0) == 10


def test_a_worker_that_the_fleet_does_not_count_takes_nothing() -> None:
    assert rank(3, [1, 2]).share(10, PATIENCE) == 0


def view(tenant: int, **limits: float) -> LaneView:
    return LaneView(Lane("default", 5, tenant, "http"), 1, 0, **limits)  # type: ignore[arg-type]


def test_tenants_without_limits_have_no_cap() -> None:
    assert TenantCaps(rank(1, [1])).caps([view(1)], [], SECOND) == {}


def test_what_is_in_flight_counts_against_the_limit() -> None:
    class Claim:
        tenant_id = 1

    shares = TenantCaps(rank(1, [1]))
    assert shares.caps([view(1, in_flight=3)], [Claim(), Claim()], SECOND) == {1: 1}  # type: ignore[list-item]
    assert shares.caps([view(1, in_flight=3)], [Claim()] * 5, SECOND) == {1: 0}  # type: ignore[list-item]


def test_the_limit_that_leaves_less_is_told() -> None:
    class Claim:
        tenant_id = 1

    both = view(1, in_flight=3, fires_per_second=2.0)
    for held, limit in ((0, Reason.FIRES), (2, Reason.IN_FLIGHT)):
        shares = TenantCaps(rank(1, [1]))
        shares.caps([both, view(2, in_flight=1)], [Claim()] * held, 10 * SECOND)  # type: ignore[list-item]
        assert shares.limits == {1: limit, 2: Reason.IN_FLIGHT}


@given(rate=st.integers(1, 500), looks=st.lists(st.integers(1, 2_000_000), min_size=1, max_size=50))
def test_never_more_than_the_rate_and_a_second_of_burst_is_granted(rate: int, looks: list[int]) -> None:
    class Claim:
        tenant_id = 1

    shares, now, taken = TenantCaps(rank(1, [1])), 0, 0
    for wait in looks:
        now += wait
        cap = shares.caps([view(1, fires_per_second=rate)], [], now)[1]
        shares.spend([Claim()] * cap)  # type: ignore[list-item]
        taken += cap
    assert taken <= rate * (now / SECOND) + rate


def test_rates_of_tenants_that_have_nothing_to_start_are_forgotten_and_nothing_is_lost() -> None:
    shares = TenantCaps(rank(1, [1]))
    for tenant in range(1, 1000):
        assert shares.caps([view(tenant, fires_per_second=2.0)], [], tenant * SECOND)[tenant] == 2
    assert len(shares._flows) < 50
    assert shares.caps([view(1, fires_per_second=2.0)], [], 2000 * SECOND) == {1: 2}


def test_a_rate_that_is_used_up_is_not_forgotten_before_it_is_full_again() -> None:
    class Claim:
        tenant_id = 1

    shares = TenantCaps(rank(1, [1]))
    slow = view(1, fires_per_second=0.01)
    assert shares.caps([slow], [], 200 * SECOND) == {1: 1}
    shares.spend([Claim()])  # type: ignore[list-item]
    for tenant in range(2, 80):
        shares.caps([view(tenant, fires_per_second=2.0)], [], (200 + tenant) * SECOND)
    assert shares.caps([slow], [], 290 * SECOND) == {1: 0}
    assert shares.caps([slow], [], 301 * SECOND) == {1: 1}
