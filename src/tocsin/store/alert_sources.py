"""Where alert rules look: at tallies, lanes, nodes and indexes of what is rare. Nothing here searches.

Every look is bounded by tenants and by rows of each, never by a backlog or by history. What it finds says
whose it is. Tenants None are all of them; where each one is probed, those with work within the hour.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.domain.alert_rule import (
    ArchiveFailing,
    DeadLetters,
    DidNotRun,
    DiskTrouble,
    FailuresInARow,
    HostAtRest,
    LateFires,
    PartitionTrouble,
    PausedQueue,
    PendingJobs,
    Unserved,
    Watch,
)
from tocsin.domain.alerting import MOST_GROUPS, QUEUE, Finding
from tocsin.domain.cells import CELL
from tocsin.domain.ids import job_text
from tocsin.domain.instant import (
    MILLISECOND,
    SECOND,
    Instant,
    Span,
    format_instant,
    format_span,
    parse_span,
    to_datetime,
)
from tocsin.domain.limits import TenantLimits
from tocsin.domain.tally import FLEET, FLEET_STEP, TENANT_STEP, within
from tocsin.store.picture import samples
from tocsin.store.statements import sql
from tocsin.store.tenants import TenantStore, readable

Found = tuple[int, Finding]
Tenants = list[int] | None
_MOST_TENANTS: Final = 10_000
_MOST_READ: Final = 2_000
_MOST_OF_SHARD: Final = 200
_MOST_WAITING: Final = 1_000
_MOST_LANES: Final = 500


class AlertSources:
    """Looks for trouble, of all tenants."""

    def __init__(self, database: Database, horizon: float, defaults: TenantLimits) -> None:
        """`defaults`: limits of tenants that say nothing of their own."""
        self._database = database
        self._tenants = TenantStore(database)
        self._horizon = horizon
        self._defaults = defaults

    async def find(self, watch: Watch, tenants: Tenants, now: Instant) -> list[Found]:
        """What there is of one kind of trouble. Kinds that a scheduler knows by itself have nothing here."""
        match watch:
            case DeadLetters():
                return await self.dead_letters(watch, tenants, now)
            case FailuresInARow():
                return await self.failures(watch, tenants, now)
            case DidNotRun():
                return await self.did_not_run(watch, tenants, now)
            case LateFires():
                return await self.lags(watch, tenants, now)
            case Unserved():
                return await self.unserved(watch, tenants, now)
            case PausedQueue():
                return await self.paused(watch, tenants, now)
            case HostAtRest():
                return await self.hosts(watch, tenants, now)
            case PendingJobs():
                return await self.pending(watch, tenants)
            case PartitionTrouble() | ArchiveFailing() | DiskTrouble():
                return await self._room(watch, now)
        return []

    async def dead_letters(self, watch: DeadLetters, tenants: Tenants, now: Instant) -> list[Found]:
        """Dead letters by kind of error."""
        rows = await self._database.fetch(
            sql("alert_dead_letters"),
            await self._probed(tenants),
            now - parse_span(watch.window, "window"),
            watch.queue,
            QUEUE,
            _MOST_READ,
            watch.at_least,
            MOST_GROUPS,
        )
        names = await self._names(row["job_id"] for row in rows)
        return [(row["tenant_id"], _dead_letters(row, names)) for row in rows]

    async def failures(self, watch: FailuresInARow, tenants: Tenants, now: Instant) -> list[Found]:
        """Jobs that fail again and again."""
        rows = await self._database.fetch(
            sql("alert_failures"),
            await self._probed(tenants),
            now - parse_span(watch.window, "window"),
            QUEUE,
            watch.number,
            _MOST_READ,
            MOST_GROUPS,
            CELL,
        )
        names = await self._names(row["job_id"] for row in rows)
        found = []
        for row in rows:
            words = f"{_job(row['job_id'], names)} failed {row['failed']} times in a row: {row['error']}"
            detail = _detail(row["job_id"], names, failed=row["failed"])
            found.append((row["tenant_id"], Finding(job_text(row["job_id"]), words, detail)))
        return found

    async def did_not_run(self, watch: DidNotRun, tenants: Tenants, now: Instant) -> list[Found]:
        """Recurring jobs with a fire that has not started in time: not planned, planned and waiting, or
        missed."""
        before = now - parse_span(watch.grace, "grace")
        since = now - parse_span(watch.window, "window")
        missed = await self._database.fetch(
            sql("alert_missed"), await self._probed(tenants), since, _MOST_READ, MOST_GROUPS
        )
        unplanned = await self.unplanned(tenants, before)
        waiting = [row for row in await self.waiting(tenants, before, now) if row["missed"]]
        names = await self._names([row["job_id"] for row in missed] + [row["missed_job"] for row in waiting])
        names |= {row["job_id"]: row["name"] for row in unplanned if row["name"] is not None}
        found: dict[tuple[int, str], Finding] = {}

        def note(tenant_id: int, job_id: UUID, words: str, **detail: Any) -> None:
            summary = f"{_job(job_id, names)} did not run: {words}"
            group = job_text(job_id)
            found.setdefault((tenant_id, group), Finding(group, summary, _detail(job_id, names, **detail)))

        for row in unplanned:
            at = format_instant(row["fire_at"])
            note(row["tenant_id"], row["job_id"], f"no scheduler planned its fire of {at}", fire_at=at)
        for row in waiting:
            number = row["missed"]
            words = f"its fire waits since {format_instant(row['oldest'])} in the queue {row['queue']}"
            note(row["tenant_id"], row["missed_job"], words, queue=row["queue"], waiting=number)
        for row in missed:
            at = format_instant(row["fire_at"])
            note(row["tenant_id"], row["job_id"], f"{row['number']} missed up to {at}", fire_at=at)
        return [(tenant_id, finding) for (tenant_id, _), finding in found.items()]

    async def unplanned(self, tenants: Tenants, before: Instant) -> list[Record]:
        """Recurring jobs that were due before an instant and were not planned."""
        return await self._database.fetch(
            sql("alert_unplanned"), tenants, before, _MOST_OF_SHARD, MOST_GROUPS, CELL
        )

    async def waiting(self, tenants: Tenants, before: Instant, now: Instant) -> list[Record]:
        """Lanes in which something waits that was due before an instant."""
        return await self._database.fetch(
            sql("alert_waiting"), tenants, before, _MOST_WAITING, _MOST_LANES, CELL, now, QUEUE
        )

    async def ended(self, tenants: Tenants, since: Instant) -> int:
        """How many executions ended from an instant on, by their buckets; alerts' own do not count."""
        of, step = ([FLEET], FLEET_STEP) if tenants is None else (tenants, TENANT_STEP)
        rows = await self._database.fetch(
            sql("alert_lags"), of, step // SECOND, since - since % step, None, QUEUE
        )
        return sum(row["count"] for row in rows)

    async def lags(self, watch: LateFires, tenants: Tenants, now: Instant) -> list[Found]:
        """Queues in which too few fires started in time. An execution that waits longer than that counts,
        and so does one that expired."""
        of, step = ([FLEET], FLEET_STEP) if tenants is None else (tenants, TENANT_STEP)
        bound = parse_span(watch.within, "within")
        since = now - parse_span(watch.window, "window")
        rows = await self._database.fetch(
            sql("alert_lags"), of, step // SECOND, since - since % step, watch.queue, QUEUE
        )
        counts: dict[tuple[int, str], _Fires] = {}
        for row in rows:
            counts.setdefault((row["tenant_id"], row["queue"]), _Fires()).add(row, bound)
        for row in await self.waiting(tenants, now - bound, now):
            if watch.queue in (None, row["queue"]):
                whose = FLEET if tenants is None else row["tenant_id"]
                counts.setdefault((whose, row["queue"]), _Fires()).number += row["number"]
        return [
            (tenant_id, _late(queue, fires, watch, bound))
            for (tenant_id, queue), fires in counts.items()
            if fires.number >= watch.at_least and fires.in_time < watch.share * fires.number
        ]

    async def unserved(self, watch: Unserved, tenants: Tenants, now: Instant) -> list[Found]:
        """Lanes with work for a route that no live worker serves in their queue."""
        waiting = await self.waiting(tenants, now - parse_span(watch.waiting, "waiting"), now)
        if not waiting:
            return []
        workers = await self.served()
        found: dict[tuple[int, str], Finding] = {}
        for row in waiting:
            if any(_serves(worker, row) for worker in workers):
                continue
            group = f"{row['queue']}/{row['route']}"
            words = (
                f"no worker serves {row['route']} in the queue {row['queue']};"
                f" executions wait since {format_instant(row['oldest'])}"
            )
            detail = {"queue": row["queue"], "route": row["route"], "waiting": row["number"]}
            found.setdefault((row["tenant_id"], group), Finding(group, words, detail))
        return [(tenant_id, finding) for (tenant_id, _), finding in found.items()]

    async def served(self) -> list[Record]:
        """What live workers serve."""
        return await self._database.fetch(sql("alert_served"))

    async def paused(self, watch: PausedQueue, tenants: Tenants, now: Instant) -> list[Found]:
        """Queues that are paused for long."""
        rows = await self._database.fetch(
            "SELECT tenant_id, name, paused_at, paused_by FROM queues WHERE paused_at < $1"
            " AND ($2::integer[] IS NULL OR tenant_id = ANY ($2)) AND ($3::text IS NULL OR name = $3)"
            " ORDER BY paused_at LIMIT $4",
            now - parse_span(watch.longer_than, "longer_than"),
            tenants,
            watch.queue,
            _MOST_LANES,
        )
        found = []
        for row in rows:
            since = format_instant(row["paused_at"])
            words = f"the queue {row['name']} is paused since {since}"
            found.append(
                (row["tenant_id"], Finding(row["name"], words, {"queue": row["name"], "paused_at": since}))
            )
        return found

    async def hosts(self, watch: HostAtRest, tenants: Tenants, now: Instant) -> list[Found]:
        """Hosts and brokers that executions wait for for long."""
        rows = await self._database.fetch(
            sql("alert_hosts"),
            tenants,
            now - parse_span(watch.longer_than, "longer_than"),
            _MOST_WAITING,
            _MOST_LANES,
            CELL,
            QUEUE,
        )
        names = await self._names(row["job_id"] for row in rows)
        found = []
        for row in rows:
            since, number = format_instant(row["oldest"]), row["number"]
            what = "1 execution waits" if number == 1 else f"{number} executions wait"
            words = (
                f"{row['host']} fails or takes no more calls: {what} for it since {since},"
                f" among them of {_job(row['job_id'], names)}"
            )
            detail = _detail(row["job_id"], names, host=row["host"], waiting=number, since=since)
            found.append((row["tenant_id"], Finding(row["host"], words, detail)))
        return found

    async def pending(self, watch: PendingJobs, tenants: Tenants) -> list[Found]:
        """Tenants that are near their limit of pending jobs."""
        rows = await self._database.fetch(
            "SELECT * FROM tenants WHERE id = ANY ($1::integer[])", await self._probed(tenants)
        )
        found = []
        for tenant in readable(rows):
            limit = tenant.limits.over(self._defaults).pending_jobs
            if limit is None:
                continue
            pending = await self._tenants.pending_jobs(tenant.id, self._horizon, limit)
            if pending >= watch.share * limit:
                words = f"{pending:,} of {limit:,} pending jobs are used"
                found.append(
                    (tenant.id, Finding("pending_jobs", words, {"pending": pending, "limit": limit}))
                )
        return found

    async def _room(
        self, watch: PartitionTrouble | ArchiveFailing | DiskTrouble, now: Instant
    ) -> list[Found]:
        match watch:
            case PartitionTrouble():
                return await self.partitions(now)
            case ArchiveFailing():
                return await self.unarchived(watch)
            case DiskTrouble():
                return await self.disks(watch)

    async def partitions(self, now: Instant) -> list[Found]:
        """Tables without a partition for tomorrow, or with rows where no day is."""
        tomorrow = to_datetime(now).date() + timedelta(days=1)
        found = []
        for table in ("history", "audit", "attempt_logs"):
            row = await self._database.one(
                f"SELECT to_regclass($1::text) IS NULL AS missing, EXISTS (SELECT FROM {table}_default) AS strays",  # noqa: S608
                f"{table}_{tomorrow:%Y%m%d}",
            )
            if row["missing"]:
                words = f"{table} has no partition for {tomorrow}"
                found.append((FLEET, Finding(f"{table}/missing", words, {"table": table})))
            if row["strays"]:
                words = f"rows of {table} lie in its default partition"
                found.append((FLEET, Finding(f"{table}/strays", words, {"table": table})))
        return found

    async def disks(self, watch: DiskTrouble) -> list[Found]:
        """Disks of live nodes with little room, as their heartbeats told."""
        rows = await self._database.fetch("SELECT name, stats FROM nodes WHERE expires_at > tocsin_now()")
        found = []
        for row in rows:
            for sample, labels, free in samples(row["stats"]):
                if sample == "tocsin_disk_free_ratio" and free < watch.free:
                    place = labels["place"]
                    words = f"{row['name']} has {free:.1%} of the disk left that its {place} files are on"
                    detail = {"node": row["name"], "place": place, "free": round(free, 3)}
                    found.append((FLEET, Finding(f"{row['name']}/{place}", words, detail)))
        return found

    async def unarchived(self, watch: ArchiveFailing) -> list[Found]:
        """Tables with a day that cannot be archived."""
        rows = await self._database.fetch(
            "SELECT DISTINCT ON (name) name, day, failures, trouble FROM archives WHERE failures >= $1 ORDER BY name, day",
            watch.at_least,
        )
        found = []
        for row in rows:
            day, failures = str(row["day"]), row["failures"]
            words = f"{row['name']} of {day} cannot be archived, tried {failures} times: {row['trouble']}"
            detail = {"table": row["name"], "day": day, "failures": failures}
            found.append((FLEET, Finding(row["name"], words, detail)))
        return found

    async def epochs(self) -> tuple[int, int]:
        """How many shards there are, and how often they changed hands in all."""
        row = await self._database.one(
            "SELECT count(*)::integer AS shards, sum(epoch)::bigint AS epochs FROM shards"
        )
        return row["shards"], row["epochs"]

    async def names_of(self, tenants: Collection[int]) -> dict[int, str]:
        """What tenants are called."""
        rows = await self._database.fetch(
            "SELECT id, name FROM tenants WHERE id = ANY ($1::integer[])", sorted(tenants)
        )
        return {row["id"]: row["name"] for row in rows}

    async def _probed(self, tenants: Tenants) -> list[int]:
        if tenants is not None:
            return tenants
        rows = await self._database.fetch("SELECT DISTINCT tenant_id FROM lanes LIMIT $1", _MOST_TENANTS)
        return [row["tenant_id"] for row in rows]

    async def _names(self, job_ids: Any) -> dict[UUID, str]:
        wanted = sorted(set(job_ids))
        if not wanted:
            return {}
        rows = await self._database.fetch(
            "SELECT id, name FROM jobs WHERE cell = $1 AND id = ANY ($2::uuid[]) AND name IS NOT NULL",
            CELL,
            wanted,
        )
        return {row["id"]: row["name"] for row in rows}


