"""What remote workers call: register, claim, settle, heartbeat, release, leave.

::

    claim request ──► parked ──► dispatcher ──► answer        one look serves all that is parked
    settlements ────► settler                                 gathered: one statement for many workers
    heartbeats ─────► heartbeats                              the same
                      keeper                                  seen, drained, stopped, settled elsewhere

Any gateway extends and settles any claim, for statements match the token and not the node. What only the
gateway that claimed has is the slot of a limit key: it gives the slot on when it has learned that the claim
is over, so limits hold.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from tocsin.clock import Clock
from tocsin.domain.errors import NotFound, OutcomeUnknown, Refused
from tocsin.domain.ids import execution_text, parse_execution_text, parse_worker_text, worker_text
from tocsin.domain.instant import MILLISECOND, Span, format_instant
from tocsin.domain.lifecycle import State
from tocsin.domain.protocol import (
    BATCH_MAX,
    HEARTBEATS_PER_LEASE,
    MAX_NOTE,
    WAIT_MAX_MS,
    Ask,
    ClaimName,
    Given,
    Heard,
    Heartbeat,
    HeldClaim,
    LogLine,
    NewWorker,
    Progress,
    Registered,
    Settled,
    Stop,
    TaskSettlement,
    check_ask,
    check_batch,
    check_heartbeat,
    check_settlements,
    check_worker,
    token_of,
)
from tocsin.domain.storable import storable_json
from tocsin.queue.claiming.claiming import Claiming
from tocsin.queue.claiming.holding import Beat, Holding, Ref, ref_of
from tocsin.queue.claims import Claim
from tocsin.queue.slots.slots import Slots
from tocsin.signals import Signal
from tocsin.store.logs import Logged, LogStore
from tocsin.store.workers import WorkerStore
from tocsin.worker.remote.handing import task_claim
from tocsin.worker.remote.held import HeldClaims
from tocsin.worker.remote.keeper import STOPPED
from tocsin.worker.remote.sessions import Parked, Session, Sessions
from tocsin.worker.remote.settler import RemoteSettler, Told, refusal_of, release_of, settlement_of

_PATIENCE: Final = 4.0
"""Seconds that a call waits for the database; then its worker is told to come back."""
_END_OF: Final = {"succeeded": State.SUCCEEDED, "skipped": State.SKIPPED}
"""How executions end for which workers tell so. After the other verdicts they may be tried again."""
T = TypeVar("T")


class Gateway:
    """The remote workers' way to the queue."""

    def __init__(
        self,
        sessions: Sessions,
        held: HeldClaims,
        holding: Holding,
        settler: RemoteSettler,
        slots: Slots,
        claiming: Callable[[int, Span], Claiming],
        workers: WorkerStore,
        logs: LogStore,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._held = held
        self._holding = holding
        self._settler = settler
        self._slots = slots
        self._claiming = claiming
        self._workers = workers
        self._logs = logs
        self._clock = clock
        self._stopping = False
        self.parked = Signal("request_parked")
        self.joined = Signal("worker_joined")
        """Sent when a worker calls for the first time."""

    async def register(self, tenant_id: int, key_id: str, new: NewWorker) -> Registered:
        """A worker introduces itself."""
        lease = check_worker(new)
        worker_id = await self._workers.register(tenant_id, key_id, new, lease)
        return Registered(
            worker_text(worker_id),
            lease // MILLISECOND,
            lease // HEARTBEATS_PER_LEASE // MILLISECOND,
            WAIT_MAX_MS,
            BATCH_MAX,
            self._now(),
        )

    async def claim(self, tenant_id: int, worker: str, ask: Ask) -> Given:
        """Settle, then wait for work. The same `seq` again is answered with the same answer."""
        check_ask(ask)
        session = await self._session(tenant_id, worker)
        if session.answering is None or session.answering[0] != ask.seq:
            session.wake()  # a worker asks once at a time: it no longer waits for an older, parked request
            session.answering = (ask.seq, asyncio.create_task(self._answer(session, ask)))
        seq, answer = session.answering
        try:
            return await asyncio.shield(answer)
        except Exception:
            if session.answering == (seq, answer):
                session.answering = None  # repeated, it is tried again
            raise

    async def withdraw(self, tenant_id: int, worker: str, ask: Ask) -> None:
        """The worker no longer waits for the answer to a request, so the request is not parked any longer. If
        it was given something just now, that is kept until the worker asks again."""
        session = await self._session(tenant_id, worker)
        if session.answering is not None and session.answering[0] == ask.seq:
            parked = session.parked
            if parked is not None and not parked.taking and parked.give([]):
                session.answering = None

    async def settle(self, tenant_id: int, worker: str, settle: Sequence[TaskSettlement]) -> list[Settled]:
        """Write down what became of attempts. Returns those that were not simply written."""
        check_settlements(settle)
        return await self._settle(await self._session(tenant_id, worker), settle)

    async def heartbeat(self, tenant_id: int, worker: str, beat: Heartbeat) -> Heard:
        """A worker is there, and holds these."""
        check_heartbeat(beat)
        session = await self._session(tenant_id, worker)
        session.running = len(beat.held) if beat.running is None else beat.running
        now = self._clock.now()
        named = {ref: one for one in beat.held if (ref := _ref(one.id, one.token)) is not None}
        claims = await self._find(session, list(named))
        await self._log([(claims[ref], one.logs) for ref, one in named.items() if ref in claims and one.logs])
        beats = [Beat(claim, session.lease, _progress(named[ref])) for ref, claim in claims.items()]
        lost, stopped = await self._holding.prolong(beats) if beats else ([], [])
        self._let_go(lost)
        gone = {ref_of(claim) for claim in lost}
        kept = {ref for ref in claims if ref not in gone}
        stops = {execution_text(claim.key): STOPPED for claim in stopped}
        stops |= {stop.id: stop.reason for stop in session.take_stops()}
        return Heard(
            [one.id for one in beat.held if _ref(one.id, one.token) not in kept],
            [Stop(*stop) for stop in stops.items()],
            format_instant(now + session.lease),
            session.draining,
            self._now(),
        )

    async def release(self, tenant_id: int, worker: str, names: Sequence[ClaimName]) -> int:
        """Give back claims of which nothing was run."""
        check_batch(len(names), "claims")
        session = await self._session(tenant_id, worker)
        refs = [ref for one in names if (ref := _ref(one.id, one.token)) is not None]
        claims = await self._find(session, refs)
        now = self._clock.now()
        lost = await _within(self._settler.settle([release_of(claim, now) for claim in claims.values()]))
        await self._over(list(claims.values()))
        return len(claims) - len(lost)

    async def leave(self, tenant_id: int, worker: str) -> None:
        """A worker is gone; what it still holds goes back when its lease is over."""
        session = await self._session(tenant_id, worker)
        session.wake()
        await self._workers.leave(tenant_id, session.worker_id)
        self._sessions.forget(session.worker_id)

    def stop(self) -> None:
        """The process ends: answer what is parked, so that workers go to another gateway."""
        self._stopping = True
        for session in self._sessions:
            session.wake()

    async def _answer(self, session: Session, ask: Ask) -> Given:
        settled = await self._settle(session, ask.settle)
        claims: list[Claim] = []
        if not (session.draining or session.stops or self._stopping) and (ask.want > 0 or ask.wait_ms > 0):
            claims = await self._park(session, ask)
        return Given(
            [task_claim(claim) for claim in claims],
            settled,
            session.take_stops(),
            session.draining,
            self._now(),
        )

    async def _park(self, session: Session, ask: Ask) -> list[Claim]:
        parked = Parked(session, ask.want, self._clock.now() + ask.wait_ms * MILLISECOND)
        session.parked = parked
        self.parked.send()
        try:
            return await parked.given
        finally:
            if session.parked is parked:
                session.parked = None

    async def _settle(self, session: Session, settle: Sequence[TaskSettlement]) -> list[Settled]:
        """Settlements by what became of them. One that cannot be written harms no other."""
        if not settle:
            return []
        answers: list[Settled] = []
        told: dict[Ref, TaskSettlement] = {}
        for one in settle:
            ref = _ref(one.id, one.token)
            if ref is None:
                answers.append(Settled(one.id, "refused", "this names no claim"))
            elif (problem := refusal_of(one)) is not None:
                answers.append(Settled(one.id, "refused", problem))
            else:
                told[ref] = one
        return answers + await self._write(session, told)

    async def _write(self, session: Session, told: dict[Ref, TaskSettlement]) -> list[Settled]:
        claims = await self._find(session, list(told))
        await self._log([(claims[ref], one.logs) for ref, one in told.items() if ref in claims and one.logs])
        now = self._clock.now()
        settlements = [settlement_of(Told(claim, told[ref]), now) for ref, claim in claims.items()]
        lost = await _within(self._settler.settle(settlements))
        self._settler.count_strays([ref for ref in claims if told[ref].stray and ref not in lost])
        await self._over(list(claims.values()))
        unknown = {ref: _END_OF.get(one.verdict) for ref, one in told.items() if ref not in claims}
        unknown_lost = set(unknown) - await self._holding.settled(unknown)
        return [Settled(told[ref].id, "lost") for ref in (*lost, *unknown_lost)]

    async def _find(self, session: Session, refs: Sequence[Ref]) -> dict[Ref, Claim]:
        """Claims by their names, as far as they are the tenant's and still held."""
        now = self._clock.now()
        known: dict[Ref, Claim] = {}
        unknown: list[Ref] = []
        for ref in refs:
            if (claim := self._held.get(ref)) is None:
                unknown.append(ref)
            elif claim.tenant_id == session.tenant_id:
                known[ref] = claim
                self._held.heard(ref, now)
        found = await self._holding.find(unknown)
        found = [claim for claim in found if claim.tenant_id == session.tenant_id]
        for claim in found:
            claim.worker_id = session.worker_id
        self._held.add_foreign(found, now)
        return known | {ref_of(claim): claim for claim in found}

    async def _log(self, logged: Sequence[tuple[Claim, Sequence[LogLine]]]) -> None:
        lines = [Logged(claim.key, claim.attempt, claim.token, some) for claim, some in logged]
        await self._logs.append(lines, self._clock.now())

    async def _over(self, claims: Sequence[Claim]) -> None:
        """These were settled. The gateway that has the slot of one of them is told."""
        elsewhere = any(claim.limit_key is not None and self._held.foreign(claim) for claim in claims)
        self._held.drop(claims)
        if elsewhere:
            await self._workers.tell_settled()

    def _let_go(self, lost: Sequence[Claim]) -> None:
        self._held.drop(lost)
        for claim in lost:
            if claim.limit_key is not None:
                self._slots.abandon(claim)

    async def _session(self, tenant_id: int, worker: str) -> Session:
        """The worker that calls, of whose tenant alone it is known."""
        worker_id = parse_worker_text(worker)
        session = self._sessions.get(worker_id)
        if session is None or session.tenant_id != tenant_id:
            row = await self._workers.find(tenant_id, worker_id)
            if row["state"] == "gone":
                raise NotFound(f"worker {worker} has left, or was not heard of for too long; register again")
            session = self._sessions.add(Session(dict(row), self._claiming(worker_id, row["lease"])))
            self.joined.send()
        session.seen_at = self._clock.now()
        return session

    def _now(self) -> str:
        return format_instant(self._clock.now())


def _ref(execution: str, token: str) -> Ref | None:
    """A claim's name; None for what cannot be one."""
    number = token_of(token)
    if number is None:
        return None
    try:
        return Ref(parse_execution_text(execution), number)
    except Refused:
        return None


def _progress(held: HeldClaim) -> str | None:
    if held.progress is None:
        return None
    share, note = held.progress.share, held.progress.note
    kept = Progress(None if share is None else min(max(share, 0.0), 1.0), note and note[:MAX_NOTE])
    return storable_json(kept)


async def _within(writing: Awaitable[T]) -> T:
    """Wait for the database, but not for ever. A write that is under way may still succeed."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await writing
    except TimeoutError:
        raise OutcomeUnknown("the database did not answer in time") from None
