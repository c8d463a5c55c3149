"""Looks for the soonest deadline begin where nothing can have been missed, and rarely far below."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import SECOND
from tocsin.queue.deadlines import BOTTOM, DeadlineFloor

NOW = 1_900_000_000 * SECOND
TTL = 10 * SECOND


def test_the_first_look_begins_at_the_bottom() -> None:
    floor = DeadlineFloor(TTL)
    assert floor.known == BOTTOM
    assert floor.enter(NOW) == BOTTOM


def test_a_look_begins_a_little_before_the_one_before() -> None:
    floor = DeadlineFloor(TTL)
    floor.enter(NOW)
    floor.found(NOW + TTL, NOW, [])
    assert NOW - SECOND <= floor.enter(NOW + SECOND) <= NOW


def test_a_look_that_found_something_overdue_begins_no_higher_the_next_time() -> None:
    floor = DeadlineFloor(TTL)
    floor.enter(NOW)
    floor.found(NOW - TTL, NOW, [])
    assert floor.known == NOW - TTL
    assert floor.enter(NOW + SECOND) <= NOW - TTL


def test_what_is_claimed_far_ahead_does_not_hide_what_is_claimed_after_it() -> None:
    floor = DeadlineFloor(TTL)
    floor.enter(NOW)
    floor.found(NOW + 3 * TTL, NOW, [])
    assert floor.enter(NOW + SECOND) <= NOW + TTL


def test_where_nothing_was_claimed_what_is_claimed_from_then_on_is_seen() -> None:
    floor = DeadlineFloor(TTL)
    floor.enter(NOW)
    floor.found(None, NOW, [])
    assert floor.enter(NOW + 5 * SECOND) <= NOW


@given(
    st.integers(0, 5),
    st.lists(st.integers(SECOND // 10, 20 * SECOND), min_size=2, max_size=30),
    st.integers(0, SECOND),
)
def test_what_a_slow_transaction_set_is_seen_by_the_second_look_after_its_end(
    earlier: int, pauses: list[int], after: int
) -> None:
    """It begins between two looks, sets a deadline some time later, and ends between two other looks, or the same."""
    floor, now = DeadlineFloor(TTL), NOW
    for _ in range(earlier):
        floor.enter(now)
        floor.found(None, now, [])
        now += 2 * SECOND
    floor.enter(now)
    floor.found(None, now, [1])
    deadline = now + min(after, pauses[0]) + TTL
    for pause in pauses:
        now += pause
        floor.enter(now)
        floor.found(None, now, [1, 7])
    now += SECOND
    floor.enter(now)
    floor.found(None, now, [1])
    assert floor.enter(now + SECOND) <= deadline


def test_a_look_that_was_to_go_back_and_failed_is_made_up_for() -> None:
    floor = DeadlineFloor(TTL)
    for second in range(30):
        floor.enter(NOW + second * SECOND)
        floor.found(None, NOW + second * SECOND, [7] if second > 1 else [])
    floor.enter(NOW + 30 * SECOND)
    floor.found(None, NOW + 30 * SECOND, [])
    for second in (31, 32):  # and no answer
        assert floor.enter(NOW + second * SECOND) <= NOW + SECOND + TTL
    floor.found(None, NOW + 32 * SECOND, [])
    assert floor.enter(NOW + 33 * SECOND) == NOW + 31 * SECOND


def test_transactions_that_are_shorter_than_a_time_to_live_send_no_look_back() -> None:
    floor = DeadlineFloor(TTL)
    for second in range(0, 300, 2):
        now = NOW + second * SECOND
        begin = floor.enter(now)
        floor.found(now + TTL, now, range(second - 6, second))
        assert begin >= now - 3 * SECOND or second < 10


def test_a_transaction_that_stays_open_sends_no_look_back() -> None:
    floor = DeadlineFloor(TTL)
    for second in range(0, 300, 2):
        now = NOW + second * SECOND
        begin = floor.enter(now)
        floor.found(now + TTL, now, [7])
        assert begin >= now - 3 * SECOND or second == 0


def test_dead_entries_are_walked_from_the_bottom_once_in_ten_minutes() -> None:
    floor, entered = DeadlineFloor(TTL), []
    for second in range(1200):
        now = NOW + second * SECOND
        entered.append((now, floor.enter(now)))
        floor.found(now + TTL, now, [])
    assert sum(begin == BOTTOM for _, begin in entered) == 2
    assert all(begin >= now - 2 * SECOND for now, begin in entered if begin != BOTTOM)
