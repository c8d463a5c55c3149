"""The gate in front of executions that may not simply start when they are due.

Three things can hold one back, asked in this order inside one transaction: the rate of its limit key (a place is
reserved once, and the execution comes back when that place has come), the slots of its limit key, and its own
job's overlap policy. What passes is started; what does not is put back, skipped, or makes room, and whatever it
had taken on the way is given back in the same transaction. Most executions find nothing in their way; they are started
by one statement that takes what is free, and only the others are decided about one by one.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from tocsin.db.pool import Session, columns
from tocsin.db.statements import statement
from tocsin.domain.instant import SECOND, Instant, parse_span
from tocsin.domain.policy import Limit
from tocsin.queue.claims import Claim, Finish, Held, finish_columns, keys_of, mark_started, without
from tocsin.queue.slots import Slots, limit_of

# When nobody wakes an execution that waits for a slot or its turn, it looks again after this long.
_LOOK_AGAIN: Final = 30 * SECOND
_TRIES_MORE: Final = 2
# When so many find something in their way that it is not bad luck, keys are full: so many batches do not try.
_IN_VAIN: Final = 8


class Gate:
    """Decides about gated claims of one cell."""

    def __init__(self, cell: int, slots: Slots) -> None:
        self._cell = cell
        self._slots = slots
        self._batches_in_vain = 0

    async def start(self, session: Session, claims: Sequence[Claim]) -> list[Claim]:
        """Start what nothing holds back, without a transaction: what a crash leaves behind in the middle is a slot that is
        healed, or a claim that is reclaimed. Whatever does not start here has yet to pass the gate."""
        if self._batches_in_vain > 0:
            self._batches_in_vain -= 1
            return []
        simple = [claim for claim in claims if claim.target is not None and limit_of(claim).rate is None]
        started = await self._start_simple(session, simple) if simple else []
        for _ in range(_TRIES_MORE):
            unlucky = without(simple, started)
            if not unlucky:
                break
            if len(unlucky) > len(simple) // 8:
                self._batches_in_vain = _IN_VAIN
                break
            started += await self._start_simple(session, unlucky)
        return started

    async def _start_simple(self, session: Session, claims: Sequence[Claim]) -> list[Claim]:
        trying = await self._slots.propose(session, claims)
        rows = await session.fetch(
            _sql("start_gated"), self._cell, *keys_of(trying), [claim.slot for claim in trying]
        )
        started = mark_started(trying, [row[:2] for row in rows])
        unlucky = without(trying, started)
        if unlucky and (not started or rows[0]["taken"] > sum(claim.slot is not None for claim in started)):
            await self._slots.give_back(session, unlucky)
        for claim in unlucky:
            claim.slot = None
        return started

    async def pass_through(self, session: Session, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start those that may start, inside the caller's transaction."""
        waiting = await self._keep_rates(session, claims, now)
        refused = await self._slots.take(session, waiting)
        await self._park(session, [(claim, now + _LOOK_AGAIN) for claim in refused], "slot")
        turned_away = {claim.key for claim in refused}
        waiting = [claim for claim in waiting if claim.key not in turned_away]
        solo = [claim for claim in waiting if claim.overlap is not None]
        started = await self._start(session, [claim for claim in waiting if claim.overlap is None])
        if solo:
            started += await self._start_solo(session, solo, now)
        begun = {claim.key for claim in started}
        await self._slots.give_back(session, [claim for claim in waiting if claim.key not in begun])
        return started

    async def free_floors(self, session: Session, claims: Sequence[Held]) -> None:
        """The jobs of executions that are over have nobody on the floor. To be followed by `pass_on` after the commit."""
        ids, fire_ats, _ = keys_of([claim for claim in claims if claim.overlap is not None])
        if ids:
            await session.execute(_sql("free_floors"), self._cell, ids, fire_ats)

    async def pass_on(self, session: Session, claims: Sequence[Held]) -> None:
        """What these claims held is free now, and that is committed: those who wait for it have their turn."""
        await self._slots.wake_waiting(session, claims)
        if ids := [claim.job_id for claim in claims if claim.overlap is not None]:
            await session.fetchrow(_sql("pass_floors"), self._cell, ids)

    async def _keep_rates(self, session: Session, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Reserve a place in its key's rate for each claim that has none. Returns those whose place has come."""
        asking = [claim for claim in claims if claim.waits_for is None and limit_of(claim).rate is not None]
        if not asking:
            return list(claims)
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
        await self._park(session, later, "rate")
        parked = {claim.key for claim, _ in later}
        return [claim for claim in claims if claim.key not in parked]

    async def _start(self, session: Session, claims: Sequence[Claim]) -> list[Claim]:
        if not claims:
            return []
        return mark_started(claims, await session.fetch(_sql("start"), self._cell, *keys_of(claims)))

    async def _start_solo(self, session: Session, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start those whose job has nothing else running; decide about the others by their policy."""
        # Whoever decides about these jobs is waited for first: the grant then sees what they did.
        await session.execute(_sql("hold_solos"), self._cell, [claim.job_id for claim in claims])
        if replacing := [claim for claim in claims if claim.overlap == "replace"]:
            await session.execute(_sql("replace_solos"), self._cell, *keys_of(replacing))
        rows = await session.fetch(_sql("grant_solos"), self._cell, *keys_of(claims))
        by_key = {(claim.job_id, claim.fire_at): claim for claim in claims}
        asked = [by_key[job_id, fire_at] for job_id, fire_at, started_at in rows if started_at is None]
        started = []
        for job_id, fire_at, started_at in rows:
            if started_at is not None:
                by_key[job_id, fire_at].started_at = started_at
                started.append(by_key[job_id, fire_at])
        await self._refuse(session, without(asked, started), now)
        return started

    async def _refuse(self, session: Session, refused: Sequence[Claim], now: Instant) -> None:
        """Another execution of the job has the floor: skip, wait, or wait alone."""
        skipped = [claim for claim in refused if claim.overlap == "skip"]
        waiting = [claim for claim in refused if claim.overlap != "skip"]
        if skipped:
            finishes = [Finish(claim, "skipped", now, reason="overlap") for claim in skipped]
            await session.fetchrow(_sql("finish"), self._cell, *finish_columns(finishes))
        if collapsing := [claim for claim in waiting if claim.overlap == "collapse"]:
            ids, fire_ats, _ = keys_of(collapsing)
            await session.execute(_sql("collapse_solos"), self._cell, ids, fire_ats)
        await self._park(session, [(claim, now + _LOOK_AGAIN) for claim in waiting], "turn")

    async def _park(self, session: Session, waiting: Sequence[tuple[Claim, Instant]], reason: str) -> None:
        """Put claims back into the queue until an instant, or until somebody brings it forward."""
        if waiting:
            claims = [claim for claim, _ in waiting]
            await session.execute(
                _sql("park"),
                self._cell,
                *keys_of(claims),
                [run_at for _, run_at in waiting],
                [reason] * len(claims),
            )


def _gap(limit: Limit) -> int:
    """Microseconds between two starts of a key."""
    return parse_span(limit.per, "limit.per") // (limit.rate or 1)


def _sql(name: str) -> str:
    return statement("tocsin.queue", name)
