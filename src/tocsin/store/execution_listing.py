"""Lists of executions: filters, pages, counts. Live ones come first, newest job first; then finished ones,
latest first.

History is read in the order of its ends. Some conditions have an index in that order; the others are checked
along a walk over 30,000 rows at most, so that a page takes a bounded time however much ended. A page may
therefore be short although there is more, and then says from where to go on. Of a range of fire times those
that ended within seconds of it come first.

Where there is an archive, a page that was asked for by a range or a cursor goes on in days that left the
database; one that was not ends where they begin, and says so.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias

from tocsin.db.conditions import Conditions, containing
from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.domain.lifecycle import FINAL, LIVE, State
from tocsin.store.archived_executions import ArchivedExecutions
from tocsin.store.archived_pages import ArchivedStretch, go_on
from tocsin.store.execution_filter import ExecutionFilter, ExecutionPage, Place
from tocsin.store.job_listing import COUNT_SECONDS, WALK
from tocsin.store.selection import Selection
from tocsin.store.statements import sql

Rows: TypeAlias = list[Any]
Stretch: TypeAlias = tuple[Instant | None, Instant | None]
"""A part of history, from one end to before another."""
_SOON: Final = 10 * SECOND
_NOTHING: Final = (
    "SELECT NULL::uuid AS job_id, NULL::timestamptz AS fire_at, NULL::timestamptz AS finished_at,"
    " NULL::text AS state WHERE false"
)
_ORDER: Final = "h.finished_at DESC, h.job_id DESC, h.fire_at DESC"


class ExecutionListing:
    """Executions of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database, archived: ArchivedExecutions | None = None) -> None:
        self._database = database
        self._archived = archived

    async def page(
        self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int
    ) -> ExecutionPage:
        """A page over live ones, then finished ones."""
        rows: Rows = []
        if after is None or after.finished_at is None:
            if where.may_be_live:
                rows = await self._live(tenant_id, where, after, limit)
            after = None  # history begins where the live ones end
        if where.state in LIVE:
            return ExecutionPage(rows, _place(rows[-1]) if len(rows) == limit else None)
        return await self._with_finished(rows, tenant_id, where, after, limit)

    async def _with_finished(
        self, rows: Rows, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int
    ) -> ExecutionPage:
        """A page that is filled up from history."""
        rows = [*rows]
        for stretch in _stretches(where, after):
            if len(rows) < limit:
                ordered = _ordered(tenant_id, where, after, stretch)
                found, end = await self._finished(ordered, where, limit - len(rows))
                if self._archived is not None and not where.kept_only:
                    page = ExecutionPage(found, end)
                    wanted = ArchivedStretch(tenant_id, where, after, *stretch)
                    found, end = await go_on(self._archived, wanted, page, limit - len(rows))
                rows += found
                if len(rows) < limit and end is not None:
                    return ExecutionPage(rows, end)
                after = None  # the next stretch begins at its own latest
        return ExecutionPage(rows, _place(rows[-1]) if len(rows) == limit else None)

    async def count(self, tenant_id: int, where: ExecutionFilter, cap: int) -> tuple[int, bool]:
        """How many there are, and whether there are more: than `cap`, or than could be counted in half a
        second."""
        total = 0
        for table, conditions in _parts(tenant_id, where):
            text, inner = conditions
            rows = await self._database.within(
                COUNT_SECONDS,
                f"SELECT count(*)::integer AS number FROM (SELECT FROM ({text}) AS page LIMIT {cap + 1:d}) AS {table}",  # noqa: S608
                *inner,
            )
            if rows is None:
                return min(total, cap), True
            total += rows[0]["number"]
        return min(total, cap), total > cap

    async def _live(self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int) -> Rows:
        inner = _live_conditions(tenant_id, where, after)
        outer = Conditions(after=inner)
        outer.add("state = {}", where.state)
        return await self._database.fetch(
            f"SELECT * FROM ({sql('live_columns')} WHERE {inner} ORDER BY e.job_id DESC, e.fire_at DESC) AS page"  # noqa: S608
            f" WHERE {outer} LIMIT {limit:d}",
            *inner.values,
            *outer.values,
        )

    async def _finished(
        self, ordered: Conditions, where: ExecutionFilter, limit: int
    ) -> tuple[Rows, Place | None]:
        """What matches along a walk, and where the walk was broken off, if it was. The last row of a walk
        comes with the others whether it matches or not, so that nothing is walked twice."""
        rest = Conditions(after=ordered)
        _add_others(rest, where)
        newest = f"(SELECT * FROM history h WHERE {ordered} ORDER BY {_ORDER} LIMIT {WALK}) h"  # noqa: S608
        walked = f"(SELECT h.*, row_number() OVER () AS walked FROM {newest}) h"  # noqa: S608
        columns = sql("history_columns").replace(
            "FROM history h", f", h.walked, ({rest}) IS TRUE AS matches FROM {walked}"
        )
        rows = await self._database.fetch(
            f"{columns} WHERE ({rest}) OR h.walked = {WALK} ORDER BY {_ORDER} LIMIT {limit + 1:d}",
            *ordered.values,
            *rest.values,
        )
        end = _place(rows[-1]) if rows and rows[-1]["walked"] == WALK else None
        return [row for row in rows if row["matches"]][:limit], end