class _Fires(msgspec.Struct):
    """A queue's fires within a window."""

    number: int = 0
    in_time: float = 0.0

    def add(self, row: Record, bound: Span) -> None:
        """Count what ended in one bucket. Of many the lateness of some is known, and stands for all."""
        known = sum(row["lag"])
        if known:
            self.number += row["count"]
            self.in_time += row["count"] * within(row["lag"], bound // MILLISECOND) / known
        elif row["state"] == "expired":
            self.number += row["count"]


def _late(queue: str, fires: _Fires, watch: LateFires, bound: Span) -> Finding:
    words = (
        f"in the queue {queue} {fires.in_time / fires.number:.1%} of {fires.number} fires started within"
        f" {format_span(bound)}, less than {watch.share:.2%}"
    )
    detail = {"queue": queue, "fires": fires.number, "in_time": round(fires.in_time)}
    return Finding(queue, words, detail)


def _dead_letters(row: Record, names: dict[UUID, str]) -> Finding:
    number, jobs = row["number"], row["jobs"]
    what = "1 execution" if number == 1 else f"{number} executions"
    whose = (
        _job(row["job_id"], names) if jobs == 1 else f"{jobs} jobs, among them {_job(row['job_id'], names)}"
    )
    detail = _detail(row["job_id"], names, number=number, jobs=jobs, last_at=format_instant(row["last_at"]))
    words = f"{what} of {whose} failed for good: {row['error']}"
    return Finding(row["error_fingerprint"] or "unknown", words, detail)


def _job(job_id: UUID, names: dict[UUID, str]) -> str:
    return names.get(job_id) or job_text(job_id)


def _detail(job_id: UUID, names: dict[UUID, str], **more: Any) -> dict[str, Any]:
    named = {"name": names[job_id]} if job_id in names else {}
    return {"job": job_text(job_id), **named, **more}


def _serves(worker: Record, lane: Record) -> bool:
    return (
        worker["tenant_id"] in (None, lane["tenant_id"])
        and (not worker["queues"] or lane["queue"] in worker["queues"])
        and lane["route"] in worker["routes"]
    )
