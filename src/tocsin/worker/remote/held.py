"""What a gateway has handed out, or was asked about, and is not settled as far as it knows.

It is a memory, not the truth: another gateway may have settled any of it. The keeper asks the database now
and then, and at once when it hears that a slot of ours was settled elsewhere; until then the slot counts as
used.
"""

from collections.abc import Iterable, Iterator

from tocsin.domain.instant import Instant, Span, has_passed
from tocsin.queue.claiming.holding import Ref, ref_of
from tocsin.queue.claims import Claim


class HeldClaims:
    """Claims by their names."""

    def __init__(self) -> None:
        self._claims: dict[Ref, Claim] = {}
        self._heard_at: dict[Ref, Instant] = {}
        self._foreign: set[Ref] = set()
        """Those that another gateway handed out."""

    def __iter__(self) -> Iterator[Claim]:
        return iter(list(self._claims.values()))

    def __len__(self) -> int:
        return len(self._claims)

    def get(self, ref: Ref) -> Claim | None:
        """A claim that is known here."""
        return self._claims.get(ref)

    def heard(self, ref: Ref, now: Instant) -> None:
        """A worker said that it has a claim that is known here."""
        self._heard_at[ref] = now

    def foreign(self, claim: Claim) -> bool:
        """Whether another gateway handed it out, and has its slot."""
        return ref_of(claim) in self._foreign

    def add_foreign(self, claims: Iterable[Claim], now: Instant) -> None:
        """A worker named these, and another gateway had handed them out."""
        claims = list(claims)
        self.add(claims, now)
        self._foreign.update(map(ref_of, claims))

    def add(self, claims: Iterable[Claim], now: Instant) -> None:
        """These were handed out, or a worker said that it has them."""
        for claim in claims:
            ref = ref_of(claim)
            self._claims[ref] = claim
            self._heard_at[ref] = now

    def known_again(self, claims: Iterable[Claim]) -> list[Claim]:
        """Claims that were read anew, each as the one that is known here, if it is: that one has the slot."""
        known = []
        for claim in claims:
            before = self._claims.get(ref_of(claim), claim)
            before.started_at, before.fired_at = claim.started_at, claim.fired_at
            before.deadline_at = claim.deadline_at
            known.append(before)
        return known

    def drop(self, claims: Iterable[Claim]) -> None:
        """These are over."""
        for claim in claims:
            ref = ref_of(claim)
            if self._claims.get(ref) is claim:
                del self._claims[ref], self._heard_at[ref]
                self._foreign.discard(ref)

    def unheard(self, span: Span, now: Instant) -> list[Claim]:
        """Claims that no worker has mentioned here for this long."""
        return [claim for ref, claim in self._claims.items() if has_passed(span, self._heard_at[ref], now)]
