"""Failpoints: nothing happens unless one is armed, and a mistyped one is refused."""

import asyncio
import os
import signal
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.errors import Refused
from tocsin.failpoints import Failpoints


def reach(points: Failpoints, point: str) -> None:
    asyncio.run(points.reach(point))


@given(st.text())
def test_an_unarmed_point_does_nothing(point: str) -> None:
    reach(Failpoints(), point)


def test_an_armed_point_acts_every_time_and_no_other_point_does() -> None:
    points, seen = Failpoints(), []

    async def act() -> None:
        seen.append("acted")

    points.arm("planner.read", act)
    for point in ("planner.read", "planner.written", "planner.read"):
        reach(points, point)
    assert seen == ["acted", "acted"]


def test_text_arms_several_points() -> None:
    points = Failpoints.from_text(" runner.called=error ; settler.before=error:0 ;")
    with pytest.raises(OSError, match="failpoint"):
        reach(points, "runner.called")
    reach(points, "settler.before")


def test_a_crash_kills_the_process_outright() -> None:
    with patch("os.kill") as kill:
        reach(Failpoints.from_text("runner.called=crash:1"), "runner.called")
        kill.assert_called_once_with(os.getpid(), signal.SIGKILL)


def test_a_pause_waits_as_long_as_it_says() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    with patch("tocsin.failpoints.asyncio.sleep", sleep):
        reach(Failpoints.from_text("starter.before=pause:2.5"), "starter.before")
    assert waited == [2.5]


def test_an_empty_text_arms_nothing() -> None:
    reach(Failpoints.from_text(""), "planner.read")


@pytest.mark.parametrize("text", ["runner.called=explode", "runner.called", "runner.called="])
def test_an_unknown_action_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="use crash, pause or error"):
        Failpoints.from_text(text)