def select_executions(tenant_id: int, where: ExecutionFilter, after: Place | None = None) -> Selection:
    """All that match: live ones, then finished ones; those that follow a place, if one is given. A record of
    several skips is not one execution, and is left out."""
    live = where.may_be_live and (after is None or after.finished_at is None)
    inner = _live_conditions(tenant_id, where, after if live else None)
    outer = Conditions(after=inner)
    outer.add("state = {}", where.state)
    parts, values = [], [*inner.values, *outer.values]
    if live:
        found = f"{sql('live_columns')} WHERE {inner} ORDER BY e.job_id DESC, e.fire_at DESC"
        parts.append(
            f"SELECT job_id, fire_at, NULL::timestamptz AS finished_at, state FROM ({found}) AS e WHERE {outer}"  # noqa: S608
        )
        after = None  # what is finished begins where the live ones end
    if where.state not in LIVE:
        ended = _finished_conditions(tenant_id, where, following=outer if live else None)
        _add_after(ended, after)
        ended.say("h.fire_until IS NULL")
        found = f"SELECT h.* FROM history h WHERE {ended} ORDER BY {_ORDER}"  # noqa: S608
        parts.append(f"SELECT job_id, fire_at, finished_at, state FROM ({found}) AS h")  # noqa: S608
        values = [*(values if live else ()), *ended.values]
    text = " UNION ALL ".join(f"({part})" for part in parts)
    return Selection(text or _NOTHING, values if parts else [], where)


def _place(row: Record) -> Place:
    return Place(row["job_id"], row["fire_at"], row["finished_at"])


def _parts(tenant_id: int, where: ExecutionFilter) -> Iterator[tuple[str, tuple[str, Sequence[Any]]]]:
    """The live ones and the finished ones that a filter may mean."""
    if where.may_be_live:
        inner = _live_conditions(tenant_id, where)
        outer = Conditions(after=inner)
        outer.add("state = {}", where.state)
        text = f"SELECT FROM ({sql('live_columns')} WHERE {inner}) AS e WHERE {outer}"
        yield "live", (text, [*inner.values, *outer.values])
    if where.state not in LIVE:
        inner = _finished_conditions(tenant_id, where)
        yield "finished", (f"SELECT FROM history h WHERE {inner}", inner.values)


