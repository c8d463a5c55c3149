"""Looks for the soonest deadline begin where nothing can have been missed, and rarely far below."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import SECOND
from tocsin.queue.deadlines import BOTTOM, DeadlineFloor

NOW = 1_900_000_000 * SECOND
TTL = 10 * SECOND


def test_the_first_look_begins_at_the_bottom() -> None:
    floor = DeadlineFloor()
    assert floor.known == BOTTOM
    assert floor.enter(NOW) == BOTTOM


def test_a_look_begins_a_little_before_the_one_before() -> None:
    floor = DeadlineFloor()
    floor.enter(NOW)
    floor.found(NOW + TTL, NOW)
    assert NOW - SECOND <= floor.enter(NOW + SECOND) <= NOW


def test_a_look_that_found_something_overdue_begins_no_higher_the_next_time() -> None:
    floor = DeadlineFloor()
    floor.enter(NOW)
    floor.found(NOW - TTL, NOW)
    assert floor.known == NOW - TTL
    assert floor.enter(NOW + SECOND) <= NOW - TTL


def test_what_is_claimed_far_ahead_does_not_hide_what_is_claimed_after_it() -> None:
    floor = DeadlineFloor()
    floor.enter(NOW)
    floor.found(NOW + 3 * TTL, NOW)
    assert floor.enter(NOW + SECOND) <= NOW + TTL


def test_where_nothing_was_claimed_what_is_claimed_from_then_on_is_seen() -> None:
    floor = DeadlineFloor()
    floor.enter(NOW)
    floor.found(None, NOW)
    assert floor.enter(NOW + 5 * SECOND) <= NOW


@given(st.lists(st.integers(SECOND // 10, 5 * SECOND), min_size=1, max_size=100))
def test_what_a_slow_statement_left_below_the_floor_is_found_within_a_minute(pauses: list[int]) -> None:
    floor, now = DeadlineFloor(), NOW
    floor.enter(now)
    floor.found(now + TTL, now)
    hidden, entered = NOW - 20 * SECOND, []
    for pause in [*pauses, *[5 * SECOND] * 13]:
        now += pause
        entered.append((now, floor.enter(now)))
        floor.found(now + TTL, now)
    assert min(begin for when, begin in entered if when <= NOW + 66 * SECOND) <= hidden


def test_dead_entries_are_walked_from_the_bottom_once_in_ten_minutes() -> None:
    floor, entered = DeadlineFloor(), []
    for second in range(1200):
        now = NOW + second * SECOND
        entered.append((now, floor.enter(now)))
        floor.found(now + TTL, now)
    assert sum(begin == BOTTOM for _, begin in entered) == 2
    assert all(begin >= now - 90 * SECOND for now, begin in entered if begin != BOTTOM)
    assert sum(begin < now - 2 * SECOND for now, begin in entered) < 25
