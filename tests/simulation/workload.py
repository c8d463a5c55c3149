"""What clients do during a run: define jobs, cancel, pause, resume, fire by hand, revive; and what they are
promised by the answers."""

import random
from uuid import UUID

from tests.simulation.records import Cancellation, Promise
from tocsin.clock import Clock
from tocsin.db.pool import Database
from tocsin.domain.errors import Conflict
from tocsin.domain.ids import ExecutionKey, shard_of
from tocsin.domain.instant import MINUTE, SECOND, Instant, format_instant, parse_span
from tocsin.domain.job import Definition, check_definition
from tocsin.domain.policy import Limit, Misfire, MisfirePolicy, Overlap, Policies, Retry
from tocsin.domain.schedule import Schedule, read_schedule, rule_of
from tocsin.domain.target import HttpTarget, NoopTarget
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.firing import Firing
from tocsin.store.control.pausing import Pausing
from tocsin.store.executions import ExecutionStore
from tocsin.store.jobs import JobStore, NewJob

TENANT = 1
_ONCE = Misfire()


class Clients:
    """Everybody who uses the API. Their own connections never fail: unknown answers are the nodes'
    business."""

    def __init__(
        self, rng: random.Random, database: Database, clock: Clock, shards: int, horizon: float
    ) -> None:
        self._rng = rng
        self._database = database
        self._jobs = JobStore(database)
        self._cancelling = Cancelling(database)
        self._pausing = Pausing(database, horizon)
        self._firing = Firing(database)
        self._executions = ExecutionStore(database)
        self._clock = clock
        self._shards = shards
        self.promises: dict[UUID, Promise] = {}
        self.cancellations: list[Cancellation] = []
        self.paused: set[UUID] = set()
        self.did: list[str] = []

    async def define_all(self, until: Instant, *, one_offs: int, recurring: int) -> None:
        """The jobs of a run; recurring ones end by themselves at `until`."""
        now = self._clock.now()
        for number in range(one_offs):
            at = now + self._rng.randrange(-2 * SECOND, until - now)
            at -= at % self._rng.choice((1, SECOND))  # many fire at the same instant
            await self._define(f"once {number}", Schedule(at=format_instant(at)), [at])
        for number in range(recurring):
            await self._define_recurring(number, now, until)

    async def act(self) -> None:
        """One client does one thing."""
        job_id = self._rng.choice(sorted(self.promises))
        action = self._rng.choices(
            (self._cancel_execution, self._cancel_job, self._pause, self._run, self._revive), (6, 1, 5, 3, 3)
        )[0]
        try:
            if job_id in self.paused:
                await self._resume(job_id)
            else:
                await action(job_id)
        except Conflict as refusal:
            self.did.append(f"{self.promises[job_id].name}: {refusal}")

    async def resume_all(self) -> None:
        for job_id in sorted(self.paused):
            await self._resume(job_id)

    async def _define_recurring(self, number: int, now: Instant, until: Instant) -> None:
        policy = self._rng.choice((MisfirePolicy.FIRE_ALL, MisfirePolicy.FIRE_ALL, *MisfirePolicy))
        most = self._rng.choice((None, None, 7)) if policy is MisfirePolicy.FIRE_ALL else None
        if number == 0:
            every, schedule = MINUTE, Schedule(cron="* * * * *", ends_at=format_instant(until))
        else:
            seconds = self._rng.choice((2, 3, 4, 5, 7))
            every = seconds * SECOND
            schedule = Schedule(every=f"{seconds}s", ends_at=format_instant(until), max_fires=most)
        times = list(range((now // every + 1) * every, until + 1, every))
        await self._define(
            f"{schedule.cron or every // SECOND} {policy}", schedule, times, misfire=Misfire(policy, grace=3)
        )

    async def _define(
        self, name: str, schedule: Schedule, times: list[Instant], misfire: Misfire = _ONCE
    ) -> None:
        rng, now = self._rng, self._clock.now()
        retry = Retry(
            rng.choice((1, 3, 5, 8)), f"{rng.choice((300, 1000))}ms", "3s", 2.0, rng.choice((0.0, 0.5))
        )
        start_within = rng.choice(("2s", "5s")) if rng.random() < 0.15 else None
        called = rng.random() < 0.95
        limit = Limit("shared", max_parallel=2) if rng.random() < 0.2 else None
        overlap = rng.choice((*Overlap, *[Overlap.ALLOW] * 4)) if schedule.recurring else Overlap.ALLOW
        definition = Definition(
            read_schedule(schedule, now),
            HttpTarget("http://target.example/") if called else NoopTarget(),
            queue=rng.choice(("default", "default", "other")),
            priority=rng.choice((3, 5)),
            policies=Policies(retry, misfire, overlap, f"{rng.choice((3, 8))}s", start_within, limit),
        )
        check_definition(definition)
        job_id = UUID(int=rng.getrandbits(128))
        first = rule_of(definition.schedule).next_fire(now if schedule.recurring else -(1 << 62))
        await self._jobs.define(
            [NewJob(job_id, TENANT, shard_of(job_id, self._shards), definition, first, max(first, now))], now
        )
        self.promises[job_id] = Promise(
            job_id=job_id,
            name=name,
            fire_times=times,
            most_fires=schedule.max_fires,
            max_attempts=retry.max_attempts,
            least_backoff=round(parse_span(retry.initial_backoff, "") * (1 - retry.jitter)),
            called=called,
            start_within=None if start_within is None else parse_span(start_within, ""),
            overlap=overlap,
            limit_key=limit and limit.key,
            max_parallel=limit.max_parallel if limit else 0,
        )

    async def _cancel_execution(self, job_id: UUID) -> None:
        rows = await self._database.fetch(
            "SELECT fire_at FROM executions WHERE cell = 0 AND job_id = $1 ORDER BY fire_at LIMIT 3", job_id
        )
        if not rows:
            return
        key = ExecutionKey(job_id, self._rng.choice(rows)["fire_at"])
        answer = (await self._executions.cancel(TENANT, key, "a client changed its mind")).answer
        self.cancellations.append(Cancellation(key, self._clock.now(), answer))
        self._note(job_id, f"cancel of {key.fire_at} answered {answer}")

    async def _cancel_job(self, job_id: UUID) -> None:
        promise = self.promises[job_id]
        live = "SELECT fire_at, started_at FROM executions WHERE cell = 0 AND job_id = $1 ORDER BY fire_at"
        rows = await self._database.fetch(live, job_id)
        job = await self._database.one("SELECT next_fire_at FROM jobs WHERE cell = 0 AND id = $1", job_id)
        done = await self._cancelling.cancel(TENANT, job_id, "a client gave up")
        if job["next_fire_at"] is not None:
            promise.ended_before = job["next_fire_at"]
        for row in rows:
            answer = "cancelled" if row["started_at"] is None else "running"
            key = ExecutionKey(job_id, row["fire_at"])
            self.cancellations.append(Cancellation(key, self._clock.now(), answer))
        self._note(job_id, f"cancelled as a whole: {done}")

    async def _pause(self, job_id: UUID) -> None:
        held = await self._pausing.pause(TENANT, job_id, "a break")
        self.paused.add(job_id)
        self._note(job_id, f"paused, {held} taken back")

    async def _resume(self, job_id: UUID) -> None:
        done = await self._pausing.resume(TENANT, job_id, self._clock.now())
        self.paused.discard(job_id)
        self._note(job_id, f"resumed: {len(done.fires)} at once, {len(done.skips)} runs of skips")

    async def _run(self, job_id: UUID) -> None:
        # Virtual time stands still on fire times; a person never hits one to the microsecond.
        key = await self._firing.run(TENANT, job_id, self._clock.now() + self._rng.randrange(1, 1000))
        self.promises[job_id].manual.append(key.fire_at)
        self._note(job_id, f"fired by hand at {key.fire_at}")

    async def _revive(self, job_id: UUID) -> None:
        rows = await self._database.fetch(
            "SELECT fire_at FROM history WHERE cell = 0 AND job_id = $1 AND state IN ('dead', 'expired', 'cancelled')"
            " ORDER BY fire_at LIMIT 5",
            job_id,
        )
        if not rows:
            return
        key = ExecutionKey(job_id, self._rng.choice(rows)["fire_at"])
        await self._executions.retry(TENANT, key)
        self._note(job_id, f"revived {key.fire_at}")

    def _note(self, job_id: UUID, words: str) -> None:
        self.did.append(f"{self.promises[job_id].name}: {words}")
