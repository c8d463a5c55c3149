"""Lines in front of hosts: connections go to tenants in turn, lines are short, and what waits elsewhere keeps
its order."""

from collections import Counter
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.queue.claims import Claim
from tocsin.worker.host_lines import LONGEST_STAND, LONGEST_WAIT, Host, HostLines

SLOW: Host = ("slow.test", 443)
OTHER: Host = ("other.test", 443)
NOW = 1_000 * SECOND


def claim(token: int, tenant_id: int = 1, priority: int = 5, **more: Any) -> Claim:
    values: dict[str, Any] = dict.fromkeys(Claim.__struct_fields__)
    known = {"job_id": UUID(int=token), "fire_at": NOW, "tenant_id": tenant_id, "priority": priority}
    return Claim(**values | known | {"token": token} | more)


def full(calls: int, most_standing: int = 1000) -> HostLines:
    """Lines of a host that has as many calls as it may; each takes a second."""
    lines = HostLines(calls, most_standing)
    assert all(lines.enter(SLOW) for _ in range(calls))
    if calls > 1:
        lines.leave(SLOW, SECOND)
        assert lines.enter(SLOW)
    assert not lines.enter(SLOW)
    return lines


def served(lines: HostLines, calls: int) -> list[Claim]:
    """Who goes as calls end one by one."""
    gone = []
    for _ in range(calls):
        lines.leave(SLOW)
        called = lines.next_call()
        assert called is not None
        gone.append(called[1])
    return gone


def test_a_full_host_leaves_the_others_alone() -> None:
    lines = full(2)
    assert lines.stand(SLOW, claim(1), NOW)
    assert lines.next_call() is None
    assert lines.enter(OTHER)


def test_a_host_may_have_room_of_its_own() -> None:
    lines = HostLines(2, 1000, {SLOW: 1})
    assert [lines.enter(SLOW) for _ in range(2)] == [True, False]
    assert [lines.enter(OTHER) for _ in range(3)] == [True, True, False]
    assert lines.stand(SLOW, claim(1), NOW)
    lines.leave(SLOW)
    assert lines.next_call() is not None
    assert lines.next_call() is None


def test_a_tenant_that_floods_a_host_lets_others_take_turns() -> None:
    lines = full(2)
    for token in range(20):
        assert lines.stand(SLOW, claim(token, tenant_id=1), NOW) == (
            token < 4
        )  # what two connections serve in 2 s
    for token in (100, 101, 102):
        assert lines.stand(SLOW, claim(token, tenant_id=2), NOW) == (
            token < 102
        )  # half of it, for two tenants
    assert [c.tenant_id for c in served(lines, 6)] == [1, 2, 1, 2, 1, 1]


def test_the_urgent_go_first_and_equals_in_order_of_arrival() -> None:
    lines = full(64)
    for token, priority in enumerate([5, 0, 5, 9, 0]):
        lines.stand(SLOW, claim(token, priority=priority), NOW)
    assert [c.token for c in served(lines, 5)] == [1, 4, 0, 2, 3]


def test_a_newcomer_does_not_overtake_the_line() -> None:
    lines = full(1)
    lines.stand(SLOW, claim(1), NOW)
    lines.leave(SLOW)
    assert not lines.enter(SLOW)
    assert lines.next_call() is not None


