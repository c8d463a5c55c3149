"""What is told of a fleet between two looks at it."""

from tocsin.domain.fleet_changes import Lease, Member, Moved, moved, node_changes

ALIVE = Member("vm-1", ["scheduler"], alive=True, seen_at=1)
SILENT = Member("vm-1", ["scheduler"], alive=False, seen_at=1)


def changes(before: dict[int, Member], after: dict[int, Member]) -> list[tuple[int, str]]:
    return [(change.id, change.what) for change in node_changes(before, after)]


def test_a_takeover_tells_the_node_before_the_node_after_and_the_new_epoch() -> None:
    before = {0: Lease(7, 3), 1: Lease(8, 5), 2: Lease(None, 0)}
    after = {0: Lease(8, 4), 1: Lease(8, 5), 2: Lease(7, 1)}
    assert moved(before, after) == [Moved(0, 7, 8, 4), Moved(2, None, 7, 1)]


def test_a_shard_that_is_given_back_or_taken_again_by_its_owner_has_moved() -> None:
    assert moved({0: Lease(7, 3)}, {0: Lease(None, 3)}) == [Moved(0, 7, None, 3)]
    assert moved({0: Lease(7, 3)}, {0: Lease(7, 4)}) == [Moved(0, 7, 7, 4)]


def test_shards_of_which_nothing_was_known_are_no_news() -> None:
    assert moved({}, {0: Lease(7, 3)}) == []


def test_nodes_join_leave_fall_silent_and_come_back() -> None:
    assert changes({}, {1: ALIVE}) == [(1, "joined")]
    assert changes({1: ALIVE}, {}) == [(1, "left")]
    assert changes({1: ALIVE}, {1: SILENT}) == [(1, "gone")]
    assert changes({1: SILENT}, {1: ALIVE}) == [(1, "back")]


def test_a_silent_node_that_is_forgotten_and_one_that_stays_are_no_news() -> None:
    assert changes({1: SILENT}, {}) == []
    assert changes({1: ALIVE}, {1: ALIVE}) == []
