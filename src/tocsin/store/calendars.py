"""Named calendars: ranges in which jobs that name them do not fire."""

from collections.abc import Sequence

import msgspec

from tocsin.db.pool import Database, Record, Session
from tocsin.domain.blackout import NO_BLACKOUTS, Blackouts, CalendarRange, Range, read_ranges
from tocsin.domain.errors import Conflict, NotFound, Refused, Unreadable
from tocsin.domain.schedule import Schedule, blackout_dates

Calendars = dict[tuple[int, str], "list[Range] | Unreadable"]
"""Ranges by tenant and name, or why they cannot be read."""


class CalendarStore:
    """Calendars of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, tenant_id: int, name: str, ranges: Sequence[CalendarRange]) -> None:
        """Create a calendar or replace its ranges."""
        read_ranges(ranges)
        await self._database.execute(
            "INSERT INTO calendars (tenant_id, name, ranges) VALUES ($1, $2, $3)"
            " ON CONFLICT (tenant_id, name) DO UPDATE SET ranges = excluded.ranges, updated_at = tocsin_now()",
            tenant_id,
            name,
            msgspec.json.encode(ranges).decode(),
        )

    async def get(self, tenant_id: int, name: str) -> Record:
        """One calendar."""
        row = await self._database.fetchrow(
            "SELECT name, ranges, updated_at FROM calendars WHERE tenant_id = $1 AND name = $2",
            tenant_id,
            name,
        )
        if row is None:
            raise NotFound(f"no calendar {name!r}")
        return row

    async def list(self, tenant_id: int) -> list[Record]:
        """All calendars of a tenant, by name."""
        return await self._database.fetch(
            "SELECT name, ranges, updated_at FROM calendars WHERE tenant_id = $1 ORDER BY name LIMIT 1000",
            tenant_id,
        )

    async def delete(self, tenant_id: int, name: str) -> None:
        """Remove a calendar that no job names."""
        used = await self._database.fetchrow(
            "SELECT id FROM jobs WHERE tenant_id = $1 AND schedule -> 'exclude' -> 'calendars' ? $2 LIMIT 1",
            tenant_id,
            name,
        )
        if used is not None:
            raise Conflict(f"calendar {name!r} is used by jobs")
        await self.get(tenant_id, name)
        await self._database.execute(
            "DELETE FROM calendars WHERE tenant_id = $1 AND name = $2", tenant_id, name
        )


async def ranges_of(
    session: Session, tenant_id: int, names: Sequence[str], *, must_exist: bool = False
) -> list[Range]:
    """The ranges of several calendars together. A name without a calendar is refused when a job is written; a
    job that has lost one, in the moment between check and creation, fires as if it were empty."""
    if not names:
        return []
    rows = await session.fetch(
        "SELECT name, ranges FROM calendars WHERE tenant_id = $1 AND name = ANY ($2::text[])",
        tenant_id,
        list(names),
    )
    missing = set(names) - {row["name"] for row in rows}
    if missing and must_exist:
        raise Refused(f"no calendar {min(missing)!r}", field="schedule.exclude.calendars")
    return [pair for row in rows for pair in _ranges(row)]


async def blackouts_of(session: Session, tenant_id: int, schedule: Schedule) -> Blackouts:
    """When a schedule of this tenant does not fire."""
    if schedule.exclude is None:
        return NO_BLACKOUTS
    ranges = await ranges_of(session, tenant_id, schedule.exclude.calendars)
    return Blackouts([*blackout_dates(schedule), *ranges], schedule.exclude.policy)


async def ranges_by_calendar(session: Session, tenant_ids: Sequence[int]) -> Calendars:
    """Every calendar of some tenants, for the planner."""
    rows = await session.fetch(
        "SELECT tenant_id, name, ranges FROM calendars WHERE tenant_id = ANY ($1::integer[])",
        list(tenant_ids),
    )
    return {(row["tenant_id"], row["name"]): _ranges_or_why_not(row) for row in rows}


def _ranges(row: Record) -> list[Range]:
    try:
        return read_ranges(msgspec.json.decode(row["ranges"], type=list[CalendarRange]))
    except (msgspec.DecodeError, Refused) as error:
        raise Unreadable(f"this version cannot read the calendar {row['name']!r}: {error}") from None


def _ranges_or_why_not(row: Record) -> list[Range] | Unreadable:
    try:
        return _ranges(row)
    except Unreadable as error:
        return error
