"""Jobs whose executions must not overlap, workers that run them, and a clock that may run in haste."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
import structlog
import uvloop

from tests.simulation.outage_haste import HastyClock
from tests.support.queues import WholeQueue, whole_queue
from tocsin.db.pool import Database, open_database
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import HOUR, SECOND, Instant
from tocsin.domain.job import Definition
from tocsin.domain.outcome import Attempt, Verdict
from tocsin.domain.policy import Overlap, Policies, Retry
from tocsin.domain.schedule import Schedule
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import NoopTarget
from tocsin.queue.allotment import Allotment
from tocsin.queue.claims import Again, Claim, Finish
from tocsin.queue.lanes import Lane
from tocsin.store.jobs import JobStore, NewJob

HASTE = 20
SOLO = ("skip", "queue", "collapse", "replace")
# The database itself refuses an end that nobody was the reason for, as it refuses a second running execution
# anyway.
WITNESS = """
CREATE OR REPLACE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.reason = 'overlap' AND NOT EXISTS (
            SELECT FROM executions h
            WHERE h.job_id = NEW.job_id AND h.has_turn AND h.fire_at <> NEW.fire_at) THEN
        RAISE EXCEPTION 'skipped although nobody has the turn: %', NEW;
    ELSIF NEW.reason LIKE 'replaced%' AND NOT EXISTS (
            SELECT FROM executions n WHERE n.job_id = NEW.job_id AND n.fire_at > NEW.fire_at
            UNION ALL SELECT FROM history n WHERE n.job_id = NEW.job_id AND n.fire_at > NEW.fire_at) THEN
        RAISE EXCEPTION 'replaced by nobody: %', NEW;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER witness BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION witness();
