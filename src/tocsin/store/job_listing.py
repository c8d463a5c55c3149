"""Lists of jobs: filters, orders, pages, counts.

A page takes a bounded time however many jobs a tenant has, and whatever is asked for. Some conditions have an
index in the order of the list. The others are checked along a walk: of the next 30,000 jobs in that order,
those that match are kept until the page is full. Where a walk found too few, an index of names or tags may
know the rest; it is asked for a moment only, since what is rare here may be frequent with other tenants. So a
page may be short although there is more, and then says from where to go on.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from tocsin.db.conditions import Conditions, containing
from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.instant import Instant
from tocsin.store.selection import Selection
from tocsin.store.statements import sql

COUNT_SECONDS: Final = 0.5
WALK: Final = 30_000
"""Rows that are looked at for one page."""
_SEARCH_SECONDS: Final = 0.25
_SHORTEST_SEARCHED: Final = 3
"""Letters of a name that its index can find."""
_COMMON_QUEUE: Final = "default"
Rows: TypeAlias = list[Record]


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a listing is narrowed to. Ranges include their start and exclude their end."""

    state: str | None = None
    kind: str | None = None
    queue: str | None = None
    tags: tuple[str, ...] = ()
    any_tag: bool = False
    name: str | None = None
    target: str | None = None
    created_from: Instant | None = None
    created_to: Instant | None = None
    next_fire_from: Instant | None = None
    next_fire_to: Instant | None = None
    unplanned_since: Instant | None = None
    """Only recurring jobs whose fires from before this instant are not planned."""

    @property
    def searchable(self) -> bool:
        """Whether an index knows the jobs of this name or these tags."""
        return bool(self.tags) or len(self.name or "") >= _SHORTEST_SEARCHED


class JobPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of the listing ended, in any of its orders."""

    id: UUID
    name: str | None = None
    at: Instant | None = None


class JobPage(msgspec.Struct, frozen=True):
    """Jobs, and where the next page begins if there may be one."""

    rows: Rows
    next: JobPlace | None


class JobListing:
    """Jobs of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, tenant_id: int, where: JobFilter, after: JobPlace | None, limit: int, sort: str = "created"
    ) -> JobPage:
        """A page: newest first, or by name or next fire, after the place where the page before ended."""
        order = _ORDERS[sort]
        ordered = _ordered(tenant_id, where, order, after)
        rows = await self._walk(ordered, where, order, limit)
        if len(rows) == limit:
            return JobPage(rows, order.place(rows[-1]))
        end = await self._end_of_walk(ordered, order)
        if end is None or sort != "created" or not where.searchable:
            return JobPage(rows, end)
        found = await self._search(tenant_id, where, end, limit - len(rows))
        if found is None:
            return JobPage(rows, end)
        return JobPage(rows + found, order.place(found[-1]) if len(rows + found) == limit else None)

    async def ids(self, tenant_id: int, where: JobFilter, most: int) -> Sequence[UUID]:
        """Which jobs a name or tags mean."""
        inner = _matching(tenant_id, where)
        rows = await self._database.fetch(
            f"SELECT j.id FROM own_jobs j WHERE {inner} LIMIT {most:d}",  # noqa: S608
            *inner.values,
        )
        return [row["id"] for row in rows]

    async def count(self, tenant_id: int, where: JobFilter, cap: int) -> tuple[int, bool]:
        """How many there are, and whether there are more: than `cap`, or than could be counted in half a
        second."""
        inner = _matching(tenant_id, where)
        outer = _outer(inner, where)
        rows = await self._database.within(
            COUNT_SECONDS,
            f"SELECT count(*)::integer AS number FROM (SELECT FROM ({_from(where)} WHERE {inner}) AS page"  # noqa: S608
            f" WHERE {outer} LIMIT {cap + 1:d}) AS found",
            *inner.values,
            *outer.values,
        )
        return (0, True) if rows is None else (min(rows[0]["number"], cap), rows[0]["number"] > cap)

    async def _walk(self, ordered: Conditions, where: JobFilter, order: "_Order", limit: int) -> Rows:
        rest = _unordered(where, after=ordered)
        outer = _outer(rest, where)
        walked = f"(SELECT * FROM jobs j WHERE {ordered} ORDER BY {order.inner} LIMIT {WALK}) j"  # noqa: S608
        columns = sql("job_columns").replace("FROM jobs j", f"FROM {walked}")
        return await self._database.fetch(
            f"SELECT * FROM ({columns} WHERE {rest} ORDER BY {order.inner}) AS page"  # noqa: S608
            f" WHERE {outer} ORDER BY {order.outer} LIMIT {limit:d}",
            *ordered.values,
            *rest.values,
            *outer.values,
        )

    async def _end_of_walk(self, ordered: Conditions, order: "_Order") -> JobPlace | None:
        """The last job that a walk has looked at, if there were more."""
        row = await self._database.fetchrow(
            "SELECT j.id, j.name, j.next_fire_at AS unplanned_at FROM jobs j"  # noqa: S608
            f" WHERE {ordered} ORDER BY {order.inner} OFFSET {WALK - 1} LIMIT 1",
            *ordered.values,
        )
        return None if row is None else order.place(row)

    async def _search(self, tenant_id: int, where: JobFilter, after: JobPlace, limit: int) -> Rows | None:
        """Those beyond a walk, by the index of names or tags. None if that cannot be told in a moment."""
        inner = _matching(tenant_id, where)
        inner.add("j.id < {}", after.id)
        outer = _outer(inner, where)
        # Found first and sorted then: for a page's sake the planner would walk, which has been done.
        found = f"(SELECT * FROM jobs WHERE cell = {CELL} AND id = ANY (ARRAY (SELECT id FROM found))) j"  # noqa: S608
        columns = sql("job_columns").replace("FROM jobs j", f"FROM {found}")
        return await self._database.within(
            _SEARCH_SECONDS,
            f"WITH found AS MATERIALIZED (SELECT j.id FROM own_jobs j WHERE {inner})"  # noqa: S608
            f" SELECT * FROM ({columns} ORDER BY j.id DESC) AS page WHERE {outer} ORDER BY id DESC LIMIT {limit:d}",
            *inner.values,
            *outer.values,
        )


def select_jobs(tenant_id: int, where: JobFilter, after: UUID | None = None) -> Selection:
    """All that match, newest first; those that follow a job, if one is given."""
    inner = _matching(tenant_id, where)
    inner.add("j.id < {}", after)
    outer = _outer(inner, where)
    text = (
        "SELECT id AS job_id, NULL::timestamptz AS fire_at, NULL::timestamptz AS finished_at, state"  # noqa: S608
        f" FROM ({_from(where)} WHERE {inner} ORDER BY j.id DESC) AS page WHERE {outer}"
    )
    return Selection(text, [*inner.values, *outer.values], where)


class _Order(msgspec.Struct, frozen=True):
    """An order of the listing: which jobs it has, in the words of its index, how they are sorted, and how it
    goes on."""

    inner: str
    outer: str
    go_on: Callable[[Conditions, JobPlace], None]
    place: Callable[[Record], JobPlace]
    conditions: tuple[str, ...] = ()


def _after_newest(inner: Conditions, after: JobPlace) -> None:
    inner.add("j.id < {}", after.id)


def _after_name(inner: Conditions, after: JobPlace) -> None:
    inner.add("j.name > {}", after.name or "")


def _after_fire(inner: Conditions, after: JobPlace) -> None:
    inner.add("j.next_fire_at >= {}", after.at)  # the row comparison alone would not find the index
    inner.add("(j.next_fire_at, j.id) > ({}::timestamptz,", after.at)
    inner.continue_with("{}::uuid)", after.id)


