"""Which fires a change of a schedule gains, loses and moves."""

from tocsin.domain.fires_changed import fires_changed

FAR = 1 << 40


def told(before: list[int], after: list[int], until: int = FAR) -> tuple[object, ...]:
    changed = fires_changed(before, after, until)
    return changed.gained, changed.lost, changed.moved, changed.kept


def test_fires_that_both_have_are_kept() -> None:
    assert told([1, 2, 3], [1, 2, 3]) == ([], [], [], 3)


def test_twice_as_often_gains_and_half_as_often_loses() -> None:
    assert told([0, 60, 120], [0, 30, 60, 90, 120]) == ([30, 90], [], [], 3)
    assert told([0, 30, 60, 90], [0, 60]) == ([], [30, 90], [], 2)


def test_a_fire_at_another_hour_of_the_day_moves() -> None:
    assert told([3, 27, 51], [4, 28, 52]) == ([], [], [(3, 4), (27, 28), (51, 52)], 0)


def test_a_fire_that_comes_once_more_today_is_gained_and_the_others_move_by_an_hour() -> None:
    # At half past three: today's fire at three has been, today's at four is to come.
    assert told([27, 51, 75], [4, 28, 52, 76]) == ([4], [], [(27, 28), (51, 52), (75, 76)], 0)


def test_a_move_does_not_pass_a_fire_that_is_kept() -> None:
    assert told([0, 20, 40, 60], [0, 30, 60]) == ([], [40], [(20, 30)], 2)
    assert told([9, 10], [10, 11]) == ([11], [9], [], 1)


def test_what_moves_across_the_end_of_the_comparison_is_neither_lost_nor_gained() -> None:
    assert told([9], [11], until=10) == ([], [], [(9, 11)], 0)
    assert told([11, 12], [11, 13], until=10) == ([], [], [], 0)


def test_one_schedule_alone_is_gained_or_lost_whole() -> None:
    assert told([], [1, 2]) == ([1, 2], [], [], 0)
    assert told([1, 2], []) == ([], [1, 2], [], 0)
