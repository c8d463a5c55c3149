"""How a page of history goes on in the archive.

The rows that history gave and those of the archive are put into one order. The oldest days are dropped first,
so mostly the archive begins where history ends; but a day that could not be dropped, or came back, lies in
between, and then rows of both are mixed.
"""

from typing import Any
from uuid import UUID

import msgspec

from tocsin.archive.asked import Asked
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import State
from tocsin.store.archived_executions import ArchivedExecutions
from tocsin.store.execution_filter import ExecutionFilter, ExecutionPage, Place, Rows


class ArchivedStretch(msgspec.Struct, frozen=True):
    """Which part of a listing is read: what matches, behind a place, from one end to before another."""

    tenant_id: int
    where: ExecutionFilter
    after: Place | None
    since: Instant | None
    until: Instant | None

    @property
    def wanted(self) -> bool:
        """Whether a range or a cursor asks for old rows, and not just for the latest."""
        where = self.where
        ranges = (where.fire_from, where.fire_to, where.finished_from, where.finished_to)
        return self.after is not None or ranges != (None, None, None, None)


async def go_on(
    archived: ArchivedExecutions, stretch: ArchivedStretch, page: ExecutionPage, room: int
) -> tuple[Rows, Place | None]:
    """The rows of a page with those of the archive among and after them, and where it was broken off, if it
    was."""
    floor = _place(page.rows[-1]) if len(page.rows) >= room else page.next
    since, until = _bounds(stretch, floor)
    top = await archived.top(stretch.tenant_id, since, until)
    if top is None:
        return page.rows, page.next
    above = [row for row in page.rows if row["finished_at"] > top], _below(top)
    if not stretch.wanted:
        return above
    asked = asked_of(stretch, floor)
    try:
        found = await archived.page(stretch.tenant_id, asked, since, until, room)
    except Unavailable:
        if not above[0]:
            raise
        return above  # this page is complete; the next one says why it ends
    rows = list({_key(row): row for row in (*found.rows, *page.rows)}.values())
    rows.sort(key=_key, reverse=True)
    if found.down_to is None:
        return rows[:room], page.next
    down_to = found.down_to
    return [row for row in rows if row["finished_at"] > down_to][:room], _below(down_to)


def asked_of(stretch: ArchivedStretch, floor: Place | None) -> Asked:
    """The conditions of a listing, as the archive is asked."""
    asked, where = Asked(), stretch.where
    asked.add("h.finished_at >= ?", stretch.since)
    asked.add("h.finished_at < ?", stretch.until)
    asked.add("h.finished_at >= ?", where.fire_from)
    asked.add("h.finished_at >= ?", where.finished_from)
    asked.add("h.finished_at < ?", where.finished_to)
    for place, sign in ((stretch.after, "<"), (floor, ">")):
        if place is not None:
            asked.add(f"(h.finished_at, h.job_id, h.fire_at) {sign} (?, ?::UUID, ?)", *_parts(place))
    asked.add("h.job_id = ?::UUID", where.job_id and str(where.job_id))
    asked.add(
        "list_contains(?::UUID[], h.job_id)", [str(one) for one in where.job_ids] if where.job_ids else None
    )
    if where.job_ids == ():
        asked.add("false")
    asked.add("h.state = ?", where.state and str(where.state))
    if where.fingerprint is not None:
        asked.add("h.state = ?", str(State.DEAD))
    asked.add("h.queue = ?", where.queue)
    asked.add("h.node_id = ?", where.node_id)
    asked.add("h.cause = ?", where.cause)
    asked.add("h.error_fingerprint = ?", where.fingerprint)
    asked.add("h.fire_at >= ?", where.fire_from)
    asked.add("h.fire_at < ?", where.fire_to)
    asked.add("h.started_at - h.due_at >= ?", where.min_lag)
    asked.add("contains(lower(h.reason), ?)", where.error and where.error.lower())
    return asked


def _bounds(stretch: ArchivedStretch, floor: Place | None) -> tuple[Instant | None, Instant | None]:
    """From which instant on, and before which, something may match."""
    where, after = stretch.where, stretch.after
    since = [stretch.since, where.fire_from, where.finished_from]
    until = [stretch.until, where.finished_to]
    if floor is not None:
        since.append(floor.finished_at)
    if after is not None and after.finished_at is not None:
        until.append(after.finished_at + 1)
    return (
        max((at for at in since if at is not None), default=None),
        min((at for at in until if at is not None), default=None),
    )


def _parts(place: Place) -> tuple[Any, ...]:
    return place.finished_at, str(place.job_id), place.fire_at


def _place(row: Any) -> Place:
    return Place(row["job_id"], row["fire_at"], row["finished_at"])


def _below(instant: Instant) -> Place:
    """The place before everything that ended at an instant or earlier."""
    return Place(UUID(int=0), instant, instant + 1)


def _key(row: Any) -> tuple[Instant, int, Instant]:
    return row["finished_at"], row["job_id"].int, row["fire_at"]
