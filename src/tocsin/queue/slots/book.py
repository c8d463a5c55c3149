"""Which slots of limit keys a worker has, and what each of them is used for: kept in memory, without a word
to the database.

A slot is idle, or busy with an execution, or offered to a claim whose answer has not come, or in doubt
because that answer was lost, or leaving because it is being given back. It is one of these at a time;
whatever is none of them is not ours.
"""

from collections.abc import Collection, Iterable

from tocsin.domain.policy import Limit
from tocsin.queue.claims import Claim
from tocsin.queue.work import NO_LIMIT

LimitKey = tuple[int, str]
"""Tenant and key."""
Slot = tuple[LimitKey, int]


class SlotBook:
    """The slots of one worker."""

    def __init__(self) -> None:
        self._idle: dict[LimitKey, list[int]] = {}
        self._busy: dict[Slot, Claim] = {}
        self._offered: dict[LimitKey, list[int]] = {}
        self._doubtful: dict[int, set[Slot]] = {}
        """By the token of the claim."""
        self._leaving: set[Slot] = set()

    @property
    def empty(self) -> bool:
        """Whether we have none that will be of use again."""
        return not (self._idle or self._busy or self._offered or self._doubtful)

    @property
    def idle_keys(self) -> Collection[LimitKey]:
        """Keys with idle slots."""
        return self._idle.keys()

    @property
    def has_offered(self) -> bool:
        """Whether a claim on its way may use some of ours."""
        return bool(self._offered)

    @property
    def tokens_in_doubt(self) -> list[int]:
        """Of claims that may use some of ours and whose answer was lost."""
        return list(self._doubtful)

    def add(self, slot: Slot) -> None:
        """We have one more, and it is idle."""
        self._idle.setdefault(slot[0], []).append(slot[1])

    def seat(self, claim: Claim) -> bool:
        """Let a claim use an idle slot, one within its own limit. Says whether there was one."""
        key, highest = limit_key(claim), limit_of(claim).max_parallel
        idle = self._idle.get(key)
        if not idle or highest is None:
            return False
        if idle[-1] > highest:  # the number has been lowered
            idle.sort(reverse=True)
        if idle[-1] > highest:
            return False
        self._use((key, idle.pop()), claim)
        if not idle:
            del self._idle[key]
        return True

    def leave(self, claim: Claim) -> bool:
        """The slot that a claim used is idle. Says whether it used one. Not if we lost that slot meanwhile,
        even if we have got it again since: then it is another claim's."""
        if claim.slot is None:
            return False
        used, claim.slot = (limit_key(claim), claim.slot), None
        if self._busy.get(used) is not claim:
            return False
        del self._busy[used]
        self.add(used)
        return True

    def offer(self, keys: Iterable[LimitKey]) -> dict[LimitKey, list[int]]:
        """Offer the idle slots of these keys to a claim. To be followed by `accept` or `doubt`."""
        self._offered = {key: self._idle.pop(key) for key in keys}
        return self._offered

    def accept(self, claims: Iterable[Claim]) -> None:
        """The answer to an offer: those of the claims which have been started are on slots of it; the others
        are idle."""
        offered, self._offered = self._offered, {}
        self._share_out(offered, claims)

    def doubt(self, token: int) -> None:
        """The answer to an offer was lost: its slots are out of use until nothing has the claim's token any
        more."""
        self._doubtful[token] = _flat(self._offered)
        self._offered = {}

    def recall(self, token: int, claims: Iterable[Claim]) -> None:
        """The answer to an offer was found after all."""
        doubtful: dict[LimitKey, list[int]] = {}
        for key, slot in self._doubtful.pop(token, ()):
            doubtful.setdefault(key, []).append(slot)
        self._share_out(doubtful, claims)

    def resolve(self, token: int) -> None:
        """Nothing has the claim's token any more: the slots that were offered to it are idle."""
        for slot in self._doubtful.pop(token, ()):
            self.add(slot)

    def withdraw(self, keys: Iterable[LimitKey]) -> list[Slot]:
        """Stop using the idle slots of these keys, to give them back. To be followed by `forget`."""
        leaving = [(key, slot) for key in keys for slot in self._idle.pop(key, ())]
        self._leaving.update(leaving)
        return leaving

    def forget(self, slots: Iterable[Slot]) -> None:
        """These slots were given back, or the answer was lost: then `adopt` finds those that are still
        ours."""
        self._leaving.difference_update(slots)

    def adopt(self, ours: set[Slot]) -> None:
        """We have these and no others. Whatever is not known to be used for something is idle."""
        for lost in [slot for slot in self._busy if slot not in ours]:
            self._busy.pop(lost).slot = None
        self._offered = {key: [s for s in slots if (key, s) in ours] for key, slots in self._offered.items()}
        self._doubtful = {token: slots & ours for token, slots in self._doubtful.items()}
        self._idle = {}
        for slot in ours.difference(
            self._busy, self._leaving, _flat(self._offered), *self._doubtful.values()
        ):
            self.add(slot)

    def _share_out(self, offered: dict[LimitKey, list[int]], claims: Iterable[Claim]) -> None:
        for claim in claims:
            if claim.started_at is None or claim.limit_key is None:
                continue
            key = limit_key(claim)
            if left := offered.get(key):  # else it is ours no longer
                self._use((key, left.pop()), claim)
        for key, left in offered.items():
            if left:
                self._idle.setdefault(key, []).extend(left)

    def _use(self, slot: Slot, claim: Claim) -> None:
        claim.slot = slot[1]
        self._busy[slot] = claim


def limit_of(claim: Claim) -> Limit:
    """The limit in a claim's policies."""
    return NO_LIMIT if claim.limit_key is None else claim.work.limit


def has_its_slot(claim: Claim) -> bool:
    """Whether a claim has the slot that it needs, if it needs one."""
    return limit_of(claim).max_parallel is None or claim.slot is not None


def limit_key(claim: Claim) -> LimitKey:
    """Under which key a claim needs a slot."""
    return claim.tenant_id, claim.limit_key or ""


def _flat(slots: dict[LimitKey, list[int]]) -> set[Slot]:
    return {(key, slot) for key, numbers in slots.items() for slot in numbers}
