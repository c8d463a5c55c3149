"""The gate in front of executions that may not simply start when they are due.

Three things can hold one back, asked in this order inside one transaction: the rate of its limit key (a place is
reserved once, and the execution comes back when that place has come), the slots of its limit key, and its own
job's overlap policy. What passes is started; what does not is put back, skipped, or makes room, and whatever it
had taken on the way is given back in the same transaction.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import groupby
from typing import Final

import msgspec

from tocsin.db.pool import Record, Session, columns
from tocsin.db.statements import statement
from tocsin.domain.instant import SECOND, Instant, parse_span
from tocsin.domain.policy import Limit, Policies
from tocsin.queue.claims import Claim, Finish, Held, Overdue, finish_columns, keys_of

# When nobody wakes an execution that waits for a slot or its turn, it looks again after this long.
_LOOK_AGAIN: Final = 30 * SECOND


class Gate:
    """Decides about gated claims of one cell. Knows which slots it has already made."""

    def __init__(self, cell: int) -> None:
        self._cell = cell
        self._slots_made: dict[tuple[int, str], int] = {}

    async def pass_through(self, session: Session, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start those that may start, inside the caller's transaction."""
        waiting = await self._keep_rates(session, claims, now)
        waiting = await self._take_slots(session, waiting, now)
        solo = [claim for claim in waiting if claim.overlap is not None]
        started = await self._start(session, [claim for claim in waiting if claim.overlap is None])
        if solo:
            started += await self._start_solo(session, solo, now)
        begun = {claim.key for claim in started}
        await self.give_slots_back(session, [claim for claim in waiting if claim.key not in begun])
        return started

    async def start_limited(self, session: Session, claims: list[Claim], now: Instant) -> list[Claim]:
        """`pass_through` for claims that nothing but slots may hold back, without a transaction around it: what a crash
        leaves behind in the middle is a slot that is healed, or a claim that is reclaimed."""
        await self._make_slots(session, claims)
        claims.sort(key=_limit_key)  # stable: claims of one key keep their order
        rows = await session.fetch(
            _sql("start_limited"), self._cell, *columns(_wanted(claims), 5), *keys_of(claims)
        )
        got = set()
        for place, slot, started_at, _ in rows:
            claims[place].slot, claims[place].started_at = slot, started_at
            got.add(place)
        started = [claim for place, claim in enumerate(claims) if place in got]
        refused = [claim for place, claim in enumerate(claims) if place not in got]
        if refused:
            if not rows or rows[0]["taken"] > len(rows):
                await self.give_slots_back(session, refused)
            await self._park(session, [(claim, now + _LOOK_AGAIN) for claim in refused], "slot")
        return started

    def forget(self) -> None:
        """Make sure of every slot again when it is next needed."""
        self._slots_made.clear()

    async def give_slots_back(self, session: Session, claims: Sequence[Held]) -> None:
        """Free the slots of attempts that are over, and let others of their keys try."""
        limited = [claim for claim in claims if _may_have_slot(claim)]
        if limited:
            await session.fetchrow(
                _sql("free_slots"),
                self._cell,
                [claim.tenant_id for claim in limited],
                [claim.limit_key for claim in limited],
                *keys_of(limited),
                [claim.slot for claim in limited],
            )

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

    async def _take_slots(self, session: Session, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Take a slot for each claim whose key has a number of them. Returns those that may go on."""
        asking = [claim for claim in claims if limit_of(claim).max_parallel is not None]
        if not asking:
            return list(claims)
        await self._make_slots(session, asking)
        asking.sort(key=_limit_key)  # stable: claims of one key keep their order
        rows = await session.fetch(
            _sql("take_slots"), self._cell, *columns(_wanted(asking), 5), *keys_of(asking)
        )
        for place, slot in rows:
            asking[place].slot = slot
        got = {place for place, _ in rows}
        refused = [claim for place, claim in enumerate(asking) if place not in got]
        await self._park(session, [(claim, now + _LOOK_AGAIN) for claim in refused], "slot")
        turned_away = {claim.key for claim in refused}
        return [claim for claim in claims if claim.key not in turned_away]

    async def _make_slots(self, session: Session, claims: Sequence[Claim]) -> None:
        """Slots are rows; they are made the first time a key is met, or when its number grew."""
        wanted: dict[tuple[int, str], int] = {}
        for claim in claims:
            key, number = (claim.tenant_id, claim.limit_key or ""), limit_of(claim).max_parallel or 0
            if number > max(self._slots_made.get(key, 0), wanted.get(key, 0)):
                wanted[key] = number
        if wanted:
            rows = [(tenant_id, key, number) for (tenant_id, key), number in sorted(wanted.items())]
            await session.execute(_sql("make_slots"), self._cell, *columns(rows, 3))
            self._slots_made |= wanted

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
        started = mark_started(claims, [row for row in rows if row["started_at"] is not None])
        refused = [claims[row["place"]] for row in rows if row["started_at"] is None]
        await self._refuse(session, refused, now)
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


def only_slots(claim: Claim) -> bool:
    """Whether nothing but a number of slots may hold it back."""
    limit = limit_of(claim)  # none at all if the job was deleted meanwhile
    return claim.overlap is None and limit.max_parallel is not None and limit.rate is None


def _limit_key(claim: Claim) -> tuple[int, str]:
    return claim.tenant_id, claim.limit_key or ""


def _may_have_slot(claim: Held) -> bool:
    """What a lost worker was told of the limit is not known any more."""
    return claim.limit_key is not None and (
        isinstance(claim, Overdue) or limit_of(claim).max_parallel is not None
    )


def _wanted(claims: Sequence[Claim]) -> list[tuple[int, str, int, int, int]]:
    """Of claims sorted by key: each key with its slots, how many of the claims are its own, and how many come before."""
    wanted = []
    before = 0
    for (tenant_id, key), group in groupby(claims, _limit_key):
        own = list(group)
        slots = max(limit_of(claim).max_parallel or 0 for claim in own)
        wanted.append((tenant_id, key, slots, len(own), before))
        before += len(own)
    return wanted


def mark_started(claims: Sequence[Claim], rows: Iterable[Record]) -> list[Claim]:
    """The claims that a start statement returned, with their start times."""
    started = []
    for place, started_at in rows:
        claims[place].started_at = started_at
        started.append(claims[place])
    return started


NO_LIMIT: Final = Limit("")


def limit_of(claim: Claim) -> Limit:
    """The limit in a claim's policies."""
    return NO_LIMIT if claim.limit_key is None or claim.policies is None else _limit_in(claim.policies)


@lru_cache(maxsize=8192)
def _limit_in(policies: str) -> Limit:
    return msgspec.json.decode(policies, type=Policies).limit or NO_LIMIT


def _gap(limit: Limit) -> int:
    """Microseconds between two starts of a key."""
    return parse_span(limit.per, "limit.per") // (limit.rate or 1)


def _sql(name: str) -> str:
    return statement("tocsin.queue", name)
