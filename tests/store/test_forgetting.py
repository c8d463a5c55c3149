"""What is over is forgotten at the rate at which it ends, and nothing that is not over ever is."""

from collections.abc import Sequence
from uuid import UUID

from tests.simulation.virtual_time import START
from tests.simulation.workshop import TENANT, Workshop, play
from tests.support.queues import WholeQueue
from tocsin.clock import VirtualClock
from tocsin.domain.instant import DAY, HOUR, MINUTE, Instant, Span
from tocsin.domain.lifecycle import State
from tocsin.domain.policy import Limit, Misfire, MisfirePolicy, Policies
from tocsin.scheduler.forgetter import Forgetter, rest_after
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.retention import Retention
from tocsin.store import forgetting_tenants
from tocsin.store.control.firing import Firing
from tocsin.store.forgetting import ForgettingStore
from tocsin.store.history import HistoryStore
from tocsin.store.leases import LeaseStore

DAYS = 5


class AllShards(Leases):
    """A node that leases everything."""

    def trusted(self) -> dict[int, int]:
        return {0: 1}


class Tidying:
    """Retention and forgetting on one node."""

    def __init__(self, shop: Workshop, history: HistoryStore | None = None) -> None:
        leases = AllShards(shop.time.clock, 10.0)
        self._time = shop.time
        self._forgetter = Forgetter(ForgettingStore(shop.database, DAYS, DAYS), leases, shop.time.clock)
        nodes = LeaseStore(shop.plain, 10.0)
        self._retention = Retention(HistoryStore(shop.database), nodes, leases, DAYS, DAYS)

    async def run(self, span: Span) -> int:
        """Let both do what they want to for a while. Returns how much was forgotten."""
        until, forgotten = self._time.now() + span, 0
        await self._retention.run_once(self._time.now())
        while self._time.now() < until:
            report = await self._forgetter.run_once(self._time.now())
            forgotten += report.done
            assert report.again_at is not None
            await self._time.advance_to(min(until, report.again_at))
        await self._retention.run_once(self._time.now())
        return forgotten


async def _end(shop: Workshop, state: State = State.SUCCEEDED) -> None:
    """Everything that is due ends."""
    node = await shop.leases.register("worker", ("worker",), "test")
    worker = shop.worker(node)
    while claims := await shop.claim(worker):
        await worker.settling.finish([shop.finish(claim, state) for claim in claims])


def test_one_offs_are_forgotten_as_fast_as_they_ended_however_many(url: str) -> None:
    async def story(shop: Workshop) -> None:
        for _ in range(5):
            await shop.many(1000)
        await _end(shop)
        await shop.time.advance((DAYS + 2) * DAY)
        assert await Tidying(shop).run(HOUR) == 5000
        assert await shop.count("jobs") == 0
        assert await shop.count("history") == 0
        assert await shop.count("day_walks") == 0

    play(url, story)


