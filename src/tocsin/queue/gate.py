"""The gate in front of executions that may not simply start when they are due.

Three things can hold one back, asked in this order: the rate of its limit key (a place is reserved once, and the execution
comes back when that place has come), the slots of its limit key, and its own job's overlap policy. What passes is started;
what does not is put back, skipped, or makes room, and leaves the slot that it had taken on the way.

Most executions find nothing in their way, and are started by one statement. Only what is left is decided about one by one.
"""

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final, TypeVar
from uuid import UUID

from tocsin.db.pool import Database, Session, UniqueViolation, columns
from tocsin.db.statements import statement
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND, Instant, parse_span
from tocsin.domain.outcome import VERSION
from tocsin.domain.policy import Limit
from tocsin.queue.claims import (
    Claim,
    Finish,
    Held,
    finish_columns,
    in_lock_order,
    keys_of,
    mark_started,
    why_late,
    without,
)
from tocsin.queue.slot_book import has_its_slot, limit_of
from tocsin.queue.slots import Slots

# When nobody wakes an execution that waits for a slot or its turn, it looks again after this long.
_LOOK_AGAIN: Final = 30 * SECOND
# When so many find something in their way that it is not bad luck, so many batches do not try their luck.
_MANY: Final = 1 / 8
_IN_VAIN: Final = 8
# So often a statement is made again that was refused because somebody took a floor unseen.
_TRIES: Final = 5

T = TypeVar("T")