_ORDERS: Final = {
    "created": _Order("j.id DESC", "id DESC", _after_newest, lambda row: JobPlace(row["id"])),
    "name": _Order(
        "j.name", "name", _after_name, lambda row: JobPlace(row["id"], row["name"]),
        (f"j.cell = {CELL}", "j.kind = 'recurring'", "j.name IS NOT NULL", "j.state IN ('active', 'paused')"),
    ),
    "next_fire": _Order(
        "j.next_fire_at, j.id", "unplanned_at, id", _after_fire, lambda row: JobPlace(row["id"], at=row["unplanned_at"]),
        ("j.state = 'active'", "j.kind = 'recurring'", "j.next_fire_at IS NOT NULL"),
    ),
}  # fmt: skip
_STATE_CONDITIONS: Final = {
    "active": "j.state = 'active'",
    "paused": "j.state = 'paused'",
    "completed": "(j.state = 'completed' OR (j.state = 'active' AND j.kind = 'once'))",
    "cancelled": "j.state = 'cancelled'",
}
_INDEXED_STATES: Final = ("paused", "cancelled")


def _from(where: JobFilter) -> str:
    columns = sql("job_columns")
    if where.name is not None or where.tags:
        return columns.replace("FROM jobs j", "FROM own_jobs j")  # its indexes work for these
    return columns


def _matching(tenant_id: int, where: JobFilter) -> Conditions:
    """All conditions that are about the job's own row."""
    inner = Conditions()
    inner.add("j.tenant_id = {}", tenant_id)
    _add_indexed(inner, where)
    _add_others(inner, where)
    return inner


def _ordered(tenant_id: int, where: JobFilter, order: _Order, after: JobPlace | None) -> Conditions:
    """What the indexes know that have the order of the listing."""
    ordered = Conditions()
    ordered.add("j.tenant_id = {}", tenant_id)
    _add_indexed(ordered, where)
    for condition in order.conditions:
        ordered.say(condition)
    if after is not None:
        order.go_on(ordered, after)
    return ordered


def _unordered(where: JobFilter, after: Conditions) -> Conditions:
    """What has to be looked for along them."""
    rest = Conditions(after=after)
    _add_others(rest, where)
    return rest


def _add_indexed(inner: Conditions, where: JobFilter) -> None:
    if where.state in _INDEXED_STATES:
        inner.say(_STATE_CONDITIONS[where.state])
    if where.queue != _COMMON_QUEUE and where.queue is not None:
        inner.add("j.queue = {}", where.queue)
        inner.say(f"j.queue <> '{_COMMON_QUEUE}'")  # the index's own words
    if where.unplanned_since is not None:
        inner.say("j.state = 'active' AND j.kind = 'recurring'")
        inner.add("j.next_fire_at < {}", where.unplanned_since)


def _add_others(inner: Conditions, where: JobFilter) -> None:
    inner.add("j.kind = {}", where.kind)
    if where.queue == _COMMON_QUEUE:
        inner.add("j.queue = {}", where.queue)
    inner.add(
        # The second condition is the index's own: the planner does not find out by itself that it holds.
        f"j.tags {'&&' if where.any_tag else '@>'} {{}}::text[] AND j.tags <> '{{{{}}}}'",
        [*where.tags] or None,
    )
    inner.add("lower(j.name) LIKE {}", containing(where.name))
    inner.add("j.target ->> 'kind' = {}", where.target)
    inner.add("j.created_at >= {}", where.created_from)
    inner.add("j.created_at < {}", where.created_to)
    if where.state is not None and where.state not in _INDEXED_STATES:
        inner.say(_STATE_CONDITIONS[where.state])


def _outer(inner: Conditions, where: JobFilter) -> Conditions:
    """What can only be said of a job together with its executions."""
    outer = Conditions(after=inner)
    outer.add("state = {}", where.state)
    outer.add("next_fire_at >= {}", where.next_fire_from)
    outer.add("next_fire_at < {}", where.next_fire_to)
    return outer