def test_keys_are_forgotten_as_fast_as_they_expire_however_many(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.plain.execute(
            "INSERT INTO idempotency (tenant_id, key, request_hash, job_id, expires_at)"
            " SELECT 1, n::text, '', gen_random_uuid(), tocsin_now() - n * interval '1 ms' FROM generate_series(1, 12000) n"
        )
        await Tidying(shop).run(MINUTE)
        assert await shop.count("idempotency") == 0

    play(url, story)


def test_jobs_that_are_not_over_are_kept(url: str) -> None:
    async def story(shop: Workshop) -> None:
        pending = await shop.once(in_=400 * DAY)
        paused = await shop.once(in_=DAY)
        await shop.pausing.pause(TENANT, paused.job_id, "wait")
        live = await shop.recurring(DAY)
        await shop.once()
        await _end(shop)
        await shop.time.advance((DAYS + 2) * DAY)
        await Tidying(shop).run(3 * HOUR)
        assert await _jobs(shop) == {pending.job_id, paused.job_id, live}

    play(url, story)


_MISSED = (
    "INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, cause, route, missed_after)"
    " SELECT 0, $1, at, 1, 'nobody', 5, at, at, 'schedule', 'noop', at + interval '1 min'"
    " FROM (SELECT tocsin_now() - n * interval '1 min' AS at FROM generate_series(1, $2::integer) AS n) AS fires"
)
_LONG = "7d"


def test_fires_that_nothing_starts_do_not_pile_up_and_those_that_may_yet_run_stay(url: str) -> None:
    async def story(shop: Workshop) -> None:
        kept: dict[UUID, int] = {}
        for misfire, number in (
            (Misfire(lookback=_LONG), 1),
            (Misfire(MisfirePolicy.FIRE_ALL, lookback=_LONG, max=3), 3),
            (Misfire(MisfirePolicy.FIRE_ALL, max=3), 0),  # an hour back
            (Misfire(MisfirePolicy.SKIP), 0),
        ):
            job_id = await shop.recurring(MINUTE, Policies(misfire=misfire))
            kept[job_id] = number
            await shop.plain.execute(_MISSED, job_id, 500)
            await shop.plain.execute(
                "UPDATE jobs SET fire_count = 500, next_fire_at = tocsin_now() + interval '10 h' WHERE id = $1",
                job_id,
            )
        latest = shop.time.now() - MINUTE
        await Tidying(shop).run(3 * HOUR)
        for job_id, number in kept.items():
            rows = await shop.plain.fetch(
                "SELECT fire_at FROM executions WHERE job_id = $1 ORDER BY fire_at DESC", job_id
            )
            assert [row["fire_at"] for row in rows] == [latest - place * MINUTE for place in range(number)]
            told = await shop.plain.one(
                "SELECT count(*) AS number, min(reason) AS reason FROM history WHERE job_id = $1 AND state = 'skipped'",
                job_id,
            )
            assert told["number"] == 500 - number
            assert told["reason"].startswith("misfire_")
            job = await shop.plain.one("SELECT fire_count FROM jobs WHERE id = $1", job_id)
            assert job["fire_count"] == number

    play(url, story)


def test_what_was_missed_a_moment_ago_is_the_workers_to_decide(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(MINUTE)
        await shop.plain.execute(_MISSED, job_id, 5)
        store = ForgettingStore(shop.database, DAYS, DAYS)
        assert await store.sweep("executions", 0, shop.time.now(), None) == 0
        assert await shop.count("executions") == 5

    play(url, story)


def test_a_job_that_ran_again_is_kept_as_long_as_the_history_of_that(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await _end(shop)
        await shop.time.advance(3 * DAY)
        await _tend(shop)
        await Firing(shop.plain).run(TENANT, key.job_id, shop.time.now(), again=key.fire_at)
        await _end(shop)
        tidying = Tidying(shop)
        await shop.time.advance(4 * DAY)
        await tidying.run(3 * HOUR)
        assert await shop.past(key) == []
        assert await _jobs(shop) == {key.job_id}
        await shop.time.advance(3 * DAY)
        await tidying.run(3 * HOUR)
        assert await _jobs(shop) == set()

    play(url, story)


def test_a_job_that_is_retried_while_its_day_is_forgotten_is_kept(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await _end(shop, State.DEAD)
        await shop.time.advance((DAYS + 2) * DAY)
        await shop.executions.retry(TENANT, key)
        await Tidying(shop).run(3 * HOUR)
        assert await _jobs(shop) == {key.job_id}
        assert await shop.live(key) is not None

    play(url, story)


def test_recurring_jobs_that_are_over_are_forgotten_with_their_last_history(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(DAY)
        never_fired = await shop.recurring(DAY)
        await Firing(shop.plain).run(TENANT, job_id, shop.time.now())
        await _end(shop)
        for ended in (job_id, never_fired):
            await shop.cancelling.cancel(TENANT, ended, "over")
        tidying = Tidying(shop)
        await shop.time.advance((DAYS - 1) * DAY)
        await tidying.run(HOUR)
        assert await _jobs(shop) == {job_id, never_fired}
        await shop.time.advance(3 * DAY)
        await tidying.run(3 * HOUR)
        assert await _jobs(shop) == set()

    play(url, story)


def test_a_day_is_dropped_when_its_jobs_are_forgotten_or_after_another_week(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.once()
        await _end(shop)
        await shop.time.advance((DAYS + 2) * DAY)
        await _tend(shop)
        assert await shop.count("history") == 1
        await shop.time.advance(7 * DAY)
        await _tend(shop)
        assert await shop.count("history") == 0

    play(url, story)


def test_rates_and_slots_of_keys_that_nothing_uses_any_more_go(url: str) -> None:
    async def story(shop: Workshop) -> None:
        now = shop.time.now()
        for number in range(50):
            await shop.plain.execute(
                "INSERT INTO limit_rates (cell, tenant_id, key, next_at) VALUES (0, 1, $1, $2)",
                f"k{number}",
                now,
            )
        await shop.plain.execute(
            "INSERT INTO slots (cell, tenant_id, key, slot) SELECT 0, 1, 'k' || n % 50, n / 50 + 1"
            " FROM generate_series(0, 799) n"
        )
        await shop.plain.execute(
            "UPDATE slots SET node_id = 7, epoch = nextval('slots_epochs') WHERE key = 'k3' AND slot = 2"
        )
        tidying = Tidying(shop)
        await tidying.run(MINUTE)
        assert await shop.count("slots") == 800  # nobody knows yet that they are not used
        await tidying.run(3 * HOUR)
        assert await shop.count("limit_rates") == 0
        rows = await shop.plain.fetch("SELECT key, count(*) AS slots FROM slots GROUP BY key")
        assert {row["key"]: row["slots"] for row in rows} == {"k3": 16}

    play(url, story)


def test_a_worker_that_remembers_slots_which_were_forgotten_makes_them_again(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(await shop.leases.register("worker", ("worker",), "test"))
        limit = Policies(limit=Limit("key", max_parallel=2))
        await shop.once(policies=limit)
        await _run_gated(shop, worker)
        await worker.slots.give_back_all()
        tidying = Tidying(shop)
        await tidying.run(3 * HOUR)
        assert await shop.count("slots") == 0
        await shop.once(policies=limit)
        assert await _run_gated(shop, worker) == 1

    play(url, story)


def test_backfills_and_keys_that_are_over_go_when_their_traces_do(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.plain.execute(
            "INSERT INTO backfills (tenant_id, cell, job_id, shard, schedule, range_from, range_to, mode, direction,"
            " max_parallel, total, state, finished_at) SELECT 1, 0, gen_random_uuid(), 0, '{}', tocsin_now(), tocsin_now(),"
            " 'all', 'oldest_first', 1, 1, s, CASE WHEN s <> 'running' THEN tocsin_now() END"
            " FROM unnest(ARRAY['running', 'completed', 'cancelled']) s"
        )
        for name, ended in (("live", None), ("revoked", shop.time.now())):
            await shop.plain.execute(
                "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes, revoked_at) VALUES ($1, 1, $1, '', '{}', $2)",
                name,
                ended,
            )
        tidying = Tidying(shop)
        await tidying.run(3 * HOUR)
        assert await shop.count("backfills") == 3
        assert await shop.count("api_keys WHERE id = 'revoked'") == 1
        await shop.time.advance((DAYS + 1) * DAY)
        await tidying.run(3 * HOUR)
        assert await shop.count("backfills") == 1
        assert await shop.count("api_keys WHERE id = 'revoked'") == 0
        assert await shop.count("api_keys WHERE id = 'live'") == 1

    play(url, story)


def test_an_errand_that_fails_keeps_no_other_from_its_turn(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.plain.execute(
            "INSERT INTO idempotency (tenant_id, key, request_hash, job_id, expires_at)"
            " VALUES (1, 'old', '', gen_random_uuid(), tocsin_now() - interval '1 s')"
        )
        store = ForgettingStore(shop.database, DAYS, DAYS)
        store.oldest_day = _broken  # type: ignore[method-assign, assignment]
        forgetter = Forgetter(store, AllShards(shop.time.clock, 10.0), shop.time.clock)
        failed = 0
        for _ in range(10):
            try:
                await forgetter.run_once(shop.time.now())
            except ZeroDivisionError:
                failed += 1
            await shop.time.advance(MINUTE // 20)
        assert failed == 1
        assert await shop.count("idempotency") == 0

    play(url, story)


def test_forgetting_rests_nine_times_as_long_as_it_works_and_the_less_the_more_days_wait() -> None:
    assert rest_after(40_000) == 360_000
    assert rest_after(40_000, behind=1) == 180_000
    assert rest_after(40_000, behind=8) == 40_000
    assert rest_after(0) > 0
    assert rest_after(3_600_000_000) == 10_000_000


async def _broken(_: Instant) -> None:
    raise ZeroDivisionError


async def _tend(shop: Workshop) -> None:
    retention = Retention(
        HistoryStore(shop.database),
        LeaseStore(shop.plain, 10.0),
        AllShards(VirtualClock(START), 10.0),
        DAYS,
        DAYS,
    )
    await retention.run_once(shop.time.now())


async def _run_gated(shop: Workshop, worker: WholeQueue) -> int:
    """Start and end what is due under a limit. Returns how much that was."""
    await shop.plain.execute("UPDATE nodes SET expires_at = 'infinity'")
    started = await worker.starting.start_gated(await shop.claim(worker), shop.time.now())
    await worker.settling.succeed(started, shop.time.now())
    return len(started)


async def _jobs(shop: Workshop) -> set[object]:
    return {row["id"] for row in await shop.plain.fetch("SELECT id FROM jobs")}


async def _second_tenant(shop: Workshop) -> int:
    row = await shop.plain.one("INSERT INTO tenants (name) VALUES ('acme') RETURNING id")
    return int(row["id"])


async def _give(shop: Workshop, tenant_id: int, tables: Sequence[str]) -> None:
    """Make what there is that of another tenant."""
    for table in tables:
        await shop.plain.execute(f"UPDATE {table} SET tenant_id = $1 WHERE tenant_id = $2", tenant_id, TENANT)


def test_of_a_deleted_tenant_everything_goes_but_what_runs_ends_first(url: str) -> None:
    async def story(shop: Workshop) -> None:
        acme = await _second_tenant(shop)
        await shop.many(1500)
        await _end(shop)
        running = await shop.once()
        (claim,) = await shop.claim(worker := shop.worker(1))
        await shop.plain.execute("UPDATE executions SET started_at = run_at")
        await shop.many(1200, HOUR)
        await shop.recurring(DAY)
        for table, columns, values in (
            ("secrets", "name, key_id, sealed", "'s', 'k', ''"),
            ("api_keys", "id, name, secret_hash, scopes", "'k', 'k', '', '{}'"),
            ("queues", "name", "'mail'"),
            ("calendars", "name, ranges", "'c', '[]'"),
            (
                "idempotency",
                "key, request_hash, job_id, expires_at",
                "'x', '', gen_random_uuid(), 'infinity'",
            ),
            ("alert_channels", "name, settings", "'ops', '{}'"),
            ("connections", "name, kind, settings", "'bus', 'nats', '{}'"),
        ):
            await shop.plain.execute(
                f"INSERT INTO {table} (tenant_id, {columns}) VALUES ({TENANT}, {values})"
            )
        await shop.plain.execute(
            "INSERT INTO attempt_logs (cell, job_id, fire_at, attempt, seq, at, tenant_id, level, message, total)"
            " SELECT cell, job_id, fire_at, 1, 1, finished_at, tenant_id, 'info', 'x', 1 FROM history LIMIT 5"
        )
        await _give(shop, acme, (*_OF_TENANTS, "jobs", "executions", "history", "attempt_logs"))
        mine = await shop.once(HOUR)
        await shop.plain.execute(
            "UPDATE tenants SET state = 'suspended', deleted_at = tocsin_now() WHERE id = $1", acme
        )
        tidying = Tidying(shop)
        await tidying.run(MINUTE)
        assert await _jobs(shop) == {running.job_id, mine.job_id}, "what runs is left to end"
        assert await shop.count("tenants") == 2
        await worker.settling.finish([shop.finish(claim)])
        await tidying.run(MINUTE)
        rows = await shop.plain.fetch("SELECT name FROM tenants")
        assert [row["name"] for row in rows] == ["default"]
        assert await _jobs(shop) == {mine.job_id}
        for table in (*_OF_TENANTS, "history", "attempt_logs"):
            row = await shop.plain.one(f"SELECT count(*) AS n FROM {table} WHERE tenant_id = $1", acme)
            assert row["n"] == 0, table

    play(url, story)


_OF_TENANTS = ("secrets", "api_keys", "queues", "calendars", "idempotency", "alert_channels", "connections")


def test_every_table_of_a_tenant_is_known_to_its_deletion(url: str) -> None:
    async def story(shop: Workshop) -> None:
        rows = await shop.plain.fetch(
            "SELECT c.relname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE a.attname = 'tenant_id' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            " AND c.relnamespace = 'tocsin'::regnamespace"
        )
        by_others = {
            "jobs", "executions", "history", "attempt_logs",  # by statements of their own
            "alerts", "operation_batches", "operation_runs",  # with what they belong to
            "lanes", "audit", "tenant_logins",  # by the lane remover; kept; refused while there are any
        }  # fmt: skip
        known = {*forgetting_tenants._OWNED, *by_others}
        assert {row["name"] for row in rows} == known, "name new tables of tenants in forgetting_tenants"

    play(url, story)


def test_a_tenant_may_keep_history_for_fewer_days_than_others(url: str) -> None:
    async def story(shop: Workshop) -> None:
        acme = await _second_tenant(shop)
        await shop.plain.execute("UPDATE tenants SET limits = '{\"history_days\": 2}' WHERE id = $1", acme)
        for _ in range(3):
            theirs = await shop.once()
            await shop.recurring(400 * DAY)
            mine = await shop.once()
            await _end(shop)
            await shop.plain.execute("UPDATE jobs SET tenant_id = $1 WHERE id = $2", acme, theirs.job_id)
            await shop.plain.execute(
                "UPDATE history SET tenant_id = $1 WHERE job_id = $2", acme, theirs.job_id
            )
            await shop.time.advance(DAY + HOUR)
            await _tend(shop)
        await Tidying(shop).run(HOUR)
        left = await shop.plain.fetch("SELECT tenant_id, count(*) AS n FROM history GROUP BY 1 ORDER BY 1")
        assert [(row["tenant_id"], row["n"]) for row in left] == [(TENANT, 3), (acme, 1)]
        jobs = await shop.plain.fetch("SELECT id FROM jobs WHERE kind = 'once' AND tenant_id = $1", acme)
        assert [row["id"] for row in jobs] == [theirs.job_id]
        assert len(await shop.plain.fetch("SELECT FROM jobs WHERE kind = 'recurring'")) == 3
        assert mine.job_id in await _jobs(shop)

    play(url, story)