class Gate:
    """Decides about gated claims of one cell."""

    def __init__(self, database: Database, node_id: int, cell: int, slots: Slots) -> None:
        self._database = database
        self._node_id = node_id
        self._cell = cell
        self._slots = slots
        self._floors_in_vain = 0

    async def start(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start those that may start. Some are left without a word: they were lost, or asked to stop."""
        started = await self._start(claims, now)
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
        waiting = await self._keep_rates(claims, now)
        refused = await self._slots.take(waiting)
        if refused:
            await self._park(self._database, [(claim, now + _LOOK_AGAIN) for claim in refused], "slot")
            await self._slots.look_after(refused)
        ready = without(waiting, refused)
        started = await self._start_all(
            "start", in_lock_order(claim for claim in ready if claim.overlap is None)
        )
        if solo := in_lock_order(claim for claim in ready if claim.overlap is not None):
            alone = await self._start_alone(solo)
            started += alone
            if contested := without(solo, alone):
                started += await unless_overtaken(lambda: self._start_contested(contested, now))
        return started

    async def _start_alone(self, claims: Sequence[Claim]) -> list[Claim]:
        """Start those of jobs that must not overlap which have nobody in their way."""
        if self._floors_in_vain > 0:
            self._floors_in_vain -= 1
            return []
        try:
            started = await self._start_all("start_alone", claims)
        except UniqueViolation:
            return []  # somebody took one of the floors just now
        if len(claims) - len(started) > _MANY * len(claims):
            self._floors_in_vain = _IN_VAIN
        return started

    async def _start_all(self, name: str, claims: Sequence[Claim]) -> list[Claim]:
        """What a crash leaves behind in the middle is a claim that is reclaimed."""
        claims = _seated(claims)
        if not claims:
            return []
        rows = await self._database.fetch(_sql(name), self._cell, *keys_of(claims), *self._proof(claims))
        return mark_started(claims, rows)

    def _proof(self, claims: Sequence[Claim]) -> tuple[int, int | None, str | None]:
        """What a statement needs that starts these claims on our slots: whose they are, and why it is late."""
        seated = any(claim.slot is not None for claim in claims)
        return self._node_id, (self._slots.epoch or 0) if seated else None, why_late(claims)

    async def _keep_rates(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Reserve a place in its key's rate for each claim that has none. Returns those whose place has come."""
        asking = [claim for claim in claims if _asks_for_rate(claim)]
        if not asking:
            return list(claims)
        async with self._database.transaction() as session:
            later = await self._reserve(session, asking, now)
            await self._park(session, later, "rate")
        for claim in asking:
            claim.waits_for = "rate"  # asked again, it has its place
        return without(claims, [claim for claim, _ in later])

    async def _reserve(
        self, session: Session, asking: Sequence[Claim], now: Instant
    ) -> list[tuple[Claim, Instant]]:
        """Returns those whose place is yet to come, and when that is."""
        gaps = {(claim.tenant_id, claim.limit_key): _gap(limit_of(claim)) for claim in asking}
        numbers = Counter((claim.tenant_id, claim.limit_key) for claim in asking)
        wanted = [(*key, timedelta(microseconds=gap), numbers[key]) for key, gap in gaps.items()]
        rows = await session.fetch(_sql("reserve_rate"), self._cell, *columns(wanted, 4))
        # The row says where the rate stands after our places; the first of them lies that many gaps before.
        place = {}
        for tenant_id, key, after in rows:
            place[tenant_id, key] = after - numbers[tenant_id, key] * gaps[tenant_id, key]
        later: list[tuple[Claim, Instant]] = []
        for claim in asking:
            key = (claim.tenant_id, claim.limit_key)
            if place[key] > now:
                later.append((claim, place[key]))
            place[key] += gaps[key]
        return later

    async def _start_contested(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start those whose job has nothing else running; decide about the others by their policy."""
        async with self._database.transaction() as session:
            # Whoever decides about these jobs is waited for first: the grant then sees what they did.
            jobs = [claim.job_id for claim in claims]
            await session.execute(_sql("hold_jobs"), self._cell, jobs)
            await session.execute(_sql("hold_floors"), self._cell, jobs)
            await self._replace_older(session, claims)
            started, refused = await self._grant(session, _seated(claims))
            await self._refuse(session, refused, now)
        return started

    async def _replace_older(self, session: Session, claims: Sequence[Claim]) -> None:
        if replacing := [claim for claim in claims if claim.overlap == "replace"]:
            await session.execute(_sql("replace_older"), self._cell, *keys_of(replacing))

    async def _grant(self, session: Session, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Returns those that have the floor and have started, and those that are refused."""
        rows = await session.fetch(_sql("grant_floors"), self._cell, *keys_of(claims), *self._proof(claims))
        by_key = {(claim.job_id, claim.fire_at, claim.token): claim for claim in claims}
        asked, started = [], []
        for *key, started_at in rows:
            claim = by_key[*key]
            if started_at is None:
                asked.append(claim)
            else:
                claim.started_at = started_at
                started.append(claim)
        return started, without(asked, started)

    async def _refuse(self, session: Session, refused: Sequence[Claim], now: Instant) -> None:
        """Another execution of the job has the floor: skip, wait, or wait alone."""
        # Once more: the one that has it may have begun when others had been looked for already.
        await self._replace_older(session, refused)
        skipped = [claim for claim in refused if claim.overlap == "skip"]
        waiting = [claim for claim in refused if claim.overlap != "skip"]
        if skipped:
            finishes = [Finish(claim, "skipped", now, reason="overlap") for claim in skipped]
            await session.fetchrow(_sql("finish"), self._cell, *finish_columns(finishes))
        if collapsing := [claim for claim in waiting if claim.overlap == "collapse"]:
            ids, fire_ats, _ = keys_of(collapsing)
            await session.execute(_sql("collapse_waiting"), self._cell, ids, fire_ats)
        await self._park(session, [(claim, now + _LOOK_AGAIN) for claim in waiting], "turn")

    async def _park(self, session: Session, waiting: Sequence[tuple[Claim, Instant]], reason: str) -> None:
        """Put claims back into the queue until an instant, or until somebody brings it forward."""
        if waiting:
            run_at = {id(claim): at for claim, at in waiting}
            claims = in_lock_order(claim for claim, _ in waiting)
            times = [run_at[id(claim)] for claim in claims]
            await session.execute(_sql("park"), self._cell, *keys_of(claims), times, reason)


def _seated(claims: Sequence[Claim]) -> list[Claim]:
    """Without those that have lost their slot again: it was found out meanwhile that it is not ours."""
    return [claim for claim in claims if has_its_slot(claim)]


def solo_jobs(claims: Iterable[Held]) -> list[UUID]:
    """The jobs of these claims that must not overlap."""
    return [claim.job_id for claim in claims if claim.overlap is not None]


async def unless_overtaken(work: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """Do it, again if somebody took a floor that was free when we looked: the next look sees that."""
    for _ in range(_TRIES):
        with contextlib.suppress(UniqueViolation):
            return await work()
    raise Unavailable("others took the floors of jobs again and again")


def _asks_for_rate(claim: Claim) -> bool:
    """Whether it has yet to get a place in its key's rate."""
    return claim.waits_for in (None, VERSION) and limit_of(claim).rate is not None


def _gap(limit: Limit) -> int:
    """Microseconds between two starts of a key."""
    return parse_span(limit.per, "limit.per") // (limit.rate or 1)


def _sql(name: str) -> str:
    return statement("tocsin.queue", name)
