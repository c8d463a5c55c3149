"""The slots of limit keys: so many executions of a key run at once, over the whole fleet.

A slot is a row that names the execution which has it. A worker first tries slots that it believes to be free, those
that it gave back itself, for a whole batch in the statement that also starts it; only for what had no luck the slots
of the key are looked through.

Nobody waits in vain. Whoever is refused puts its execution back and then looks once more whether anybody has a slot of
the key at all; whoever frees a slot does that first and then looks for someone who waits. Each looks when its own write
can be seen, so at least one of the two sees the other.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

import msgspec

from tocsin.db.pool import Session, columns
from tocsin.db.statements import statement
from tocsin.domain.policy import Limit, Policies
from tocsin.queue.claims import Claim, Held, Overdue, keys_of

_KEYS_REMEMBERED: Final = 100_000
_ANY_SLOT: Final = 32767
_GOLDEN: Final = 0.6180339887498949  # multiples of it, without their whole part, lie far from each other

LimitKey = tuple[int, str]


class Slots:
    """Slots of one cell, and what this worker knows of them."""

    def __init__(self, cell: int, node_id: int) -> None:
        self._cell = cell
        self._own_part = node_id * _GOLDEN % 1
        self._made: dict[LimitKey, int] = {}
        self._given_back: dict[LimitKey, set[int]] = {}
        self._reached: dict[LimitKey, int] = {}

    async def propose(self, session: Session, claims: Sequence[Claim]) -> list[Claim]:
        """Give each claim that needs one a slot to try: one that seems to be free. As many claims of a key as it has slots
        at most; returned in the order of the slots."""
        await self._make(session, claims)
        tried: dict[LimitKey, int] = {}
        trying: list[Claim] = []
        for claim in claims:
            slots = limit_of(claim).max_parallel
            if slots is None:
                trying.append(claim)
                continue
            key = _limit_key(claim)
            before = tried.get(key, 0)
            if before < slots:
                tried[key] = before + 1
                known = self._given_back.get(key)
                slot = known.pop() if known else slots + 1
                claim.slot = slot if slot <= slots else self._next_slot(key, slots)
                trying.append(claim)
        trying.sort(key=_by_slot)
        return trying

    async def take(self, session: Session, claims: Sequence[Claim]) -> list[Claim]:
        """Take a slot for each claim that needs one, whichever is free. Returns the claims that got none."""
        asking = [claim for claim in claims if limit_of(claim).max_parallel is not None]
        if not asking:
            return []
        await self._make(session, asking)
        asking.sort(key=_limit_key)  # stable: claims of one key keep their order
        rows = await session.fetch(
            _sql("take_slots"), self._cell, *columns(_wanted(asking), 5), *keys_of(asking)
        )
        for place, slot in rows:
            asking[place].slot = slot
        got = {place for place, _ in rows}
        return [claim for place, claim in enumerate(asking) if place not in got]

    async def give_back(self, session: Session, claims: Sequence[Held]) -> None:
        """Free the slots of attempts that are over. To be followed by `wake_waiting`, once that is committed."""
        limited = [claim for claim in claims if _may_have_slot(claim)]
        if limited:
            await session.execute(
                _sql("free_slots"),
                self._cell,
                [claim.tenant_id for claim in limited],
                [claim.limit_key for claim in limited],
                *keys_of(limited),
                [claim.slot for claim in limited],
            )

    async def wake_waiting(self, session: Session, claims: Sequence[Held], *, refused: bool = False) -> None:
        """Let those try again who wait for a slot of these claims' keys, one for each claim, if so many are free. For
        claims that were `refused` only if nobody has a slot of the key: else whoever does will see to it."""
        self._remember(claims)
        keys: dict[LimitKey, tuple[int, int]] = {}
        for claim in claims:
            if _may_have_slot(claim):
                key = _limit_key(claim)
                slots, number = keys.get(key, (0, 0))
                keys[key] = max(slots, limit_of(claim).max_parallel or _ANY_SLOT), number + 1
        if keys:
            rows = [(*key, *wanted) for key, wanted in keys.items()]
            await session.fetchrow(_sql("wake_waiting"), self._cell, *columns(rows, 4), refused)

    def forget(self) -> None:
        """Make sure of every slot again when it is next needed."""
        self._made.clear()

    def _remember(self, claims: Sequence[Held]) -> None:
        """Slots that were given back are free again, as far as this worker knows."""
        if len(self._given_back) > _KEYS_REMEMBERED:
            self._given_back.clear()
            self._reached.clear()
        for claim in claims:
            if claim.slot is not None:
                self._given_back.setdefault(_limit_key(claim), set()).add(claim.slot)

    async def _make(self, session: Session, claims: Sequence[Claim]) -> None:
        """Slots are rows; they are made the first time a key is met, or when its number grew."""
        wanted: dict[LimitKey, int] = {}
        for claim in claims:
            key, number = _limit_key(claim), limit_of(claim).max_parallel or 0
            if number > max(self._made.get(key, 0), wanted.get(key, 0)):
                wanted[key] = number
        if wanted:
            rows = [(tenant_id, key, number) for (tenant_id, key), number in sorted(wanted.items())]
            await session.execute(_sql("make_slots"), self._cell, *columns(rows, 3))
            self._made |= wanted

    def _next_slot(self, key: LimitKey, slots: int) -> int:
        """One that this worker has not tried yet, in its own part of the slots as long as that lasts: two workers that
        try the same slot wait for each other's whole batch."""
        reached = self._reached.get(key, 0)
        self._reached[key] = reached + 1
        return 1 + (int(self._own_part * slots) + reached) % slots


def knows_slot(claim: Claim) -> bool:
    """Whether it is known which slot the claim has, if any."""
    if claim.limit_key is None or claim.slot is not None:
        return True
    return claim.policies is not None and limit_of(claim).max_parallel is None


_NO_LIMIT: Final = Limit("")


def limit_of(claim: Held) -> Limit:
    """The limit in a claim's policies."""
    if claim.limit is None:
        known = claim.limit_key is not None and claim.policies is not None
        claim.limit = _limit_in(claim.policies or "") if known else _NO_LIMIT
    return claim.limit


@lru_cache(maxsize=8192)
def _limit_in(policies: str) -> Limit:
    return msgspec.json.decode(policies, type=Policies).limit or _NO_LIMIT


def _limit_key(claim: Held) -> LimitKey:
    return claim.tenant_id, claim.limit_key or ""


def _by_slot(claim: Claim) -> tuple[int, str, int]:
    return claim.tenant_id, claim.limit_key or "", claim.slot or 0


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


def _sql(name: str) -> str:
    return statement("tocsin.queue", name)
