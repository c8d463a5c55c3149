"""Several hosts are tried a moment apart, and the first that can be written to is taken."""

import asyncio

import pytest

from tests.support.jumping_loop import run_jumping
from tocsin.db.reaching import APART, EACH, reach, reach_at_last
from tocsin.domain.errors import Refused, Unavailable


class Hosts:
    """Hosts by what they do: grant after so many seconds, raise, or (None) say nothing."""

    def __init__(self, *answers: float | BaseException | None) -> None:
        self.answers = list(answers)
        self.tried: list[tuple[int, float]] = []
        self.closed: list[int] = []

    async def attempt(self, number: int) -> "Granted":
        self.tried.append((number, asyncio.get_running_loop().time()))
        answer = self.answers[number]
        if isinstance(answer, BaseException):
            raise answer
        await (asyncio.Event().wait() if answer is None else asyncio.sleep(answer))
        return Granted(self, number)


class Granted:
    def __init__(self, hosts: Hosts, number: int) -> None:
        self.hosts, self.number = hosts, number

    def terminate(self) -> None:
        self.hosts.closed.append(self.number)


def test_a_silent_host_costs_a_moment() -> None:
    hosts = Hosts(None, 0.1)
    assert run_jumping(reach([0, 1], hosts.attempt)).number == 1
    assert hosts.tried == [(0, 0.0), (1, APART)]


def test_a_host_that_refuses_costs_nothing() -> None:
    hosts = Hosts(ConnectionRefusedError(), Unavailable("a standby"), 0.1)
    assert run_jumping(reach([0, 1, 2], hosts.attempt)).number == 2
    assert [at for _, at in hosts.tried] == [0.0, 0.0, 0.0]


def test_the_first_in_order_wins_and_what_comes_with_it_is_closed() -> None:
    hosts = Hosts(APART + 0.1, 0.1)
    assert run_jumping(reach([0, 1], hosts.attempt)).number == 0
    assert hosts.closed in ([], [1])
    assert [number for number, _ in hosts.tried] == [0, 1]


def test_nobody_waits_for_silence_longer_than_one_try() -> None:
    async def scenario() -> float:
        with pytest.raises(TimeoutError):
            await reach([0, 1], Hosts(None, None).attempt)
        return asyncio.get_running_loop().time()

    assert run_jumping(scenario()) == pytest.approx(APART + EACH)


def test_what_an_operator_can_mend_is_said_before_silence() -> None:
    refused = Refused("no such database", field="database_url")
    with pytest.raises(Refused):
        run_jumping(reach([0, 1, 2], Hosts(OSError(), refused, Unavailable("a standby")).attempt))
    with pytest.raises(Unavailable):
        run_jumping(reach([0, 1], Hosts(OSError(), Unavailable("a standby")).attempt))


def test_an_error_that_nobody_thought_of_does_not_end_the_search() -> None:
    hosts = Hosts(ZeroDivisionError(), None)

    async def scenario() -> int:
        found = asyncio.create_task(reach_at_last(2, hosts.attempt))
        await asyncio.sleep(60)
        hosts.answers[0] = 0.0
        return (await found).number

    assert run_jumping(scenario()) == 0
    assert 10 < sum(number == 0 for number, _ in hosts.tried) < 60


def test_a_host_that_comes_up_is_found_although_another_stays_silent() -> None:
    async def scenario() -> tuple[int, float]:
        hosts = Hosts(None, Unavailable("a standby"))
        loop = asyncio.get_running_loop()
        loop.call_later(60, lambda: hosts.answers.__setitem__(1, 0.1))
        found = await reach_at_last(2, hosts.attempt)
        return found.number, loop.time()

    number, at = run_jumping(scenario())
    assert number == 1
    assert at < 60 + 0.5
