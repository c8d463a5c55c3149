"""Low marks never hide what is ready."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.queue.claiming.low_marks import BOTTOM, LowMarks
from tocsin.queue.lanes import Lane

NOW = 1_900_000_000 * SECOND
LANE = Lane("default", 5, 1, "noop")
spans = st.integers(0, 40 * SECOND)
moves = st.lists(
    st.tuples(st.sampled_from(("look", "claim", "wait")), st.integers(0, 3 * SECOND)), min_size=1, max_size=60
)


def test_a_lane_that_was_never_looked_at_is_entered_at_the_bottom() -> None:
    assert LowMarks().of(LANE, NOW) == BOTTOM
    assert LowMarks().enter(NOW, [LANE])[0] <= BOTTOM


@given(moves)
def test_a_low_mark_is_never_so_high_as_to_hide_what_enters_now(given_moves: list[tuple[str, int]]) -> None:
    marks, now = LowMarks(), NOW
    for move, span in given_moves:
        if move == "look":
            marks.looked(now, {LANE: now + span})
        elif move == "claim":
            marks.raise_to(LANE, now - span)
        now += span
        assert marks.of(LANE, now) <= now - 250 * MILLISECOND


def look_below(marks: LowMarks, now: int, stragglers: dict[Lane, int] | None = None) -> int:
    """A look below the marks; returns where it began."""
    stretches = marks.below(now)
    marks.looked_below(stretches, stragglers or {})
    return stretches[LANE].begin


@given(st.integers(0, 30 * SECOND), st.integers(0, 10))
def test_a_row_that_slipped_below_the_low_mark_lies_in_the_stretch_of_the_next_look_below(
    late: int, looks: int
) -> None:
    marks, now = LowMarks(), NOW
    for second in range(30 * looks + 1):  # in a lane that is never empty
        now = NOW + second * SECOND
        marks.enter(now, [LANE])
        marks.looked(now, {LANE: now + SECOND})
        if second % 30 == 0:
            look_below(marks, now)
    marks.enter(now + 30 * SECOND, [LANE])
    marks.looked(now + 30 * SECOND, {LANE: now + 60 * SECOND})
    stretch = marks.below(now + 30 * SECOND)[LANE]
    assert stretch.begin <= now - late
    assert stretch.end == marks.of(LANE, now + 30 * SECOND)


def test_looks_below_rarely_begin_at_the_bottom() -> None:
    marks, begun = LowMarks(), []
    for half_minute in range(40):
        now = NOW + half_minute * 30 * SECOND
        marks.enter(now, [LANE])
        marks.looked(now, {LANE: now + SECOND})
        begun.append((now, look_below(marks, now)))
    assert sum(begin == BOTTOM for _, begin in begun) <= 4
    assert all(begin >= now - 100 * SECOND for now, begin in begun if begin != BOTTOM)


def test_looks_at_all_lanes_do_not_go_below_the_low_marks() -> None:
    marks = LowMarks()
    for second in range(1, 1200):
        marks.looked(NOW + (second - 1) * SECOND, {LANE: NOW + second * SECOND})
        assert marks.enter(NOW + second * SECOND, [LANE])[0] >= NOW + (second - 6) * SECOND


def test_a_look_at_the_bottom_that_is_given_up_is_not_tried_again_at_once() -> None:
    marks = LowMarks()
    for half_minute in range(4):
        now = NOW + half_minute * 30 * SECOND
        marks.looked(now, {LANE: now})
        look_below(marks, now)
    assert marks.below(NOW + 601 * SECOND)[LANE].begin == BOTTOM
    assert marks.below(NOW + 631 * SECOND)[LANE].begin > BOTTOM


def test_nor_is_the_very_first_one() -> None:
    marks = LowMarks()
    marks.looked(NOW, {LANE: NOW})
    assert marks.below(NOW)[LANE].begin == BOTTOM
    assert marks.below(NOW + 30 * SECOND)[LANE].begin == NOW - 30 * SECOND


def test_the_next_look_enters_where_a_straggler_was_found_whatever_was_claimed_meanwhile() -> None:
    marks = LowMarks()
    marks.looked(NOW, {LANE: NOW + SECOND})
    look_below(marks, NOW + SECOND, {LANE: NOW - 40 * SECOND})
    marks.raise_to(LANE, NOW + SECOND)  # by a claim that was under way
    assert marks.enter(NOW + 2 * SECOND, [LANE])[0] == NOW - 40 * SECOND
    marks.looked(NOW + 2 * SECOND, {LANE: NOW - 40 * SECOND})
    assert marks.of(LANE, NOW + 2 * SECOND) == NOW - 40 * SECOND
    marks.raise_to(LANE, NOW + SECOND)
    assert marks.enter(NOW + 2 * SECOND, [LANE])[0] > NOW


def test_a_straggler_is_not_forgotten_if_the_look_for_it_fails() -> None:
    marks = LowMarks()
    marks.looked(NOW, {LANE: NOW + SECOND})
    look_below(marks, NOW + SECOND, {LANE: NOW - 40 * SECOND})
    marks.enter(NOW + 2 * SECOND, [LANE])  # and no answer
    assert marks.enter(NOW + 3 * SECOND, [LANE])[0] == NOW - 40 * SECOND


@given(
    st.lists(st.tuples(st.integers(SECOND + 1, 40 * SECOND), spans, st.booleans()), min_size=1, max_size=30)
)
def test_whatever_entered_is_seen_by_the_first_look_that_comes_a_second_later_or_any_time_after(
    given_looks: list[tuple[int, int, bool]],
) -> None:
    marks, now = LowMarks(), NOW
    for until_next, next_run, shown in given_looks:
        marks.looked(now, {LANE: now + next_run} if shown else {})
        entered, now = now, now + until_next
        assert marks.of(LANE, now) <= entered


def test_once_a_second_a_look_reaches_further_back() -> None:
    marks = LowMarks()
    marks.looked(NOW, {LANE: NOW + SECOND})
    assert marks.of(LANE, NOW + 500 * MILLISECOND) == NOW + 250 * MILLISECOND
    assert marks.of(LANE, NOW + 1500 * MILLISECOND) == NOW - 3500 * MILLISECOND


def test_what_enters_a_lane_that_is_not_shown_is_not_hidden_when_it_is_shown_again() -> None:
    marks = LowMarks()
    for second in range(3600):
        now = NOW + second * SECOND
        marks.enter(now, [LANE])
        marks.looked(now, {LANE: NOW + 86_400 * SECOND} if second < 100 else {})
        assert second < 100 or marks.of(LANE, now) <= NOW + 100 * SECOND


def test_looks_below_that_fail_leave_the_low_marks_from_before_them() -> None:
    marks = LowMarks()
    for second in range(300):
        now = NOW + second * SECOND
        marks.enter(now, [LANE])
        marks.looked(now, {LANE: now + SECOND})
        if second % 30 == 0:
            if second < 100:
                look_below(marks, now)
            else:
                marks.below(now)  # and no answer
    assert marks.below(NOW + 300 * SECOND)[LANE].begin < NOW + 100 * SECOND


@pytest.mark.parametrize("back", [SECOND, 10 * SECOND, 3600 * SECOND])
def test_a_clock_that_was_set_back_makes_the_next_look_below_begin_at_the_bottom(back: int) -> None:
    marks = LowMarks()
    for second in range(100):
        marks.enter(NOW + second * SECOND, [LANE])
        marks.looked(NOW + second * SECOND, {LANE: NOW + 86_400 * SECOND})
    look_below(marks, NOW + 99 * SECOND)
    now = NOW + 99 * SECOND - 610 * SECOND - back
    assert marks.of(LANE, now) < now
    assert marks.below(now)[LANE].begin == BOTTOM
