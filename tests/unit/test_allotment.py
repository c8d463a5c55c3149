"""Sharing a worker's places between lanes: by priority, then by weight over time, whatever the room."""

from collections import Counter
from collections.abc import Callable, Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from tocsin.domain.instant import SECOND
from tocsin.queue.allotment import NO_DEFICITS, Allotment, allot, put_back
from tocsin.queue.lanes import Lane, LaneView

NOW = 1_900_000_000 * SECOND
lanes = st.builds(
    Lane,
    st.sampled_from(("default", "slow")),
    st.integers(0, 10),
    st.integers(1, 30),
    st.sampled_from(("noop", "http")),
)


@st.composite
def views(draw: st.DrawFn) -> list[LaneView]:
    chosen = draw(st.lists(lanes, unique=True, max_size=40))
    weights = {lane.tenant_id: draw(st.integers(1, 1000)) for lane in chosen}
    return [LaneView(lane, weights[lane.tenant_id], NOW) for lane in chosen]


rooms = st.integers(0, 2000)
caps = st.dictionaries(st.integers(1, 30), st.integers(0, 50))
some_weights = st.lists(st.integers(1, 20), min_size=1, max_size=15)


def level_of(weights: Sequence[int]) -> list[LaneView]:
    """One lane each of tenants with these weights."""
    return [
        LaneView(Lane("default", 5, tenant, "noop"), weight, NOW) for tenant, weight in enumerate(weights)
    ]


def taken_over(
    level: Callable[[int], Sequence[LaneView]], rooms: Sequence[int], caps: dict[int, int] | None = None
) -> Counter[Lane]:
    """What lanes took over several calls, with the deficits remembered in between."""
    taken: Counter[Lane] = Counter()
    deficits = NO_DEFICITS
    for call, room in enumerate(rooms):
        allotments, deficits = allot(deficits, level(call), room, caps or {})
        for lane, take in allotments:
            taken[lane] += take
    return taken


@given(views(), st.lists(rooms, min_size=1, max_size=5), caps)
def test_no_more_is_allotted_than_there_is_room_and_none_is_left_while_a_lane_may_take_it(
    given_views: list[LaneView], given_rooms: list[int], given_caps: dict[int, int]
) -> None:
    deficits = NO_DEFICITS
    for room in given_rooms:
        allotments, deficits = allot(deficits, given_views, room, given_caps)
        assert all(allotment.take > 0 for allotment in allotments)
        assert len({allotment.lane for allotment in allotments}) == len(allotments)
        total = sum(allotment.take for allotment in allotments)
        tenants = {view.lane.tenant_id for view in given_views}
        assert total == min(room, sum(given_caps.get(tenant, room) for tenant in tenants))


@given(views(), st.lists(rooms, min_size=1, max_size=5), caps)
def test_a_tenant_with_a_cap_stays_below_it_over_all_its_lanes(
    given_views: list[LaneView], given_rooms: list[int], given_caps: dict[int, int]
) -> None:
    deficits = NO_DEFICITS
    for room in given_rooms:
        allotments, deficits = allot(deficits, given_views, room, given_caps)
        taken: Counter[int] = Counter()
        for lane, take in allotments:
            taken[lane.tenant_id] += take
        assert all(taken[tenant] <= cap for tenant, cap in given_caps.items())


@given(views(), st.lists(rooms, min_size=1, max_size=5))
def test_a_less_urgent_lane_gets_nothing_while_there_is_a_more_urgent_one(
    given_views: list[LaneView], given_rooms: list[int]
) -> None:
    assume(given_views)
    urgent = min(view.lane.priority for view in given_views)
    assert {lane.priority for lane in taken_over(lambda _: given_views, given_rooms)} <= {urgent}


@given(some_weights, st.lists(st.integers(0, 100), min_size=1, max_size=40))
def test_over_time_shares_follow_the_weights_whatever_the_room(
    weights: list[int], given_rooms: list[int]
) -> None:
    level = level_of(weights)
    taken = taken_over(lambda _: level, given_rooms)
    for view in level:
        due = sum(given_rooms) * view.weight / sum(weights)
        assert abs(taken[view.lane] - due) <= 1 + view.weight * len(weights) / sum(weights)


@given(some_weights, st.integers(1, 3))
def test_no_lane_starves_with_fewer_places_than_lanes(weights: list[int], room: int) -> None:
    level = level_of(weights)
    round_of_the_lightest = sum(weights) // min(weights) + len(weights)
    calls = round_of_the_lightest // room + 2
    assert set(taken_over(lambda _: level, [room] * calls)) == {view.lane for view in level}


