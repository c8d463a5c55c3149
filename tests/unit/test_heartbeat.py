"""Who is told to stop: what runs, and what will run as soon as its start is answered."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.queue.claims import Claim
from tocsin.service import Report
from tocsin.worker.heartbeat import Heartbeat

NOW = 1_000_000 * SECOND


class Bed:
    """A heartbeat whose every claim was asked to stop."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.starting = False
        self.stopped: list[Any] = []
        self.away = False
        self.meanwhile: Callable[[], None] = lambda: None
        runner: Any = SimpleNamespace(claims=lambda: self.running, stop=self.stopped.append)
        queue: Any = SimpleNamespace(extend=self._extend)
        self.heartbeat = Heartbeat(queue, runner, lambda: (), lambda: self.starting, claim_ttl=10)

    async def _extend(self, claims: Sequence[Claim]) -> tuple[list[Claim], Sequence[Claim]]:
        self.meanwhile()
        if self.away:
            raise Unavailable("the database did not answer")
        return [], claims

    def run(self) -> Report:
        return asyncio.run(self.heartbeat.run_once(NOW))


def claim() -> Any:
    return SimpleNamespace(identity=object(), deadline_at=NOW + 10 * SECOND)


def test_a_notice_is_used_up_by_one_look() -> None:
    bed = Bed()
    bed.heartbeat.look_for_stops()
    bed.running = [claim()]
    bed.run()
    assert bed.stopped == bed.running
    assert bed.run().again_at is None
    assert len(bed.stopped) == 1


def test_a_notice_is_kept_until_the_starts_under_way_are_answered() -> None:
    bed = Bed()
    bed.heartbeat.look_for_stops()
    bed.starting = True
    again_at = bed.run().again_at
    assert again_at is not None
    assert again_at > NOW
    bed.running, bed.starting = [claim()], False
    assert bed.run().again_at is None
    assert bed.stopped == bed.running


def test_a_notice_is_kept_when_nobody_could_be_asked_about_it() -> None:
    bed = Bed()
    bed.heartbeat.look_for_stops()
    bed.running, bed.away = [claim()], True
    with pytest.raises(Unavailable):
        bed.run()
    bed.away = False
    bed.run()
    assert bed.stopped == bed.running


def test_a_notice_that_comes_during_a_look_is_kept_for_the_next() -> None:
    bed = Bed()
    bed.heartbeat.look_for_stops()
    bed.running = [claim()]
    bed.meanwhile = bed.heartbeat.look_for_stops
    bed.run()
    bed.meanwhile = lambda: None
    bed.run()
    assert len(bed.stopped) == 2


def test_what_ended_while_the_heartbeat_was_under_way_was_not_lost() -> None:
    ended, taken = claim(), claim()
    bed = Bed()
    bed.running = [ended, taken]

    async def extend(claims: Sequence[Claim]) -> tuple[Sequence[Claim], list[Claim]]:
        bed.running = [taken]  # the other one is settled by now, and its row is gone
        return claims, []

    bed.heartbeat._claiming.extend = extend
    bed.heartbeat._runner.abandon = lambda lost: lost in bed.running
    bed.heartbeat.look_for_stops()
    with structlog.testing.capture_logs() as logs:
        bed.run()
    assert [entry["count"] for entry in logs if entry["event"] == "claims.lost_while_running"] == [1]
    bed.running, taken = [ended], ended
    bed.heartbeat._runner.abandon = lambda _: False
    bed.heartbeat.look_for_stops()
    with structlog.testing.capture_logs() as logs:
        bed.run()
    assert logs == [], "a false alarm"


def test_a_claim_that_was_lost_is_said_once_and_not_asked_for_again() -> None:
    lost, kept = claim(), claim()
    bed = Bed()
    bed.running = [lost, kept]
    asked: list[Sequence[Claim]] = []

    async def extend(claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        asked.append(claims)
        return [one for one in claims if one is lost], []

    bed.heartbeat._claiming.extend = extend
    bed.heartbeat._runner.abandon = lambda _: True  # though it takes a moment to end
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            bed.heartbeat.look_for_stops()
            bed.run()
    assert asked == [[lost, kept], [kept], [kept]]
    assert [entry["count"] for entry in logs if entry["event"] == "claims.lost_while_running"] == [1]
    bed.running = [kept]
    bed.run()
    assert not bed.heartbeat._lost, "what is gone is forgotten"
