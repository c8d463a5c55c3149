"""Calls that stand in line for their host take no place, and are started, stopped, lost and given back as
what they are: not called."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import structlog

from tests.simulation.faults import spin
from tests.simulation.test_runner import Calls, Settled
from tests.simulation.virtual_time import START, run_virtually
from tocsin.clock import VirtualClock
from tocsin.domain.instant import MILLISECOND, SECOND, Span
from tocsin.domain.outcome import SUCCEEDED, Verdict
from tocsin.domain.target import HttpTarget
from tocsin.domain.waits import Reason
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.targets.http.headers import own_headers
from tocsin.telemetry import Telemetry
from tocsin.worker.host_lines import LONGEST_STAND
from tocsin.worker.places import Places
from tocsin.worker.runner import Runner, assignment_of
from tocsin.worker.timetable import Timetable

PLACES = 4
CONNECTIONS = 2
READING = 20 * MILLISECOND
"""What a worker whose clock has jumped takes to read the answers that came meanwhile."""


def claim(token: int, url: str = "http://slow.test/", tenant_id: int = 1, **more: Any) -> Claim:
    values = dict.fromkeys(Claim.__struct_fields__)
    known = {
        "job_id": UUID(int=token),
        "fire_at": START,
        "due_at": START,
        "run_at": START,
        "started_at": START,
    }
    known |= {"tenant_id": tenant_id, "priority": 5, "attempt": 1, "earlier_attempts": 0}
    known |= {"deadline_at": START + 60 * SECOND, "target": msgspec.json.encode(HttpTarget(url)).decode()}
    return Claim(**values | known | {"token": token} | more)


class Scene:
    """A runner with few places, hosts with few connections, and time that passes when the test says so."""

    def __init__(self) -> None:
        self.clock, self.calls, self.settled, self.telemetry = (
            VirtualClock(START),
            Calls(),
            Settled(),
            Telemetry(),
        )
        settler: Any = self.settled
        self.places, self.timetable = Places(PLACES), Timetable()
        self.abandoned: list[Claim] = []
        self.slots: Any = SimpleNamespace(abandon=self.abandoned.append)
        self.runner = Runner(
            {"http": self.calls},
            settler,
            self.places,
            self.timetable,
            self.slots,
            self.clock,
            self.telemetry,
            Failpoints(),
            host_concurrency=CONNECTIONS,
        )

    async def run(self, *claims: Claim) -> None:
        self.runner.run(claims)
        await spin()

    async def answer(self, token: int) -> None:
        self.calls.answers[token].set_result(SUCCEEDED)
        await spin()

    async def passes(self, span: Span) -> None:
        self.clock.advance(span)
        await spin()

    @property
    def called(self) -> list[int]:
        return list(self.calls.answers)


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    scene = Scene()
    with structlog.testing.capture_logs():
        run_virtually(scene.clock, story(scene))


def test_waiting_for_a_host_takes_no_place() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(*map(claim, range(5)))
        assert scene.called == [0, 1]
        assert scene.places.unused == PLACES - CONNECTIONS
        await scene.run(claim(10, "http://other.test/"))
        assert scene.called == [0, 1, 10]
        assert len(scene.runner.claims()) == 6  # all of them are kept alive by heartbeats

    play(story)


def test_a_host_serves_tenants_in_turn() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(*map(claim, range(6)))
        await scene.run(claim(100, tenant_id=2), claim(101, tenant_id=2))
        for token in (0, 1, 2, 100):
            await scene.answer(token)
        assert scene.called == [0, 1, 2, 100, 3, 101]

    play(story)


def test_a_call_counts_as_started_when_it_goes_out() -> None:
    """Lag, header, history and the timeout: all of them begin with the call, not with the wait for its
    host."""

    async def story(scene: Scene) -> None:
        patient = claim(3)
        await scene.run(claim(1), claim(2), patient)
        scene.clock.advance(1500 * MILLISECOND)
        await scene.answer(1)
        assert patient.started_at == patient.fired_at == START + 1500 * MILLISECOND
        assert own_headers(assignment_of(patient))["tocsin-lag-ms"] == "1500"
        (lag,) = scene.telemetry.lag.collect()
        assert {sample.value for sample in lag.samples if sample.name.endswith("_sum")} == {1.5}

    play(story)


def test_the_timeout_of_a_call_begins_when_it_goes_out() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(claim(1), claim(2), claim(3))
        await scene.passes(20 * SECOND)
        await scene.answer(1)
        await scene.passes(29 * SECOND)
        await scene.passes(READING)
        assert scene.settled.verdicts == [(1, Verdict.SUCCEEDED), (2, Verdict.TIMED_OUT)]
        await scene.passes(2 * SECOND)
        await scene.passes(READING)
        assert scene.settled.verdicts[2:] == [(3, Verdict.TIMED_OUT)]

    play(story)


def test_what_does_not_fit_into_the_line_waits_in_the_queue_for_its_host() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(*map(claim, range(30)))
        standing = len(scene.runner.claims()) - CONNECTIONS
        back = scene.settled.given_back
        assert (standing, len(back)) == (4, 24)
        assert {waits_for for _, _, waits_for in back} == {Reason.HOST_LINE}
        times = [postponed_to for _, postponed_to, _ in back]
        assert times == sorted(times)
        assert times[0] > START

    play(story)


def test_what_stands_for_long_goes_back_without_an_attempt() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(*map(claim, range(3)))
        scene.clock.advance(LONGEST_STAND)
        scene.runner.line_keeper.shorten(scene.clock.now())
        assert [(token, waits_for) for token, _, waits_for in scene.settled.given_back] == [
            (2, Reason.HOST_LINE)
        ]

    play(story)


def test_what_is_cancelled_in_line_ends_without_a_call() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(claim(1), claim(2), claim(3))
        scene.runner.stop(claim(3))
        await scene.answer(1)
        assert scene.called == [1, 2]
        assert (3, Verdict.CANCELLED) in scene.settled.verdicts

    play(story)


def test_what_is_lost_in_line_is_not_called() -> None:
    async def story(scene: Scene) -> None:
        lost = scene.abandoned
        by_heartbeat, by_clock = claim(3, limit_key="k"), claim(4, deadline_at=START + SECOND, limit_key="k")
        await scene.run(claim(1), claim(2), by_heartbeat, by_clock)
        scene.runner.abandon(by_heartbeat)
        scene.clock.advance(2 * SECOND)  # the process stood still
        await scene.answer(1)
        assert lost == [by_heartbeat, by_clock]
        assert scene.called == [1, 2]
        await scene.run(claim(5))
        assert scene.called == [1, 2, 5]  # the connection is not lost with them

    play(story)


def test_what_cannot_start_in_time_any_more_is_given_back_to_expire() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(claim(1), claim(2), claim(3, start_by=START + SECOND))
        scene.clock.advance(SECOND)
        await scene.answer(1)
        assert scene.called == [1, 2]
        assert scene.settled.given_back == [(3, START, None)]

    play(story)


def test_draining_gives_back_what_stands_in_line_and_takes_nobody_into_it() -> None:
    async def story(scene: Scene) -> None:
        await scene.run(claim(1), claim(2), claim(3))
        draining = asyncio.create_task(scene.runner.drain(10))
        await spin()
        assert scene.settled.given_back == [(3, START, None)]
        await scene.run(claim(4))  # the answer to a start that was under way
        assert scene.settled.given_back[1:] == [(4, START, None)]
        await scene.answer(1)
        await scene.answer(2)
        await draining

    play(story)


def test_where_places_are_short_those_that_stand_in_no_line_have_every_second_one() -> None:
    async def story(scene: Scene) -> None:
        for host in ("a", "b"):
            await scene.run(*(claim(ord(host) * 100 + n, f"http://{host}.test/") for n in range(4)))
        assert scene.places.unused == 0
        scene.places.blocked = True
        begun = len(scene.called)
        for token in (9700, 9800, 9701):
            await scene.answer(token)
        assert len(scene.called) - begun == 1
        assert scene.places.unused == 2
        scene.places.blocked = False
        await scene.runner.line_keeper.run_once(scene.clock.now())  # what others leave is not left idle
        await spin()
        assert len(scene.called) - begun == 3

    play(story)
