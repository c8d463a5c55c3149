"""The slots of limit keys: a cap on the executions of a key that run at once, over the whole fleet.

A slot is a row, and a worker has it. The worker takes slots from the database when it needs more than it has,
and lets one execution after the other use them, which writes nothing. It gives a slot back when another
worker's execution waits for one of the key, or when nothing ran under the key for two seconds. The slots of a
dead worker come back by `healing`.

**Offers.** Most limited executions need no statement of their own: with each claim the worker offers its idle
slots, and what is due is started on them by the claim itself. Until the answer has come these slots are used
for nothing else. If the answer is lost, they stay out of use until the worker has found what the claim
started, or nothing has that claim's token any more. Offers only save work: without them every limited
execution would pass the gate and cost a second write (see "The gate" in `docs/architecture.md`);
`bench.limits --offers` says what that is worth.

**Epochs.** A worker that was taken for dead and comes back must not use slots that are another worker's by
now. So it has them under its node's epoch: whatever it starts on a slot, and whatever it does about its
slots, is done by a statement that proves the epoch. When an answer was lost, or the epoch has changed, the
worker begins a new epoch with those slots that the database knows as its own; statements of the old epoch
that are still under way then do nothing.

**No lost wake-ups**: see `waking`. Should a notice be lost, unused slots go back after two seconds all the
same.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple

import msgspec

from tocsin.db.pool import Database
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.queue.claims import Claim
from tocsin.queue.holder import Holder
from tocsin.queue.slots.book import LimitKey, SlotBook, has_its_slot, limit_key, limit_of
from tocsin.queue.slots.waking import Asked, waiting_keys, wake
from tocsin.signals import Signal

_ANY_SLOT: Final = 32767
_MADE_AT_FIRST: Final = 16
_SPARE_SHARE: Final = 1 / 16
"""Which share of a key's slots a worker may take before it needs them."""
_KEYS_REMEMBERED: Final = 100_000
_MADE_FOR_SECONDS: Final = 600.0
"""How long slots that were made are counted on. They stay for an hour in which nothing uses them
(store/forgetting.py)."""
_KEYS_PER_OFFER: Final = 2000
"""The statement reads an offer as a whole."""
_ADOPT = named(__package__, "adopt_slots")
_LEASE = named(__package__, "lease_slots")
_FREE = named(__package__, "free_slots")
_MAKE = named(__package__, "make_slots")
_OPEN_CLAIMS = named(__package__, "open_claims")


class Offer(NamedTuple):
    """Idle slots on which a claim may start executions: a number per key as JSON text, and the epoch that
    proves them."""

    numbers: str | None
    epoch: int | None


NO_OFFER: Final = Offer(None, None)


