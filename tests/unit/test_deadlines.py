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
    floor.found(NOW + TTL, NOW, None)
    assert NOW - SECOND <= floor.enter(NOW + SECOND) <= NOW


def test_a_look_that_found_something_overdue_begins_no_higher_the_next_time() -> None:
    floor = DeadlineFloor()
    floor.enter(NOW)
    floor.found(NOW - TTL, NOW, None)
    assert floor.known == NOW - TTL
    assert floor.enter(NOW + SECOND) <= NOW - TTL


def test_what_is_claimed_far_ahead_does_not_hide_what_is_claimed_after_it() -> None:
    floor = DeadlineFloor()
    floor.enter(NOW)
    floor.found(NOW + 3 * TTL, NOW, None)
    assert floor.enter(NOW + SECOND) <= NOW + TTL


def test_where_nothing_was_claimed_what_is_claimed_from_then_on_is_seen() -> None:
    floor = DeadlineFloor()
    floor.enter(NOW)
    floor.found(None, NOW, None)
    assert floor.enter(NOW + 5 * SECOND) <= NOW


@given(st.lists(st.integers(SECOND // 10, 5 * SECOND), min_size=2, max_size=30), st.integers(0, 20 * SECOND))
def test_what_a_slow_transaction_set_is_seen_by_the_look_after_its_end(pauses: list[int], old: int) -> None:
    floor, now = DeadlineFloor(), NOW
    begun = now - old
    floor.enter(now)
    floor.found(None, now, begun)
    for pause in pauses:
        now += pause
        assert floor.enter(now) <= begun
        floor.found(now + TTL, now, begun)
    assert floor.enter(now + SECOND) <= begun
    floor.found(now + TTL, now + SECOND, None)  # it ended after the look began, and before this was asked
    assert floor.enter(now + 2 * SECOND) <= begun
    floor.found(now + TTL, now + 2 * SECOND, None)
    assert floor.enter(now + 3 * SECOND) == now + SECOND


def test_dead_entries_are_walked_from_the_bottom_once_in_ten_minutes() -> None:
    floor, entered = DeadlineFloor(), []
    for second in range(1200):
        now = NOW + second * SECOND
        entered.append((now, floor.enter(now)))
        floor.found(now + TTL, now, now - SECOND // 100)
    assert sum(begin == BOTTOM for _, begin in entered) == 2
    assert all(begin > now - 4 * SECOND for now, begin in entered if begin != BOTTOM)