"""


class Life(msgspec.Struct):
    """One execution from its first start to its end."""

    fire_at: Instant
    state: str
    reason: str | None
    started_at: Instant | None
    finished_at: Instant
    attempt: int


async def passed(queue: WholeQueue, claims: list[Claim], now: Instant) -> list[Claim]:
    """Those that the claim has started, and those that pass the gate."""
    held = [claim for claim in claims if claim.started_at is None]
    started = [claim for claim in claims if claim.started_at is not None]
    return started + (await queue.starting.start_gated(held, now) if held else [])


class Place:
    """A database whose clock may run in haste, and ways to fill it."""

    def __init__(self, url: str, database: Database, clock: HastyClock) -> None:
        self.url = url
        self.database = database
        self.clock = clock
        self.errors: list[str] = []
        self._opened: list[Database] = []

    async def worker(self, node_id: int, claim_ttl: float = 4.0) -> WholeQueue:
        """A queue over connections of its own."""
        database = await open_database(self.url, name=f"worker {node_id}", size=4, pinned=True)
        self._opened.append(database)
        return whole_queue(database, node_id, claim_ttl)

    async def define(self, policy: str, count: int = 1) -> list[UUID]:
        """Jobs whose own schedule stays out of the way."""
        now = self.clock.now()
        definition = Definition(
            Schedule(every="365d"),
            NoopTarget(),
            policies=Policies(Retry(3, "1s", "1s"), overlap=Overlap(policy)),
        )
        ids = [new_job_id(now) for _ in range(count)]
        far = now + 1000 * HOUR
        await JobStore(self.database).define(
            [NewJob(job_id, 1, shard_of(job_id, DEFAULT_SHARDS), definition, far, far) for job_id in ids], now
        )
        return ids

    async def fire(self, job_id: UUID, first: Instant, count: int = 1, gap: int = SECOND) -> list[Instant]:
        """Executions as the planner writes them, due one after the other."""
        times = [first + place * gap for place in range(count)]
        await self.database.execute(
            "INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, cause, overlap,"
            " route)"
            " SELECT 0, j.id, f, 1, j.queue, 5, f, greatest(f, tocsin_now()), 'schedule', j.policies ->> 'overlap',"
            " route_of(j.target)"
            " FROM jobs j, unnest($2::timestamptz[]) AS f WHERE j.id = $1",
            job_id,
            times,
        )
        return times

    async def hold_back(self, job_id: UUID, fire_at: Instant) -> None:
        """Keep an execution out of the workers' sight until it is let go."""
        await self._set_run_at(job_id, fire_at, self.clock.now() + 100 * HOUR)

    async def let_go(self, job_id: UUID, fire_at: Instant) -> None:
        await self._set_run_at(job_id, fire_at, self.clock.now())

    async def _set_run_at(self, job_id: UUID, fire_at: Instant, run_at: Instant) -> None:
        await self.database.execute(
            "UPDATE executions SET run_at = $3, due_at = CASE WHEN $3 > tocsin_now() THEN $3 ELSE fire_at END"
            " WHERE cell = 0 AND job_id = $1 AND fire_at = $2",
            job_id,
            fire_at,
            run_at,
        )

    async def start_what_is_ready(self, queue: WholeQueue, patience: int = 0) -> list[Claim]:
        """Claim and start until there is nothing to claim; with `patience`, until something was started."""
        started: list[Claim] = []
        until = self.clock.now() + patience
        while True:
            claims = await take(self, queue, 100)
            if claims:
                started += await passed(queue, claims, self.clock.now())
            elif started or self.clock.now() >= until:
                return started
            else:
                await asyncio.sleep(0.005)

    async def fail(self, queue: WholeQueue, claim: Claim, *, again_in: int) -> None:
        now = self.clock.now()
        record = Attempt(claim.attempt, Verdict.FAILED, claim.started_at, now)
        ended = Finish(claim, "cancelled", now)
        text = msgspec.json.encode(record).decode()
        assert await queue.settling.retry([Again(claim, now + again_in, text, ended)]) == []

    async def waiting_for_locks(self, count: int, or_done: "asyncio.Task[Any] | None" = None) -> bool:
        """Whether so many sessions of this database wait for another one."""
        row = await self.database.one(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return row["n"] >= count or (or_done is not None and or_done.done())

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not (await found if asyncio.iscoroutine(found := condition()) else found):
                await asyncio.sleep(0.005)

    async def history(self, job_id: UUID) -> list[Life]:
        rows = await self.database.fetch(
            "SELECT fire_at, state, reason, started_at, finished_at, attempt, attempts FROM history"
            " WHERE cell = 0 AND job_id = $1 ORDER BY fire_at",
            job_id,
        )
        lives = []
        for row in rows:
            earlier = msgspec.json.decode(row["attempts"], type=list[Attempt]) if row["attempts"] else []
            start = earlier[0].started_at if earlier else row["started_at"]
            lives.append(
                Life(row["fire_at"], row["state"], row["reason"], start, row["finished_at"], row["attempt"])
            )
        return lives

    async def live(self, job_id: UUID) -> list[Any]:
        return await self.database.fetch(
            "SELECT * FROM executions WHERE cell = 0 AND job_id = $1 ORDER BY fire_at", job_id
        )

    async def close(self) -> None:
        for database in self._opened:
            await database.close()


async def take(place: "Place", queue: WholeQueue, most: int, ahead: int = 0) -> list[Claim]:
    """Claim what is due, the earliest first."""
    now = place.clock.now()
    allotments = [Allotment(Lane("default", 5, 1, "noop"), most)]
    return await queue.claiming.claim(allotments, now + ahead, secrets.randbits(62), now)


@asynccontextmanager
async def opened_place(url: str, speed: int = 1) -> AsyncIterator[Place]:
    clock = HastyClock(speed)
    database = await open_database(url, name="test", size=4)
    await clock.install(database)
    await database.execute(WITNESS)
    await database.execute(
        "INSERT INTO lanes (cell, queue, priority, tenant_id, route) VALUES (0, 'default', 5, 1, 'noop') ON CONFLICT DO NOTHING"
    )
    place = Place(url, database, clock)
    try:
        yield place
    finally:
        await place.close()
        await database.execute("DELETE FROM executions")
        await database.close()


def tell(url: str, story: Callable[[Place], Awaitable[None]], speed: int = 1) -> None:
    """`speed` is for stories that wait: on a hasty clock a busy machine's pauses are long ones, too."""

    async def told() -> None:
        async with opened_place(url, speed) as place:
            await story(place)

    run_quietly(told())


def run_quietly(work: Any) -> None:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        uvloop.run(work)
    finally:
        structlog.configure(**before)