@given(st.integers(1, 10), st.integers(1, 4))
def test_tenants_that_come_and_go_do_not_keep_a_backlog_out(passing: int, room: int) -> None:
    backlog, *others = level_of([1] * (1 + passing))

    def level(call: int) -> list[LaneView]:
        return [backlog, others[call % passing]]

    calls = 20 * (passing + 1)
    assert taken_over(level, [room] * calls)[backlog.lane] >= room * calls // (passing + 1) - 2 * passing


def test_a_single_execution_of_a_quiet_tenant_comes_before_a_round_of_backlogs() -> None:
    *backlogs, quiet = level_of([1000] * 50 + [1])
    _, deficits = allot(NO_DEFICITS, backlogs, 73)
    allotments, _ = allot(deficits, [*backlogs, quiet], 1)
    assert allotments == [Allotment(quiet.lane, 1)]


def test_a_lane_that_was_idle_has_saved_nothing_up() -> None:
    first, second = level_of([1, 1])
    deficits = NO_DEFICITS
    for _ in range(100):
        _, deficits = allot(deficits, [first], 10)
    taken: Counter[Lane] = Counter()
    for _ in range(10):
        allotments, deficits = allot(deficits, [first, second], 10)
        taken.update(dict(allotments))
    assert abs(taken[first.lane] - taken[second.lane]) <= 2


def test_more_queues_do_not_make_a_tenant_heavier() -> None:
    many = [LaneView(Lane(f"queue-{number}", 5, 1, "noop"), 1, NOW) for number in range(9)]
    one = LaneView(Lane("default", 5, 2, "noop"), 1, NOW)
    taken = taken_over(lambda _: [*many, one], [7] * 1000)
    assert abs(taken[one.lane] - 3500) <= 10
    assert all(abs(taken[view.lane] - 3500 / 9) <= 10 for view in many)


def test_what_a_cap_keeps_a_tenant_from_taking_goes_to_the_others_and_is_not_owed_later() -> None:
    capped, other = level_of([1, 1])
    tenant = capped.lane.tenant_id
    deficits = NO_DEFICITS
    for _ in range(50):
        allotments, deficits = allot(deficits, [capped, other], 10, {tenant: 1})
        assert dict(allotments) == {capped.lane: 1, other.lane: 9}
    allotments, _ = allot(deficits, [capped, other], 10)
    assert dict(allotments)[capped.lane] <= 6


def test_allotments_that_were_put_back_come_first_the_next_time_and_do_not_grow() -> None:
    first, second = level = level_of([1, 1])
    deficits = NO_DEFICITS
    for _ in range(20):
        allotments, after = allot(deficits, level, 10)
        assert dict(allotments) == {first.lane: 5, second.lane: 5}
        deficits = put_back(after, dict(allotments))
    allotments, _ = allot(deficits, level, 3)
    assert sum(take for _, take in allotments) == 3


@given(some_weights, st.integers(1, 5))
def test_a_lane_whose_allotment_was_put_back_gets_it_the_next_time_and_no_turn_beside_it(
    weights: list[int], room: int
) -> None:
    level = level_of(weights)
    taken: Counter[Lane] = Counter()
    deficits = NO_DEFICITS
    calls = 20 * len(weights)
    for _ in range(calls):
        allotments, deficits = allot(deficits, level, room)
        deficits = put_back(deficits, dict(allotments))
        allotments, deficits = allot(deficits, level, room)
        taken.update(dict(allotments))
    for view in level:
        due = room * calls * view.weight / sum(weights)
        assert abs(taken[view.lane] - due) <= 1 + room + view.weight * len(weights) / sum(weights)


def test_nothing_is_allotted_where_there_is_nothing() -> None:
    lane = Lane("default", 5, 1, "noop")
    assert allot(NO_DEFICITS, [], 100)[0] == []
    assert allot(NO_DEFICITS, [LaneView(lane, 1, NOW)], 0)[0] == []
    assert allot(NO_DEFICITS, [LaneView(lane, 1, NOW)], 7)[0] == [Allotment(lane, 7)]


def test_lanes_that_are_gone_are_forgotten() -> None:
    level = level_of([1] * 500)
    _, deficits = allot(NO_DEFICITS, level, 700)
    _, deficits = allot(deficits, level[:3], 3)
    assert set(deficits) == {view.lane for view in level[:3]}
