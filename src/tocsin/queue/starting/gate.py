"""The gate in front of executions that may not simply start when they are due.

Three things can hold one back, asked in this order: the rate of its limit key (`rates`), the slots of its
limit key (`slots/`), and its own job's overlap policy (`turns`). A claim that passes is started. One that
does not is put back, skipped, or makes room, and leaves the slot that it had taken on the way.

An execution without a limit key and without an overlap policy never comes here.
"""

import contextlib
from collections.abc import Sequence

from tocsin.db.pool import Database
from tocsin.db.statements import named
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import Instant
from tocsin.queue.claims import Claim, in_lock_order, keys_of, mark_started, without
from tocsin.queue.slots.slots import Slots
from tocsin.queue.starting.begun import begun_and_stopped
from tocsin.queue.starting.parking import LOOK_AGAIN, park
from tocsin.queue.starting.proof import proof
from tocsin.queue.starting.rates import Rates
from tocsin.queue.starting.turns import Turns, seated

_START = named(__package__, "start")


class Gate:
    """Decides about gated claims of one cell."""

    def __init__(self, database: Database, cell: int, slots: Slots) -> None:
        self._database = database
        self._cell = cell
        self._slots = slots
        self._rates = Rates(database, cell)
        self._turns = Turns(database, cell, slots)

    async def start(self, claims: Sequence[Claim], now: Instant, *, again: bool = False) -> list[Claim]:
        """Start those that may start. Claims that were lost or asked to stop are neither started nor parked.
        `again`: an earlier start had no answer; what it started and what was asked to stop since keeps its
        slot."""
        started = await self._start(claims, now)
        if again:
            started += await begun_and_stopped(self._database, self._cell, claims, started)
        left = [claim for claim in without(claims, started) if claim.slot is not None]
        if left and not await self._slots.still_ours():
            self._slots.leave(left)
            started += await self._start(left, now)
        left = without(claims, started)
        if any(claim.slot is not None for claim in left):
            self._slots.leave(left)
            # Whatever happens to that, some have started; and slots that are not used go back anyway.
            with contextlib.suppress(Unavailable):
                await self._slots.give_back_wanted()
        return started

    async def _start(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        waiting = await self._rates.keep(claims, now)
        refused = await self._slots.take(waiting)
        if refused:
            await park(self._database, self._cell, [(claim, now + LOOK_AGAIN) for claim in refused], "slot")
            await self._slots.look_after(refused)
        ready = without(waiting, refused)
        started = await self._start_limited(in_lock_order(claim for claim in ready if claim.overlap is None))
        if solo := in_lock_order(claim for claim in ready if claim.overlap is not None):
            started += await self._turns.start(solo, now)
        return started

    async def _start_limited(self, claims: Sequence[Claim]) -> list[Claim]:
        """Start claims that only a limit could hold back. A crash in the middle leaves a claim that is
        reclaimed."""
        claims = seated(claims)
        if not claims:
            return []
        statement = _START.given(cell=self._cell, **keys_of(claims), **proof(self._slots, claims))
        return mark_started(claims, await self._database.fetch(*statement))
