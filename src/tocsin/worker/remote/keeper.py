"""Keeps what a gateway remembers in step with the database.

It writes down which workers were heard of, all in one statement. It learns which workers people want drained,
which claims are over although this gateway was not told, and which attempts should stop; the latter two at
once when a notice says so. And it forgets workers that call no more.
"""

from typing import Final

from tocsin.domain.instant import SECOND, Instant, Span, has_passed
from tocsin.queue.claiming.holding import Holding
from tocsin.queue.claims import Claim
from tocsin.queue.slots.slots import Slots
from tocsin.service import Report
from tocsin.store.leases import LeaseStore
from tocsin.store.workers import WorkerStore
from tocsin.worker.remote.held import HeldClaims
from tocsin.worker.remote.sessions import Sessions

_UNHEARD: Final[Span] = 5 * SECOND
_STATES_EVERY: Final[Span] = 15 * SECOND
_ROUTES: Final = ("task",)
STOPPED: Final = "its cancellation was asked for"


class Keeper:
    """Runs every few seconds while workers use this gateway; an idle one asks nothing."""

    name = "remote workers"
    interval = 5.0

    def __init__(
        self,
        sessions: Sessions,
        held: HeldClaims,
        holding: Holding,
        slots: Slots,
        workers: WorkerStore,
        nodes: LeaseStore,
        node_id: int,
    ) -> None:
        self._sessions = sessions
        self._held = held
        self._holding = holding
        self._slots = slots
        self._workers = workers
        self._nodes = nodes
        self._node_id = node_id
        self._announced = False
        self._looked_at: Instant = 0
        self._all_held = False

    def look_at_states(self) -> None:
        """A worker was asked to drain."""
        self._looked_at = 0

    def look_at_held(self) -> None:
        """An execution was asked to stop, or another gateway settled what may be ours."""
        self._all_held = True

    async def run_once(self, now: Instant) -> Report:
        """Write, learn, forget."""
        await self._announce()
        if seen := self._sessions.take_unnoted():
            await self._workers.note_seen(seen)
        if len(self._sessions) and has_passed(_STATES_EVERY, self._looked_at, now):
            self._looked_at = now
            await self._learn_states()
        await self._look_at_held(now)
        for session in self._sessions:
            if session.gone(now):
                self._sessions.forget(session.worker_id)
        return Report(done=len(seen))

    async def _announce(self) -> None:
        """Tenants' limits are shared with the gateways that have workers, and with no others."""
        used = len(self._sessions) > 0 or len(self._held) > 0
        if used != self._announced:
            await self._nodes.note_routes(self._node_id, _ROUTES if used else ())
            self._announced = used

    async def _learn_states(self) -> None:
        try:
            states = await self._workers.states([session.worker_id for session in self._sessions])
        except BaseException:
            self._looked_at = 0  # no worker was asked: the next run asks again
            raise
        for session in self._sessions:
            draining = states.get(session.worker_id, "gone") != "active"
            if draining and not session.draining:
                session.draining = True
                session.wake()

    async def _look_at_held(self, now: Instant) -> None:
        whole, self._all_held = self._all_held, False
        claims = list(self._held) if whole else self._held.unheard(_UNHEARD, now)
        try:
            gone, stopped = await self._holding.still_held(claims)
        except BaseException:
            self._all_held |= whole
            raise
        self._let_go(gone)
        for claim in stopped:
            session = None if claim.worker_id is None else self._sessions.get(claim.worker_id)
            if session is not None:
                session.stop(claim, STOPPED)

    def _let_go(self, gone: list[Claim]) -> None:
        self._held.drop(gone)
        for claim in gone:
            if claim.limit_key is not None:
                self._slots.abandon(claim)
