"""Starts: the fire-or-skip decision for claims that were taken ahead of their instant.

Nothing that was cancelled, paused, re-planned, reclaimed or missed meanwhile is started, and only what is
returned may run. A start that had no answer may be asked for again with the same claims. Plain claims are
started by one statement on a connection of their own; claims that a limit or an overlap policy may hold back
pass the gate.
"""

from collections.abc import Sequence

from tocsin.db.pool import Database
from tocsin.db.statements import named
from tocsin.domain.instant import Instant
from tocsin.queue.claims import Claim, in_lock_order, keys_of, mark_started, why_late
from tocsin.queue.starting.begun import begun_and_stopped
from tocsin.queue.starting.gate import Gate

_START = named(__package__, "start")


class Starting:
    """Starts claims of one cell. `database` is for plain starts alone: a start must not wait for other
    statements."""

    def __init__(self, database: Database, cell: int, gate: Gate) -> None:
        self._database = database
        self._cell = cell
        self._gate = gate

    async def start(self, claims: Sequence[Claim], *, again: bool = False) -> list[Claim]:
        """Start claims that are to run at their instant. `again`: an earlier start of them had no answer.
        What that start began, and what was asked to stop since, comes with the rest as `stop_asked`."""
        claims = in_lock_order(claims)
        rows = await self._database.fetch(
            *_START.given(
                cell=self._cell,
                **keys_of(claims),
                node_id=None,
                slots_epoch=None,
                late_for=why_late(claims),
            )
        )
        started = mark_started(claims, rows)
        return (
            started + await begun_and_stopped(self._database, self._cell, claims, started)
            if again
            else started
        )

    async def start_gated(self, claims: Sequence[Claim], now: Instant, *, again: bool = False) -> list[Claim]:
        """Start claims that a limit or an overlap policy may hold back; those that are returned have passed.
        `again` as above."""
        return await self._gate.start(claims, now, again=again)
