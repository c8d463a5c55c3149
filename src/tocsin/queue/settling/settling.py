"""Settling: what becomes of claims whose attempt is over, or that never began.

Every statement is fenced by the claim's token: a claim that was lost before changes nothing and is returned
to the caller. A batch may be repeated when its answer was lost. An execution that ends passes its job's turn
on in the same transaction, and leaves its slot idle afterwards.
"""

from collections.abc import Sequence
from typing import Any

from tocsin.db.pool import Database, Record
from tocsin.db.statements import Statement, named
from tocsin.db.turns import pass_turns
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import State
from tocsin.queue.claims import (
    Again,
    AnyClaim,
    Claim,
    Finish,
    changes_in_lock_order,
    finish_columns,
    in_lock_order,
    keys_of,
)
from tocsin.queue.slots.slots import Slots

_FINISH = named(__package__, "finish")
_SUCCEED = named(__package__, "succeed")
_RETRY = named(__package__, "retry")
_POSTPONE = named(__package__, "postpone")
_SETTLED = named(__package__, "settled")


class Settling:
    """Settles claims of one cell, of any holder."""

    def __init__(self, database: Database, cell: int, slots: Slots) -> None:
        self._database = database
        self._cell = cell
        self._slots = slots

    async def finish(self, finishes: Sequence[Finish]) -> list[AnyClaim]:
        """Move executions to history. Returns the claims that were lost before."""
        if not finishes:
            return []
        finishes = changes_in_lock_order(finishes)
        states = [str(finish.state) for finish in finishes]
        return await self._end(
            _FINISH, [finish.claim for finish in finishes], states, finish_columns(finishes)
        )

    async def succeed(self, claims: Sequence[Claim], finished_at: Instant) -> list[AnyClaim]:
        """`finish` for claims that succeeded and have nothing more to tell. Returns those that were lost
        before."""
        claims = in_lock_order(claims)
        columns = {
            **keys_of(claims),
            "versions": [claim.version for claim in claims],
            "fired_ats": [claim.fired_at for claim in claims] if any(c.fired_at for c in claims) else [],
            "finished_at": finished_at,
        }
        return await self._end(_SUCCEED, claims, [str(State.SUCCEEDED)] * len(claims), columns)

    async def _end(
        self, statement: Statement, claims: Sequence[AnyClaim], states: list[str], columns: dict[str, Any]
    ) -> list[AnyClaim]:
        """End executions and pass on the turns that they held: both or neither. Then their slots are idle."""
        given = statement.given(cell=self._cell, **columns)
        if any(claim.overlap is not None for claim in claims):
            async with self._database.transaction() as session:
                row: Record = await session.fetchrow(*given)
                await pass_turns(session, self._cell, row["awaited"] or ())
        else:
            row = await self._database.one(*given)
        await self._leave_slots(claims)
        return [] if row["moved"] == len(claims) else await self._not_in_history(claims, states)

    async def retry(self, agains: Sequence[Again]) -> list[Again]:
        """Put executions back for another attempt. Returns those that are not: lost before, or asked to
        stop."""
        agains = changes_in_lock_order(agains)
        return await self._again(_RETRY, agains, records=[again.record for again in agains])

    async def postpone(self, agains: Sequence[Again]) -> list[Again]:
        """Put executions back whose call never went out. Returns those that are not: lost before, or asked to
        stop."""
        agains = changes_in_lock_order(agains)
        return await self._again(_POSTPONE, agains, reasons=[again.waits_for for again in agains])

    async def _again(self, statement: Statement, agains: list[Again], **told: list[Any]) -> list[Again]:
        """A slot is for running; an execution that waits for its next attempt holds none."""
        claims, times = [again.claim for again in agains], [again.run_at for again in agains]
        rows = await self._database.fetch(
            *statement.given(cell=self._cell, **keys_of(claims), run_ats=times, **told)
        )
        kept = {row["place"] for row in rows}
        await self._leave_slots([claims[place] for place in kept])
        return [again for place, again in enumerate(agains) if place not in kept]

    async def put_back(self, claims: Sequence[Claim], run_at: Instant) -> None:
        """Give claims back that have not started, until `run_at`. Those that were lost are left alone."""
        claims = in_lock_order(claims)
        times, reasons = [run_at] * len(claims), [None] * len(claims)
        await self._database.fetch(
            *_POSTPONE.given(cell=self._cell, **keys_of(claims), run_ats=times, reasons=reasons)
        )

    async def _leave_slots(self, claims: Sequence[AnyClaim]) -> None:
        if limited := [claim for claim in claims if claim.limit_key is not None]:
            self._slots.leave(claim for claim in limited if isinstance(claim, Claim))
            await self._slots.give_back_wanted()

    async def _not_in_history(self, claims: Sequence[AnyClaim], states: list[str]) -> list[AnyClaim]:
        """Those that did not end in these states under their tokens."""
        rows = await self._database.fetch(*_SETTLED.given(cell=self._cell, **keys_of(claims), states=states))
        settled = {row["place"] for row in rows}
        return [claim for place, claim in enumerate(claims) if place not in settled]