def _live_conditions(tenant_id: int, where: ExecutionFilter, after: Place | None = None) -> Conditions:
    inner = Conditions()
    inner.add("e.cell = {}", CELL)
    inner.add("e.tenant_id = {}", tenant_id)
    if where.state in (State.CLAIMED, State.RUNNING):
        inner.say("e.claim_token IS NOT NULL")  # few beside those that wait, and in an index of their own
    inner.add("e.queue = {}", where.queue)
    inner.add("e.job_id = {}", where.job_id)
    inner.add("e.job_id = ANY ({}::uuid[])", None if where.job_ids is None else [*where.job_ids])
    inner.add("e.node_id = {}", where.node_id)
    inner.add("e.cause = {}", where.cause)
    inner.add("e.fire_at >= {}", where.fire_from)
    inner.add("e.fire_at < {}", where.fire_to)
    inner.add("e.started_at - e.due_at >= {}", _interval(where.min_lag))
    if after is not None:
        inner.add("(e.job_id, e.fire_at) < ({}::uuid,", after.job_id)
        inner.continue_with("{}::timestamptz)", after.fire_at)
    return inner


def _finished_conditions(
    tenant_id: int, where: ExecutionFilter, following: Conditions | None = None
) -> Conditions:
    inner = Conditions(after=following)
    _add_indexed(inner, tenant_id, where)
    _add_others(inner, where)
    return inner


def _stretches(where: ExecutionFilter, after: Place | None) -> list[Stretch]:
    """In which order history is read. What fired before an instant has mostly ended soon after it: that comes
    first, or a walk would begin with all that fired since. What ended later comes behind."""
    if where.fire_to is None:
        return [(None, None)]
    split = where.fire_to + _SOON
    late = after is not None and after.finished_at is not None and after.finished_at >= split
    return [(split, None)] if late else [(None, split), (split, None)]


def _ordered(tenant_id: int, where: ExecutionFilter, after: Place | None, stretch: Stretch) -> Conditions:
    """What the indexes know that have the order of the listing, or the few executions of some jobs."""
    ordered = Conditions()
    _add_indexed(ordered, tenant_id, where)
    ordered.add("h.finished_at >= {}", stretch[0])
    ordered.add("h.finished_at < {}", stretch[1])
    _add_after(ordered, after)
    return ordered


def _add_after(ordered: Conditions, after: Place | None) -> None:
    if after is not None:
        ordered.add("h.finished_at <= {}", after.finished_at)  # the row comparison alone would not prune
        ordered.add("(h.finished_at, h.job_id, h.fire_at) < ({}::timestamptz,", after.finished_at)
        ordered.continue_with("{}::uuid,", after.job_id)
        ordered.continue_with("{}::timestamptz)", after.fire_at)


def _add_indexed(inner: Conditions, tenant_id: int, where: ExecutionFilter) -> None:
    inner.add("h.tenant_id = {}", tenant_id)
    inner.add("h.job_id = {}", where.job_id)
    inner.add("h.job_id = ANY ({}::uuid[])", None if where.job_ids is None else [*where.job_ids])
    inner.add("h.finished_at >= {}", where.fire_from)  # nothing ends before it fires; prunes partitions
    inner.add("h.finished_at >= {}", where.finished_from)
    inner.add("h.finished_at < {}", where.finished_to)
    if where.state in FINAL and where.state != State.SUCCEEDED:
        inner.add("h.state = {}", where.state)
        inner.say("h.state <> 'succeeded'")  # in the words of the index of rare ends
    if where.state == State.DEAD or where.fingerprint is not None:
        inner.say("h.state = 'dead'")  # so that the planner can use the small indexes of dead ones
    if where.kept_only:
        inner.say("h.discarded_at IS NULL")


def _add_others(inner: Conditions, where: ExecutionFilter) -> None:
    inner.add("h.queue = {}", where.queue)
    inner.add("h.node_id = {}", where.node_id)
    inner.add("h.cause = {}", where.cause)
    inner.add("h.error_fingerprint = {}", where.fingerprint)
    inner.add("h.fire_at >= {}", where.fire_from)
    inner.add("h.fire_at < {}", where.fire_to)
    inner.add("h.started_at - h.due_at >= {}", _interval(where.min_lag))
    inner.add("lower(h.reason) LIKE {}", containing(where.error))
    if where.state == State.SUCCEEDED:
        inner.add("h.state = {}", where.state)


def _interval(span: Span | None) -> timedelta | None:
    return None if span is None else timedelta(microseconds=span)
