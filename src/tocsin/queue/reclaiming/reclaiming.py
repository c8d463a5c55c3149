"""Reclaiming: taking back what vanished workers held.

A claim past its deadline, by the database's clock, is void. The transaction that takes it back locks its row
from the look at the deadline to the write, so a worker that settles or extends at the last moment is either
before all of it or after.
"""

from collections.abc import Callable

from tocsin.db.pool import Database
from tocsin.db.rows import arrays, structs
from tocsin.db.statements import named
from tocsin.db.turns import pass_turns
from tocsin.domain.instant import Instant
from tocsin.queue.claims import Finish, Overdue, Requeue, finish_columns
from tocsin.queue.reclaiming.deadlines import DeadlineMark

_OVERDUE = named(__package__, "overdue")
_REQUEUE = named(__package__, "requeue")
_RELEASE_LOST = named(__package__, "release_lost")
_SOONEST_DEADLINE = named(__package__, "soonest_deadline")
_FINISH = named("tocsin.queue.settling", "finish")


class Reclaiming:
    """Takes back claims of one cell, of any holder."""

    def __init__(self, database: Database, cell: int) -> None:
        self._database = database
        self._cell = cell
        self._deadlines = DeadlineMark()

    async def soonest_deadline(self, now: Instant, until: Instant) -> Instant | None:
        """When the first claim will be overdue if nothing extends it, unless that is later than `until`."""
        row = await self._database.one(
            *_SOONEST_DEADLINE.given(cell=self._cell, low_mark=self._deadlines.enter(now), until=until)
        )
        soonest: Instant | None = row["soonest"]
        self._deadlines.found(soonest, now, row["under_way_since"])
        return soonest

    async def reclaim(self, limit: int, judge: Callable[[Overdue], Requeue | Finish]) -> tuple[int, int]:
        """Take back claims past their deadline, as `judge` decides. Returns how many were requeued and
        ended."""
        async with self._database.transaction() as session:
            rows = await session.fetch(
                *_OVERDUE.given(cell=self._cell, low_mark=self._deadlines.known, limit=limit)
            )
            verdicts = [judge(overdue) for overdue in structs(Overdue, rows)]
            requeues = [verdict for verdict in verdicts if isinstance(verdict, Requeue)]
            finishes = [verdict for verdict in verdicts if isinstance(verdict, Finish)]
            if requeues:
                await session.fetch(*_REQUEUE.given(cell=self._cell, **_requeue_columns(requeues)))
            if finishes:
                await session.fetchrow(*_FINISH.given(cell=self._cell, **finish_columns(finishes)))
                solo = [finish.claim.job_id for finish in finishes if finish.claim.overlap is not None]
                await pass_turns(session, self._cell, solo)
        return len(requeues), len(finishes)

    async def release_lost(self, limit: int) -> int:
        """Give back claims that were not started and whose node is no longer in the fleet. Returns how
        many."""
        row = await self._database.one(*_RELEASE_LOST.given(cell=self._cell, limit=limit))
        return int(row["released"])


def _requeue_columns(requeues: list[Requeue]) -> dict[str, list[object]]:
    rows = [
        (
            requeue.claim.job_id,
            requeue.claim.fire_at,
            requeue.claim.token,
            requeue.run_at,
            requeue.record,
        )
        for requeue in requeues
    ]
    return arrays(("job_ids", "fire_ats", "tokens", "run_ats", "records"), rows)