def test_what_does_not_fit_comes_back_in_its_order_and_at_the_pace_of_the_host() -> None:
    lines = full(10)
    tokens = [token for token in range(300) if not lines.stand(SLOW, claim(token), NOW)]
    waits = [lines.wait(SLOW, 1, NOW) for _ in tokens]
    ordered = [wait for wait in waits if wait < LONGEST_WAIT // 2]
    assert ordered == sorted(ordered)
    assert ordered[0] > SECOND
    assert {b - a for a, b in pairwise(ordered)} == {70 * MILLISECOND}  # a little early
    assert all(wait <= LONGEST_WAIT for wait in waits)


def test_a_slow_host_has_a_short_line_and_a_quick_one_a_long_line() -> None:
    for took, length in ((10 * SECOND, 2), (100 * MILLISECOND, 125)):
        lines = full(10)
        for _ in range(200):
            lines.leave(SLOW, took)
            lines.enter(SLOW)
        assert abs(sum(lines.stand(SLOW, claim(token), NOW) for token in range(500)) - length) <= length * 0.7


def test_the_first_slow_answer_leaves_no_gap_in_which_nobody_comes_back() -> None:
    """A host is thought quick until it has answered once; the long line that it had until then is no measure
    any more."""
    lines = HostLines(64, 4000)
    assert all(lines.enter(SLOW) for _ in range(64))
    assert sum(lines.stand(SLOW, claim(token), NOW) for token in range(2000)) == 1000
    lines.leave(SLOW, 2 * SECOND)
    assert lines.wait(SLOW, 1, NOW) < 2 * SECOND


def test_what_would_stand_for_long_goes_back_last_come_first() -> None:
    lines = full(4)
    for token in range(8):
        lines.stand(SLOW, claim(token), NOW)
    for _ in range(100):  # it has become slow
        lines.leave(SLOW, 4 * SECOND)
        assert not lines.enter(SLOW)
        lines._hosts[SLOW].calls += 1  # an old call, not one of those in line
    assert sorted(c.token for _, c in lines.overstayed(NOW + 1)) == [2, 3, 4, 5, 6, 7]
    assert [c.token for _, c in lines.overstayed(NOW + LONGEST_STAND)] == [0, 1]
    assert len(lines) == 0


def test_what_cannot_start_in_time_any_more_goes_back_to_expire() -> None:
    lines = full(1)
    lines.stand(SLOW, claim(1, start_by=NOW + SECOND), NOW)
    assert lines.overstayed(NOW) == []
    assert [c.token for _, c in lines.overstayed(NOW + SECOND)] == [1]


def test_all_lines_together_are_bounded() -> None:
    lines = full(64, most_standing=40)
    stood = Counter(lines.stand(SLOW, claim(token, tenant_id=token % 20), NOW) for token in range(200))
    assert stood[True] == len(lines) == 40


def test_a_quick_host_asks_for_more_when_half_of_its_line_is_gone_and_a_slow_one_never_does() -> None:
    for took, length, rooms in ((MILLISECOND, 10, [0, 0, 0, 0, 0, 5]), (SECOND, 4, [None] * 3)):
        lines = HostLines(2, 40)
        assert (lines.enter(SLOW), lines.enter(SLOW)) == (True, True)
        lines.leave(SLOW, took)
        assert lines.enter(SLOW)
        assert sum(lines.stand(SLOW, claim(token), NOW) for token in range(20)) == length
        seen = []
        for _ in rooms:
            seen.append(lines.rooms().get(1))
            served(lines, 1)
        assert seen == rooms


def test_closing_returns_those_that_stand_and_takes_nobody_else() -> None:
    lines = full(8)
    lines.stand(SLOW, claim(1), NOW)
    assert [c.token for c in lines.close()] == [1]
    assert not lines.stand(SLOW, claim(2), NOW)


@given(st.lists(st.tuples(st.sampled_from(["enter", "stand", "leave", "next", "drop"]), st.integers(0, 5))))
def test_never_more_calls_than_connections_and_no_host_is_remembered_for_nothing(
    steps: list[tuple[str, int]],
) -> None:
    lines, calls, standing, token = HostLines(2, 8), Counter[Host](), list[Claim](), 0
    for step, number in steps:
        host = (f"{number % 3}.test", 80)
        match step:
            case "enter" if lines.enter(host):
                calls[host] += 1
            case "stand" if calls[host] == 2:
                token += 1
                if lines.stand(host, claim(token, tenant_id=number), NOW):
                    standing.append(claim(token))
            case "leave" if calls[host]:
                lines.leave(host, SECOND)
                calls[host] -= 1
            case "next" if called := lines.next_call():
                calls[called[0]] += 1
                standing = [c for c in standing if c.token != called[1].token]
            case "drop" if standing:
                assert lines.drop(standing.pop())
        assert all(number <= 2 for number in calls.values())
        assert sorted(c.token for c in lines) == sorted(c.token for c in standing)
    lines.close()
    for host, number in calls.items():
        for _ in range(number):
            lines.leave(host)
    assert not lines._hosts
