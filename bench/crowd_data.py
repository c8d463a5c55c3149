"""A crowd of jobs and a long history, by set-based SQL: three tenants that have 89 %, 10 % and 1 % of it.

Everything about a job follows from its number, and each property from other digits of it than the tenant, so
that every tenant has some of everything. Days that are over are filled before they become partitions: their
indexes are then built whole, in a tenth of the time. One job of each tenant fires every five seconds; such a
job is what calendars and lanes are slowest with.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from tocsin.clock import DatabaseClock, system_now
from tocsin.db.pool import Database
from tocsin.domain.instant import DAY, HOUR, Instant, to_datetime
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.scheduler.forecaster import Forecaster
from tocsin.scheduler.leaser import Leases
from tocsin.store.foreseeing import Foreseeing
from tocsin.store.leases import LeaseStore
from tocsin.store.tallies import TallyStore
from tocsin.telemetry import Telemetry

DAYS: Final = 6
TENANTS: Final = ("default", "tenth", "hundredth")
BATCH: Final = 200_000
_JOB_ID: Final = """('01900000-' || lpad(to_hex({n} >> 16), 4, '0') || '-7' || lpad(to_hex(({n} >> 4) & 4095), 3, '0')
    || '-8000-' || lpad(to_hex({n}), 12, '0'))::uuid"""
_TENANT: Final = "CASE WHEN {n} % 100 < 89 THEN 1 WHEN {n} % 100 < 99 THEN 2 ELSE 3 END"
_QUEUE: Final = "CASE WHEN {n} / 100 % 20 = 0 THEN 'reports' ELSE 'default' END"
_JOBS: Final = f"""
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, tags, queue, priority, schedule, target, policies, state, next_fire_at, created_at)
    SELECT 0, {_JOB_ID.format(n="n")}, {_TENANT.format(n="n")}, n % 64,
           CASE WHEN m % 10 < 3 THEN 'recurring' ELSE 'once' END,
           (ARRAY['nightly', 'invoice', 'sync', 'report', 'import', 'backup', 'digest', 'cleanup'])[1 + m % 8] || '-' || md5(n::text),
           CASE WHEN m % 50 = 1 THEN ARRAY['etl'] ELSE '{{}}'::text[] END, {_QUEUE.format(n="n")}, 5,
           CASE WHEN m % 10 < 3 THEN jsonb_build_object('cron', format('%s %s * * *', m % 60, n % 24)) ELSE '{{"at": "2030-01-01T00:00:00Z"}}' END,
           '{{"kind": "noop"}}', '{{}}', CASE WHEN m % 997 = 0 THEN 'paused' WHEN n % 100 < 89 AND m % 1009 = 0 THEN 'cancelled' ELSE 'active' END,
           tocsin_now() + interval '6 h' + (n % 86400) * interval '1 s', tocsin_now() - (n % 2592000) * interval '1 s'
    FROM generate_series($1::bigint, $2::bigint) AS n CROSS JOIN LATERAL (SELECT n / 100 AS m) AS r"""
_LIVE: Final = """
    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route)
    SELECT 0, j.id, at, j.tenant_id, j.queue, j.priority, at, at, 'noop'
    FROM generate_series($1::bigint, $2::bigint) AS n
    JOIN jobs j ON j.cell = 0 AND j.kind = 'once' AND j.state = 'active' AND j.id = {id}
    CROSS JOIN LATERAL (SELECT tocsin_now() + interval '6 h' + (n * 7 % 2592000) * interval '1 s' AS at) AS a
    WHERE n / 100 % 10 = 4""".format(id=_JOB_ID.format(n="n"))
_TICKS: Final = """
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, queue, priority, schedule, target, policies, next_fire_at)
    SELECT 0, ('01900000-ffff-7000-8000-' || lpad(t::text, 12, '0'))::uuid, t, t, 'recurring', 'tick', 'default', 5, '{"every": "5s"}',
           '{"kind": "noop"}', '{}', tocsin_now() + interval '6 h'
    FROM generate_series(1, 3) AS t"""
_HISTORY: Final = f"""
    INSERT INTO {{table}} (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at, finished_at, attempt,
                         reason, error_fingerprint, outcome)
    SELECT 0, f.id, at, f.tenant_id, f.queue, 5, 'schedule', s.state, at, at,
           CASE WHEN s.state <> 'skipped' THEN at + (n % 50) * interval '1 ms' END, at + (n % 50 + 20) * interval '1 ms', 1,
           CASE s.state WHEN 'dead' THEN 'the target answered ' || (500 + n / 200 % 4) WHEN 'skipped' THEN 'overlap' END,
           CASE s.state WHEN 'dead' THEN 'f' || n / 200 % 4 END,
           CASE s.state WHEN 'dead' THEN jsonb_build_object('verdict', 'failed', 'detail', jsonb_build_object('status', 500 + n / 200 % 4)) END
    FROM (
        SELECT n, {_JOB_ID.format(n="j")} AS id, {_TENANT.format(n="j")} AS tenant_id, {_QUEUE.format(n="j")} AS queue,
               $3::timestamptz - n * $4::interval AS at
        FROM generate_series($1::bigint, $2::bigint) AS n CROSS JOIN LATERAL (SELECT n * 7919 % $5::bigint AS j) AS r
        UNION ALL
        SELECT n * 7 + 2, ('01900000-ffff-7000-8000-' || lpad(t::text, 12, '0'))::uuid, t, 'default', at
        FROM generate_series(1, 3) AS t,
             LATERAL generate_series($3::timestamptz - $2 * $4::interval, $3::timestamptz - $1 * $4::interval, interval '5 s') AS at,
             LATERAL (SELECT (extract(epoch FROM at) / 5)::bigint AS n) AS r
    ) AS f
    CROSS JOIN LATERAL (SELECT CASE WHEN n % 200 = 0 THEN 'dead' WHEN n % 100 = 1 THEN 'skipped' ELSE 'succeeded' END AS state) AS s"""


_AUDIT: Final = f"""
    INSERT INTO audit (tenant_id, at, actor, action, object, after)
    SELECT tenant_id, created_at, 'bench', 'job.create', 'job:' || id, jsonb_build_object('name', name)
    FROM jobs WHERE created_at >= tocsin_now() - interval '{DAYS} days'"""


async def fill(database: Database, jobs: int, history: int) -> None:
    """Make the crowd, its history of six days, the tallies of that, and who created it."""
    now = system_now()
    for name in TENANTS[1:]:
        await database.execute("INSERT INTO tenants (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
    for begin in range(0, jobs, BATCH):
        await database.execute(_JOBS, begin, min(jobs, begin + BATCH) - 1)
        await database.execute(_LIVE, begin, min(jobs, begin + BATCH) - 1)
    await database.execute(_TICKS)
    await _fill_history(database, now, jobs, history)
    await database.execute(_AUDIT)
    for table in ("jobs", "executions", "audit"):
        await database.execute(f"VACUUM (ANALYZE) {table}")
    tallies = TallyStore(database)
    for at in range(now - DAYS * DAY, now + HOUR, HOUR):
        await tallies.rebuild(at)
    await database.execute("VACUUM (ANALYZE) tallies")
    await database.execute("CHECKPOINT")


async def foresee(database: Database) -> float:
    """Keep the forecast as schedulers do, without their rests. Returns the seconds that it took."""
    clock = DatabaseClock()
    leasing, leases = LeaseStore(database, 600.0), Leases(clock, 600.0)
    await clock.ask(leasing.now)
    await database.execute("UPDATE shards SET owner = NULL, expires_at = tocsin_now()")
    node = await leasing.register("bench", ("scheduler",), "bench")
    leases.renewed(await leasing.take(node, DEFAULT_SHARDS), clock.monotonic())
    forecaster, began, at = (
        Forecaster(Foreseeing(database, node), leases, clock, Telemetry()),
        clock.monotonic(),
        clock.now(),
    )
    for _ in range(8):  # steps of a cycle
        at = (await forecaster.run_once(at)).again_at or at
    await leasing.leave(node)
    return clock.monotonic() - began


async def _fill_history(database: Database, now: Instant, jobs: int, history: int) -> None:
    each = timedelta(days=DAYS) / history
    first = to_datetime(now - DAYS * DAY).date()
    for number in range(DAYS + 1):
        day = first + timedelta(days=number)
        newest, oldest = ((to_datetime(now) - _midnight(d)) / each for d in (day + timedelta(days=1), day))
        await _fill_day(
            database, day, (max(0, round(newest)), min(history, round(oldest)) - 1, now, each, jobs)
        )


async def _fill_day(database: Database, day: date, what: tuple[object, ...]) -> None:
    table, (begin, end) = f"history_{day:%Y%m%d}", (_midnight(day), _midnight(day + timedelta(days=1)))
    await database.execute(f"DROP TABLE IF EXISTS {table}")  # the empty one of a fresh installation
    await database.execute(f"CREATE TABLE {table} (LIKE history INCLUDING ALL EXCLUDING INDEXES)")
    await database.execute(_HISTORY.format(table=table), *what)
    # What fired just before midnight may have ended just after it.
    await database.execute(f"DELETE FROM {table} WHERE finished_at < '{begin}' OR finished_at >= '{end}'")
    await database.execute(
        f"ALTER TABLE history ATTACH PARTITION {table} FOR VALUES FROM ('{begin}') TO ('{end}')"
    )
    await database.execute(f"VACUUM (ANALYZE) {table}")


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
