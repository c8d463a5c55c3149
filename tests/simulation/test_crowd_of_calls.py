"""A crowd of webhooks at one instant, from the queue to the calls, while each start takes 40 µs of
virtual time: which of them are called on the instant, and in which order the others follow."""

import asyncio
from typing import Any

from tests.simulation.faults import spin
from tests.simulation.virtual_time import VirtualTimer
from tests.simulation.workshop import CLAIM_TTL, TENANT, Workshop, play
from tests.support.queues import ROUTES
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.outcome import SUCCEEDED, Outcome
from tocsin.domain.schedule import Schedule
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import HttpTarget
from tocsin.failpoints import Failpoints
from tocsin.settings import Settings
from tocsin.store.jobs import NewJob
from tocsin.store.misfires import MisfireStore
from tocsin.targets.assignment import Assignment
from tocsin.telemetry import Telemetry
from tocsin.worker.worker import Worker

START_TAKES = 40  # microseconds
STEP = MILLISECOND
BUSY, CROWD, URGENT = "http://busy.example/", "http://crowd.example/", "http://urgent.example/"


class Webhooks:
    """Notes when each was called. The busy one answers when the test says so, the others at once."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self.called: list[tuple[Instant, str]] = []
        self.free = asyncio.Event()

    def host(self, target: HttpTarget) -> tuple[str, int]:
        return target.url, 80

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome:
        if target.url == BUSY:
            await self.free.wait()
        else:
            self.called.append((self._shop.time.now(), target.url))
        return SUCCEEDED


class Stage:
    """A worker of a thousand places, and time that passes while it starts executions."""

    def __init__(self, shop: Workshop) -> None:
        self.shop = shop
        self.webhooks = Webhooks(shop)
        settings = Settings(claim_ttl=CLAIM_TTL, concurrency=1000, host_concurrency=2000)
        self.worker = Worker(
            shop.worker(1, routes=ROUTES), {"http": self.webhooks}, shop.time.clock, settings, Telemetry(),
            Failpoints(), node_id=1, misfires=MisfireStore(shop.database),
        )  # fmt: skip
        self.timer = VirtualTimer(shop.time.clock, self.worker.runner)

    async def add(self, number: int, due_at: Instant, url: str = CROWD, priority: int = 5) -> None:
        """So many webhooks at one instant."""
        now = self.shop.time.now()
        definition = Definition(Schedule(at=format_instant(due_at)), HttpTarget(url), priority=priority)
        ids = [new_job_id(now) for _ in range(number)]
        shards = DEFAULT_SHARDS
        new = [NewJob(job, TENANT, shard_of(job, shards), definition, due_at, due_at) for job in ids]
        await self.shop.jobs.define(new, now)

    async def claim(self) -> None:
        for _ in range(3):
            self.worker.claimer.forget_look()
            await self.worker.claimer.run_once(self.shop.time.now())

    async def pass_time(self, until: Instant) -> None:
        """Let the starter and the alarm do what they do, and time pass with each start."""
        while (now := self.shop.time.now()) < until:
            done = (await self.worker.starter.run_once(now)).done
            await self.shop.time.advance(max(STEP, done * START_TAKES))
            await self._ring()

    async def _ring(self) -> None:
        """Fire what is due; an alarm goes on at once after some hundreds."""
        while self.timer.ring_at is not None and self.timer.ring_at <= self.shop.time.now() + 1:
            await self.shop.time.advance_to(self.timer.ring_at)
            self.timer.ring()
        await spin()

    def lags(self, due_at: Instant) -> list[Span]:
        """How late the calls were, in the order in which they were made."""
        return [at - due_at for at, _ in self.webhooks.called]


def test_with_one_place_busy_all_others_of_a_thousand_webhooks_are_called_on_their_instant(url: str) -> None:
    async def story(shop: Workshop) -> None:
        stage = Stage(shop)
        await stage.add(1, shop.time.now(), BUSY)
        await stage.claim()
        await spin()
        due_at = shop.time.now() + SECOND
        await stage.add(1000, due_at)
        await stage.claim()
        assert (len(stage.worker.timetable), stage.worker.places.unused) == (1000, 999)
        await stage.pass_time(due_at + 20 * MILLISECOND)
        lags = stage.lags(due_at)
        assert all(0 <= lag <= STEP for lag in lags[:999])
        assert len(lags) == 1000, "the last one is called with the first place that is free again"
        stage.webhooks.free.set()

    play(url, story)


def test_of_more_webhooks_than_places_the_more_urgent_are_called_on_the_instant(url: str) -> None:
    async def story(shop: Workshop) -> None:
        stage = Stage(shop)
        due_at = shop.time.now() + SECOND
        await stage.add(900, due_at, priority=7)
        await stage.add(300, due_at, URGENT, priority=2)
        await stage.claim()
        await stage.pass_time(due_at + 20 * MILLISECOND)
        lags = stage.lags(due_at)
        assert (len(lags), lags == sorted(lags)) == (1200, True)
        assert all(0 <= lag <= STEP for lag in lags[:1000])
        assert sum(url == URGENT for _, url in stage.webhooks.called[:1000]) == 300

    play(url, story)
