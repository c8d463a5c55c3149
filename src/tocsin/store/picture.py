"""Takes the picture that findings are made from: a few statements, each bounded, over what operators see."""

import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tocsin.db.pool import Database
from tocsin.domain.cells import CELL
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.picture import (
    Bloated,
    DatabaseSeen,
    LaneSeen,
    NearLimit,
    NodeSeen,
    Paused,
    Picture,
    RemoteWorkers,
    Session,
    Slot,
    Unarchived,
)
from tocsin.store.standing import database_standing
from tocsin.store.statements import sql
from tocsin.store.system import MOST_DEAD_LETTERS

_SAMPLED_PER_LANE: Final = 50
_MOST_LANES: Final = 2000
_MOST_COUNTED_JOBS: Final = 20_000
_MANY_DEAD: Final = 100_000
_PATIENCE_S: Final = 0.8
"""For each of four statements: the user waits four times that at most."""
_DAYS_OF_PATIENCE: Final = 8
"""Days that a partition may be older than it should: it waits for its jobs to be forgotten."""


class PictureStore:
    """Over connections that see all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(
        self, history_days: int, wall_clock: float, row_security: str | None, disk_free: float | None
    ) -> Picture:
        """The installation now. `wall_clock` is the time of the machine that looks, in seconds. Where tables
        are locked, or the database is too slow to tell, only the database is in the picture."""
        began = time.monotonic()
        await self._database.one("SELECT 1 AS one")
        round_trip = time.monotonic() - began
        kept = history_days + _DAYS_OF_PATIENCE
        seen = await self._database.one(sql("database_trouble"), kept, _MANY_DEAD)
        standing = await database_standing(self._database)
        picture = Picture(
            history_days=history_days,
            row_security=row_security,
            database=_database(seen, round_trip, standing.kind, wall_clock, disk_free),
        )
        fleet = await self._fleet(seen["now"])
        return replace(picture, unread=True) if fleet is None else replace(picture, **fleet)

    async def _fleet(self, now: Instant) -> dict[str, Any] | None:
        """What the tables say; None if they do not within some seconds."""
        found = []
        for query, *args in (
            ("SELECT n.*, n.expires_at > tocsin_now() AS alive FROM nodes n ORDER BY n.id",),
            (sql("fleet_numbers"), CELL, MOST_DEAD_LETTERS),
            (sql("fleet_trouble"), CELL, _MOST_COUNTED_JOBS),
            (sql("waiting_work"), CELL, _SAMPLED_PER_LANE, _MOST_LANES),
        ):
            rows = await self._database.within(_PATIENCE_S, query, *args)
            if rows is None:
                return None
            found.append(rows)
        nodes, [numbers], [trouble], lanes = found
        return {
            "nodes": [_node(row, now) for row in nodes],
            "shards": numbers["shards"],
            "unowned": numbers["unowned"],
            "behind": _ago(numbers["first_unplanned"], now),
            "overdue_claim": _ago(trouble["first_deadline"], now),
            "migration": trouble["migration"],
            "lanes": [_lane(row, now) for row in lanes],
            "remote_workers": _read(trouble["remote_workers"], RemoteWorkers),
            "paused": _read(trouble["paused"], Paused),
            "unarchived": _read(trouble["unarchived"], Unarchived),
            "suspended": trouble["suspended"],
            "near_limits": _read(trouble["near_limits"], NearLimit),
            "ended": msgspec.json.decode(trouble["ended"] or "{}"),
        }


def _database(
    seen: Any, round_trip: float, standing: str, wall_clock: float, disk_free: float | None
) -> DatabaseSeen:
    oldest = None
    if seen["oldest_pid"] is not None:
        oldest = Session(seen["oldest_pid"], seen["oldest_by"] or "", seen["oldest_s"])
    return DatabaseSeen(
        round_trip=round_trip,
        connections=seen["connections"],
        max_connections=seen["max_connections"],
        standing=standing,
        oldest=oldest,
        blockers=_read(seen["blockers"], Session),
        bloated=_read(seen["bloated"], Bloated),
        slots=_read(seen["slots"], Slot),
        synchronous_commit=seen["synchronous_commit"],
        autovacuum=seen["autovacuum"],
        fsync=seen["fsync"],
        missing_days=seen["missing_days"],
        stray_rows=seen["stray_rows"],
        overdue_days=seen["overdue_days"],
        clock_off=seen["now"] / SECOND - wall_clock,
        disk_free=disk_free,
    )


def _node(row: Any, now: Instant) -> NodeSeen:
    said = list(samples(row["stats"]))

    def one(name: str) -> float | None:
        return next((value for sample, _, value in said if sample == name), None)

    return NodeSeen(
        name=row["name"],
        roles=row["roles"],
        version=row["version"],
        schema=row["schema"] or 0,
        alive=row["alive"],
        seen_ago=_ago(row["seen_at"], now),
        up_for=_ago(row["started_at"], now),
        queues=row["queues"],
        routes=row["routes"],
        saturation=one("tocsin_worker_saturation"),
        clock_uncertainty=one("tocsin_clock_uncertainty_seconds") or 0.0,
        disks={
            labels["place"]: value for sample, labels, value in said if sample == "tocsin_disk_free_ratio"
        },
        leases_lost=round(one("tocsin_leases_lost_total") or 0),
        defects=sorted(
            labels["part"]
            for sample, labels, value in said
            if sample == "tocsin_part_errors_total" and labels.get("kind") == "defect" and value
        ),
    )


def samples(stats: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """What a node counted, as its heartbeat sent it; nothing before the first."""
    families = msgspec.json.decode(stats)
    for family in families if isinstance(families, list) else ():
        yield from (tuple(sample) for sample in family[3])


def _lane(row: Any, now: Instant) -> LaneSeen:
    due = 0.0 if row["first_at"] is None else (now - row["first_at"]) / SECOND
    waits = {reason: row[reason] for reason in ("host", "version", "slot") if row[reason]}
    return LaneSeen(
        tenant_id=row["tenant_id"],
        tenant=row["tenant"],
        queue=row["queue"],
        route=row["route"],
        oldest_due=due,
        sampled=row["sampled"],
        retrying=row["retrying"],
        waits=waits,
    )


def _ago(at: Instant | None, now: Instant) -> float:
    return 0.0 if at is None else max(0, now - at) / SECOND


def _read(text: str | None, kind: Any) -> Any:
    return msgspec.json.decode(text or "[]", type=list[kind])
