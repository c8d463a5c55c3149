"""From claims fresh from the database to attempts that may be handed out.

Due claims came back started. The rest may still start: a claim that a limit or an overlap policy holds back
passes the gate; one that became due a moment ago is started like any that was claimed ahead. A claim that is
too late expires, or its misfire policy decides; one that this version cannot read is left to others. Nothing
that is returned needs to be asked about again.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.queue.claims import Claim, sort_out
from tocsin.queue.starting.starting import Starting
from tocsin.telemetry import Telemetry
from tocsin.worker.misfires import Misfires, was_missed
from tocsin.worker.settler import Settlement, Settler
from tocsin.worker.started import tell_started
from tocsin.worker.unread import LeftToOthers

_NOT_RUN: Final = Outcome(Verdict.CANCELLED)
_DELETED: Final = "job deleted"
_TOO_LATE: Final = "not started by its latest start"


class Beginning:
    """Starts what may start, and sees to the rest."""

    def __init__(
        self, starting: Starting, settler: Settler, misfires: Misfires, telemetry: Telemetry
    ) -> None:
        self._starting = starting
        self._settler = settler
        self._misfires = misfires
        self._telemetry = telemetry
        self._left = LeftToOthers(settler, self._expire, telemetry)
        self._at_the_gate = asyncio.Lock()

    async def begin(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Those of the claims whose attempts begin now."""
        claims, unreadable = sort_out(claims)
        self._left.put_back(unreadable, now)
        started = [claim for claim in claims if claim.started_at is not None]
        started += await self._start([claim for claim in claims if claim.started_at is None], now)
        deleted = [claim for claim in started if claim.target is None]
        for claim in deleted:
            self._settler.put(Settlement(claim, _NOT_RUN, now, reason=_DELETED))
        begun = [claim for claim in started if claim.target is not None]
        tell_started(self._telemetry, begun, now)
        return begun

    async def _start(self, waiting: Sequence[Claim], now: Instant) -> list[Claim]:
        plain: list[Claim] = []
        gated: list[Claim] = []
        missed: list[Claim] = []
        for claim in waiting:
            if claim.start_by is not None and claim.start_by <= now:
                self._expire(claim, now)
            elif was_missed(claim, now):
                missed.append(claim)
            else:
                (gated if claim.gated else plain).append(claim)
        self._misfires.put(missed)
        started = await self._starting.start(plain) if plain else []
        if gated:
            async with self._at_the_gate:  # it keeps book of slots, one batch after the other
                started += await self._starting.start_gated(gated, now)
        return started

    def _expire(self, claim: Claim, now: Instant | None = None) -> None:
        at = claim.run_at if now is None else now
        self._settler.put(Settlement(claim, _NOT_RUN, at, State.EXPIRED, _TOO_LATE))
