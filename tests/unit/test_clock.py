"""Database time on the monotonic clock: never ahead, whatever exchanges take and the wall clock says."""

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.clock import DatabaseClock, VirtualClock
from tocsin.domain.instant import SECOND, Instant

DATABASE = 1_900_000_000


class Machine:
    """A machine whose clocks a test moves."""

    def __init__(self) -> None:
        self.up = 1000.0
        self.wall = 5.0  # nowhere near the database's
        self.database = float(DATABASE)

    def monotonic(self) -> float:
        return self.up

    def time(self) -> float:
        return self.wall


@pytest.fixture
def machine() -> Iterator[Machine]:
    yield from _machine()


def _machine() -> Iterator[Machine]:
    machine = Machine()
    with patch("time.monotonic", machine.monotonic), patch("time.time", machine.time):
        yield machine


def database_time(machine: Machine) -> float:
    return machine.database + machine.up


def ask(clock: DatabaseClock, machine: Machine, there: float, back: float) -> None:
    """An exchange that takes `there` seconds to the database and `back` seconds from it."""
    asked = machine.up
    machine.up += there
    said = round(database_time(machine) * SECOND)
    machine.up += back
    clock.observe(asked, said, machine.up)


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=30))
def test_it_is_never_ahead_of_the_database_and_behind_by_no_more_than_the_shortest_recent_trip(
    trips: list[tuple[float, float]],
) -> None:
    for machine in _machine():
        clock = DatabaseClock()
        for there, back in trips:
            ask(clock, machine, there, back)
        shortest = min(there + back for there, back in trips[-8:])
        behind = database_time(machine) - clock.now() / SECOND
        assert -1e-5 <= behind <= shortest + 1e-5
        assert clock.uncertainty == pytest.approx(shortest, abs=1e-6)


def test_it_can_ask_by_itself(machine: Machine) -> None:
    async def said() -> Instant:
        machine.up += 0.25
        told = round(database_time(machine) * SECOND)
        machine.up += 0.5
        return told

    clock = DatabaseClock()
    asyncio.run(clock.ask(said))
    assert clock.now() / SECOND == pytest.approx(database_time(machine) - 0.5, abs=1e-5)
    assert clock.uncertainty == pytest.approx(0.75)


def test_a_wall_clock_that_jumps_changes_nothing(machine: Machine) -> None:
    clock = DatabaseClock()
    ask(clock, machine, 0.001, 0.001)
    before = clock.now()
    machine.wall += 3600
    assert clock.now() == before
    machine.up += 5
    assert clock.now() == before + 5 * SECOND


def test_before_the_first_exchange_the_wall_clock_has_to_do(machine: Machine) -> None:
    clock = DatabaseClock()
    assert clock.now() == round(machine.wall * SECOND)
    assert clock.uncertainty == float("inf")


@pytest.mark.parametrize("step", [0.05, 22.0, 3600.0, -0.05, -22.0])
def test_a_database_clock_that_was_set_is_believed_with_the_next_exchange(
    machine: Machine, step: float
) -> None:
    clock = DatabaseClock()
    for _ in range(20):
        ask(clock, machine, 0.0, 0.0001)
    machine.database += step
    ask(clock, machine, 0.004, 0.001)
    behind = database_time(machine) - clock.now() / SECOND
    assert 0 <= behind <= 0.005 + 1e-5
    assert clock.uncertainty == pytest.approx(0.005)


def test_a_slow_exchange_is_no_reason_to_forget_a_fast_one(machine: Machine) -> None:
    clock = DatabaseClock()
    ask(clock, machine, 0.0, 0.001)
    for there, back in ((2.0, 0.0), (0.0, 2.0), (1.0, 1.0)):
        machine.database += 0.001  # drifts
        ask(clock, machine, there, back)
        assert clock.uncertainty == pytest.approx(0.001)


@given(st.lists(st.integers(0, 10**12)))
def test_virtual_time_passes_only_when_told(spans: list[int]) -> None:
    clock = VirtualClock(DATABASE * SECOND)
    for span in spans:
        before, up = clock.now(), clock.monotonic()
        assert (clock.now(), clock.monotonic()) == (before, up)
        clock.advance(span)
        assert clock.now() - before == span
        assert clock.monotonic() >= up
