"""Executions of days that left the database, in the order and the shape that history has.

The table `archives` says which files may hold rows of a tenant and a stretch of time; a process of its own
reads them, latest first, for some seconds at most. Where it does not get to the end, the page ends there, and
the next one goes on. Every statement names the tenant.

Only dropped days are read. The caller reads history first and asks here afterwards: a day that was dropped in
between was read in both, and the caller knows its rows by their keys.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.archive.asked import Asked
from tocsin.archive.process import in_a_process
from tocsin.archive.tables import HISTORY
from tocsin.archive.work import Answered, Ask, Part, Place
from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant, from_datetime, to_datetime
from tocsin.store.archives import file_of
from tocsin.store.statements import sql

_AT_ONCE: Final = 4
"""Queries of one API process."""
_SECONDS: Final = 10.0
_BUDGET: Final = 3.0
"""Seconds after which a query begins no other file."""
_SEARCH_BUDGET: Final = 8.0
_PATIENCE: Final = 3.0
_MOST_PARTS: Final = 200
_MOST_SEARCHED: Final = 5_000
_ORDER: Final = "h.finished_at DESC, h.job_id DESC, h.fire_at DESC"
_ABSENT: Final = (
    "deadline_at",
    "start_by",
    "overlap",
    "limit_key",
    "waits_for",
    "missed_after",
    "route",
    "progress",
)
"""What live executions have, and finished ones have not."""


class Found(msgspec.Struct, frozen=True):
    """Rows, latest first, and the instant down to which all were read: None if that is the end."""

    rows: list[dict[str, Any]]
    down_to: Instant | None = None


class ArchivedExecutions:
    """Archived executions of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database, place: Place, run: Any = in_a_process) -> None:
        self._database = database
        self._place = place
        self._run = run
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def top(self, tenant_id: int, since: Instant | None, until: Instant | None) -> Instant | None:
        """The instant below which everything of a stretch that is archived lies; None if nothing is."""
        rows = await self._parts(tenant_id, since, until, 1)
        return _end_of(rows[0], tenant_id) if rows else None

    async def page(
        self, tenant_id: int, asked: Asked, since: Instant | None, until: Instant | None, limit: int
    ) -> Found:
        """Rows that ended from `since` on and before `until`."""
        rows = await self._parts(tenant_id, since, until, _MOST_PARTS + 1)
        groups = _groups(rows[:_MOST_PARTS])
        if not groups:
            return Found([])
        answered = await self._ask(tenant_id, asked, [_files(group) for group in groups], limit)
        found = [_row(row) for row in answered.rows]
        if len(found) >= limit:
            return Found(found)
        if answered.groups == len(groups) and len(rows) <= _MOST_PARTS:
            return Found(found)
        return Found(found, _begin_of(groups[answered.groups - 1][-1], tenant_id))

    async def get(self, tenant_id: int, key: ExecutionKey) -> dict[str, Any] | None:
        """One execution: where it is, it ended on the day of its fire time or later. Days are searched in
        that order, for hardly any ends much later."""
        asked = Asked()
        asked.add("h.cell = ?", CELL)
        asked.add("h.job_id = ?::UUID", str(key.job_id))
        asked.add("(h.fire_at = ? OR (h.fire_at <= ? AND h.fire_until >= ?))", *[key.fire_at] * 3)
        rows = await self._parts(tenant_id, key.fire_at, None, _MOST_SEARCHED, oldest_first=True)
        if not rows:
            return None
        order = "h.state = 'skipped', h.fire_until NULLS FIRST"
        groups = [_files(group) for group in _groups(rows)]
        answered = await self._ask(tenant_id, asked, groups, 1, order, _SEARCH_BUDGET)
        if not answered.rows and answered.groups < len(groups):
            raise Unavailable("the archive could not be searched in time")
        return _row(answered.rows[0]) if answered.rows else None

    async def _ask(
        self,
        tenant_id: int,
        asked: Asked,
        groups: list[list[Part]],
        limit: int,
        order: str = _ORDER,
        budget: float = _BUDGET,
    ) -> Answered:
        task = Ask(
            place=self._place,
            seconds=_SECONDS,
            table=HISTORY.name,
            groups=groups,
            condition=f"h.tenant_id = ? AND {asked}",
            values=[tenant_id, *asked.values],
            order=order,
            limit=limit,
            budget=budget,
        )
        async with self._taking_turns():
            answered: Answered = await self._run(task, Answered)
            return answered

    @asynccontextmanager
    async def _taking_turns(self) -> AsyncIterator[None]:
        try:
            await asyncio.wait_for(self._places.acquire(), _PATIENCE)
        except TimeoutError:
            raise Unavailable("too many look into the archive at this moment", retry_after=3) from None
        try:
            yield
        finally:
            self._places.release()

    async def _parts(
        self,
        tenant_id: int,
        since: Instant | None,
        until: Instant | None,
        limit: int,
        *,
        oldest_first: bool = False,
    ) -> list[Record]:
        """Parts of dropped days that may have rows of a tenant and a stretch of time, latest first."""
        days = [None if at is None else to_datetime(at).date() for at in (since, until)]
        way = "" if oldest_first else " DESC"
        return await self._database.fetch(
            f"{sql('archived_parts')} ORDER BY a.day{way}, a.round{way}, a.part{way} LIMIT {limit:d}",
            HISTORY.name,
            tenant_id,
            *days,
            since,
            until,
        )


def _groups(rows: Sequence[Record]) -> list[list[Record]]:
    """Parts that are read together. Those of one round have their rows in order. A day that came back has
    rounds that are not, and is read at once; so is one with so much at one instant that a part ends amid
    it."""
    groups: list[list[Record]] = []
    for _, found in groupby(rows, key=lambda row: row["day"]):
        day = list(found)
        together = len({row["round"] for row in day}) > 1 or any(row["tied"] for row in day)
        groups += [day] if together else [[row] for row in day]
    return groups


def _files(rows: Sequence[Record]) -> list[Part]:
    return [file for row in rows if (file := file_of(row)) is not None]


def _begin_of(row: Record, tenant_id: int) -> Instant:
    """The instant at which a part begins for a tenant; it has nothing at it or before."""
    if row["after_tenant"] == tenant_id and row["rounds"] == 1 and not row["tied"]:
        return int(row["after_at"])
    return _midnight(row["day"]) - 1


def _end_of(row: Record, tenant_id: int) -> Instant:
    """The last instant that a part may have rows of a tenant at."""
    if row["upto_tenant"] == tenant_id and row["rounds"] == 1:
        return int(row["upto_at"])
    return _midnight(row["day"] + timedelta(days=1)) - 1


def _midnight(day: date) -> Instant:
    return from_datetime(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """An archived row in the shape of history's."""
    outcome = msgspec.json.decode(row["outcome"]) if row["outcome"] else None
    result = outcome.pop("result", msgspec.UNSET) if isinstance(outcome, dict) else msgspec.UNSET
    return row | dict.fromkeys(_ABSENT) | {
        "job_id": UUID(row["job_id"]),
        "outcome": None if outcome is None else msgspec.json.encode(outcome).decode(),
        "result": None if result is msgspec.UNSET else msgspec.json.encode(result).decode(),
        "has_result": result is not msgspec.UNSET,
        "cancel_requested": False,
        "archived": True,
    }  # fmt: skip