class Slots:
    """Slots of one cell, and which of them this worker has."""

    def __init__(self, database: Database, cell: int, holder: Holder) -> None:
        self._database = database
        self._cell = cell
        self._node_id = holder.node_id
        self._worker_id = holder.worker_id
        self._book = SlotBook()
        self._epoch: int | None = None
        self.unsure = False
        """Whether there may be slots of ours that we do not know of."""
        self._made: dict[LimitKey, tuple[int, float]] = {}
        """How many slots of a key were made, and when that was."""
        self._short: set[LimitKey] = set()
        """Keys that had too few slots since the last sweep."""
        self._used: set[LimitKey] = set()
        """Keys that something ran under since the last sweep."""
        self._unwoken: Counter[LimitKey] = Counter()
        """Freed slots, by key, for which no waiting execution was woken yet."""
        self._owed = False
        """Whether executions may wait for slots that a claim under way was offered. No offers until then."""
        self.taken = Signal("slots_taken")
        """Sent when we have more slots than before, or when there is more to do about them."""

    @property
    def has_any(self) -> bool:
        """Whether this worker has slots."""
        return not self._book.empty

    @property
    def has_idle(self) -> bool:
        """Whether there may be something to offer."""
        return bool(self._book.idle_keys)

    @property
    def holder(self) -> Holder:
        """The node that has these slots. Its epoch proves that, and is None while the node does not know
        which slots it has."""
        return Holder(self._node_id, self._worker_id, self._epoch)

    async def take(self, claims: Sequence[Claim]) -> list[Claim]:
        """Give each claim a slot that needs one. Returns the claims for which there is none."""
        missing = [claim for claim in claims if not self._seat(claim)]
        if missing and self._epoch is None:
            await self.adopt()
            # Of all of them: some may have had one that is not ours.
            missing = [claim for claim in claims if not self._seat(claim)]
        if not missing:
            return []
        await self._lease(missing)
        refused = [claim for claim in missing if claim.slot is None]
        self._short.update(map(limit_key, refused))
        return refused

    def leave(self, claims: Iterable[Claim]) -> None:
        """Attempts are over, or did not begin: their slots are idle. To be followed by `give_back_wanted`."""
        self._used.update(limit_key(claim) for claim in claims if self._book.leave(claim))

    def abandon(self, claim: Claim) -> None:
        """An attempt is over whose claim was lost: if its slot is still ours, it may be wanted elsewhere."""
        self.leave([claim])
        self.taken.send()

    def offer(self) -> Offer:
        """Idle slots on which a claim may start executions at once, of keys that are in use and not
        contended: how many of each key and the highest of them, and the epoch. To be followed by `accept` or
        `doubt`."""
        if self._epoch is None or self._owed:
            return NO_OFFER
        idle = self._book.idle_keys
        keys = (key for key in self._used if key not in self._short and key in idle)
        offered = self._book.offer(islice(keys, _KEYS_PER_OFFER))
        if not offered:
            return NO_OFFER
        numbers = {f"{key[0]}:{key[1]}": len(slots) << 16 | max(slots) for key, slots in offered.items()}
        return Offer(msgspec.json.encode(numbers).decode(), self._epoch)

    def accept(self, claims: Iterable[Claim]) -> None:
        """The answer to an offer: those of the claims which have been started are on slots of it."""
        if self._book.has_offered:
            self._book.accept(claims)
            if self._owed:
                self.taken.send()

    def doubt(self, token: int) -> None:
        """The answer to an offer was lost: the slots are not idle until no execution has the claim's
        token."""
        if self._book.has_offered:
            self._book.doubt(token)
            self._lose_track()

    def recall(self, tokens: Iterable[int], claims: Sequence[Claim]) -> None:
        """It is known after all what claims without an answer did: `claims` is all that they took and we
        still have."""
        for token in tokens:
            self._book.recall(token, [claim for claim in claims if claim.token == token])
        self.taken.send()

    async def resolve_doubts(self) -> None:
        """Find out which slots of claims without an answer are idle. Under a new epoch: only then those
        claims are over."""
        tokens = self._book.tokens_in_doubt
        if not tokens or self._epoch is None:
            return
        rows = await self._database.fetch(*_OPEN_CLAIMS.given(cell=self._cell, tokens=tokens))
        for token in set(tokens).difference(row["claim_token"] for row in rows):
            self._book.resolve(token)

    async def still_ours(self) -> bool:
        """Whether what we know of our slots still holds: our node was not fenced off meanwhile."""
        row = await self._database.fetchrow("SELECT slots_epoch FROM nodes WHERE id = $1", self._node_id)
        if row is None or row["slots_epoch"] != self._epoch:
            self._lose_track()
        return self._epoch is not None

    async def adopt(self) -> None:
        """Begin a new epoch with the slots that the database knows as ours."""
        rows = await self._database.fetch(*_ADOPT.given(cell=self._cell, node_id=self._node_id))
        self._epoch = rows[0]["slots_epoch"] if rows else None
        self.unsure = False
        self._book.adopt(
            {((row["tenant_id"], row["key"]), row["slot"]) for row in rows if row["slot"] is not None}
        )

    async def give_back_wanted(self) -> None:
        """Let others have idle slots that they wait for."""
        if self._book.idle_keys:
            await self._give_back(await waiting_keys(self._database, self._cell))

    async def answer_waiting(self) -> None:
        """`give_back_wanted`, for executions that began to wait just now. Slots that a claim under way was
        offered are looked at again when the claim is answered."""
        self._owed = self._book.has_offered
        await self.give_back_wanted()

    async def give_back_unused(self) -> None:
        """Give back idle slots of keys that nothing ran under since this was last done."""
        unused = [key for key in self._book.idle_keys if key not in self._used]
        self._used.clear()
        self._short.clear()
        await self._give_back(unused)

    async def give_back_all(self) -> None:
        """Give back everything that is idle."""
        await self._give_back(list(self._book.idle_keys))

    async def look_after(self, refused: Sequence[Claim]) -> None:
        """These claims were put back to wait for a slot: wake them if one is free already."""
        wanted = _wanted(sorted(refused, key=limit_key))
        await wake(self._database, self._cell, wanted, refused=True)

    def _seat(self, claim: Claim) -> bool:
        """Give a claim a slot that we have, if it needs one. Says whether it has what it needs."""
        return has_its_slot(claim) or (self._epoch is not None and self._book.seat(claim))

    async def _lease(self, claims: Sequence[Claim]) -> None:
        """Take slots for these claims from the database, and create further rows when every existing slot is
        taken and the limit allows more. Whatever comes is theirs at once, before anything else can have
        it."""
        missing = sorted(claims, key=limit_key)  # stable: claims of one key keep their order
        lacking = [ask for ask in _wanted(missing) if not self._made_of(ask[:2])]
        while missing and self._epoch is not None:
            await self._make(lacking)
            await self._take_free([_generously(ask) for ask in _wanted(missing)])
            missing = [claim for claim in missing if not self._seat(claim) and self._may_make(claim)]
            lacking = _wanted(missing)
        self.taken.send()

    def _may_make(self, claim: Claim) -> bool:
        return self._made_of(limit_key(claim)) < (limit_of(claim).max_parallel or 0)

    def _made_of(self, key: LimitKey) -> int:
        """How many slots of a key there are at least; none if that is long ago."""
        number, made_at = self._made.get(key, (0, 0.0))
        return number if asyncio.get_running_loop().time() - made_at < _MADE_FOR_SECONDS else 0

    async def _take_free(self, asked: Sequence[Asked]) -> None:
        epoch = self._epoch
        try:
            rows = await self._database.fetch(
                *_LEASE.given(
                    cell=self._cell,
                    **arrays(("tenant_ids", "keys", "slot_counts", "numbers"), asked),
                    node_id=self._node_id,
                    slots_epoch=epoch,
                )
            )
        except BaseException:
            self._lose_track()
            raise
        if self._epoch != epoch:
            self._lose_track()  # the epoch changed meanwhile: it may or may not include these slots
            return
        for row in rows:
            self._book.add(((row["tenant_id"], row["key"]), row["slot"]))

    async def _give_back(self, keys: Iterable[LimitKey]) -> None:
        slots = self._book.withdraw(keys)
        if not slots:
            return
        rows_of = [(*key, slot) for key, slot in slots]
        try:
            rows = await self._database.fetch(
                *_FREE.given(
                    cell=self._cell,
                    **arrays(("tenant_ids", "keys", "slots"), rows_of),
                    node_id=self._node_id,
                    slots_epoch=self._epoch,
                )
            )
        except BaseException:
            self._lose_track()
            raise
        finally:
            self._book.forget(slots)
        if len(rows) < len(slots):
            self._lose_track()  # a new one has begun meanwhile, with some of these
        await self._wake_for((row["tenant_id"], row["key"]) for row in rows)

    def _lose_track(self) -> None:
        self._epoch = None
        self.unsure = True

    async def _make(self, lacking: Sequence[Asked]) -> None:
        """Slots are rows. Of each key there are a few, or about as many as were ever in use at once, not as
        many as are allowed."""
        if len(self._made) > _KEYS_REMEMBERED:
            self._made.clear()
        if lacking:
            made = {ask[:2]: self._made_next(ask) for ask in lacking}
            rows = [(*key, number) for key, number in sorted(made.items())]
            columns = arrays(("tenant_ids", "keys", "slot_counts"), rows)
            await self._database.execute(*_MAKE.given(cell=self._cell, **columns))
            now = asyncio.get_running_loop().time()
            self._made |= {key: (number, now) for key, number in made.items()}

    def _made_next(self, ask: Asked) -> int:
        """How many there will be: twice as many as before, and a few in any case, so that it is not done
        often."""
        tenant_id, key, most, wanted = ask
        return min(most, max(_MADE_AT_FIRST, 2 * self._made_of((tenant_id, key)) + wanted))

    async def _wake_for(self, freed: Iterable[LimitKey]) -> None:
        """Slots of these keys are free now, and that is committed."""
        self._unwoken.update(freed)
        await self.wake_owed()

    async def wake_owed(self) -> None:
        """Wake executions that wait for slots that were freed. Where that fails the keeper does it again."""
        unwoken, self._unwoken = self._unwoken, Counter()
        try:
            keys = [(*key, _ANY_SLOT, number) for key, number in unwoken.items()]
            await wake(self._database, self._cell, keys)
        except BaseException:
            self._unwoken.update(unwoken)
            self.taken.send()
            raise


def _wanted(claims: Sequence[Claim]) -> list[Asked]:
    """Of claims sorted by key: each key with its slots, and how many of the claims are its own."""
    wanted = []
    for (tenant_id, key), group in groupby(claims, limit_key):
        own = list(group)
        wanted.append((tenant_id, key, max(limit_of(claim).max_parallel or 0 for claim in own), len(own)))
    return wanted


def _generously(ask: Asked) -> Asked:
    """Up to twice as many as are wanted just now, of keys that may have many: more will be wanted soon, and
    the claim itself starts what finds an idle slot. If another worker wants
    them, they go back at once."""
    tenant_id, key, most, wanted = ask
    return tenant_id, key, most, wanted + min(wanted, int(most * _SPARE_SHARE))
