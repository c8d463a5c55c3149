"""Looks for the soonest deadline begin where nothing can have been missed, and rarely far below."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import SECOND
from tocsin.queue.reclaiming.deadlines import BOTTOM, DeadlineMark

NOW = 1_900_000_000 * SECOND
TTL = 10 * SECOND


def test_the_first_look_begins_at_the_bottom() -> None:
    mark = DeadlineMark()
    assert mark.known == BOTTOM
    assert mark.enter(NOW) == BOTTOM


def test_a_look_begins_a_little_before_the_one_before() -> None:
    mark = DeadlineMark()
    mark.enter(NOW)
    mark.found(NOW + TTL, NOW, None)
    assert NOW - SECOND <= mark.enter(NOW + SECOND) <= NOW


def test_a_look_that_found_something_overdue_begins_no_higher_the_next_time() -> None:
    mark = DeadlineMark()
    mark.enter(NOW)
    mark.found(NOW - TTL, NOW, None)
    assert mark.known == NOW - TTL
    assert mark.enter(NOW + SECOND) <= NOW - TTL


def test_what_is_claimed_far_ahead_does_not_hide_what_is_claimed_after_it() -> None:
    mark = DeadlineMark()
    mark.enter(NOW)
    mark.found(NOW + 3 * TTL, NOW, None)
    assert mark.enter(NOW + SECOND) <= NOW + TTL


def test_where_nothing_was_claimed_what_is_claimed_from_then_on_is_seen() -> None:
    mark = DeadlineMark()
    mark.enter(NOW)
    mark.found(None, NOW, None)
    assert mark.enter(NOW + 5 * SECOND) <= NOW


@given(st.lists(st.integers(SECOND // 10, 5 * SECOND), min_size=2, max_size=30), st.integers(0, 20 * SECOND))
def test_what_a_slow_transaction_set_is_seen_by_the_look_after_its_end(pauses: list[int], old: int) -> None:
    mark, now = DeadlineMark(), NOW
    begun = now - old
    mark.enter(now)
    mark.found(None, now, begun)
    for pause in pauses:
        now += pause
        assert mark.enter(now) <= begun
        mark.found(now + TTL, now, begun)
    assert mark.enter(now + SECOND) <= begun
    mark.found(now + TTL, now + SECOND, None)  # it ended after the look began, and before this was asked
    assert mark.enter(now + 2 * SECOND) <= begun
    mark.found(now + TTL, now + 2 * SECOND, None)
    assert mark.enter(now + 3 * SECOND) == now + SECOND


def test_dead_entries_are_walked_from_the_bottom_once_in_ten_minutes() -> None:
    mark, entered = DeadlineMark(), []
    for second in range(1200):
        now = NOW + second * SECOND
        entered.append((now, mark.enter(now)))
        mark.found(now + TTL, now, now - SECOND // 100)
    assert sum(begin == BOTTOM for _, begin in entered) == 2
    assert all(begin > now - 4 * SECOND for now, begin in entered if begin != BOTTOM)
