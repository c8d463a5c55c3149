"""Claims: taking executions, keeping them, giving them back.

A claim is a worker's time-bound right to an execution: a random token that only its holder knows, and a
deadline on the database's clock. A statement that presents a token which is no longer on the row changes
nothing, and the returned rows say so; a lost claim is a value, not an exception.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from tocsin.db.pool import Database
from tocsin.db.rows import structs
from tocsin.db.statements import named
from tocsin.domain.instant import LATEST, Instant
from tocsin.queue.allotment import Allotment
from tocsin.queue.claiming.directory import lane_columns
from tocsin.queue.claiming.low_marks import LowMarks
from tocsin.queue.claims import ON_TIME, Claim, LateReasons, in_lock_order, keys_of, mark_extended, without
from tocsin.queue.holder import Holder
from tocsin.queue.lanes import Lane
from tocsin.queue.overtaken import unless_overtaken
from tocsin.queue.slots.slots import NO_OFFER, Slots

_CLAIM = named(__package__, "claim")
_RECALL = named(__package__, "recall")
_EXTEND = named(__package__, "extend")
_RELEASE = named(__package__, "release")
_lane, _run_at = attrgetter(*Lane._fields), attrgetter("run_at")


class Claiming:
    """Takes claims for one holder."""

    def __init__(
        self,
        database: Database,
        cell: int,
        holder: Holder,
        ttl: timedelta,
        low_marks: LowMarks,
        slots: Slots,
        *,
        offers: bool = True,
    ) -> None:
        """`offers`: whether claims are offered idle slots. Only one claim at a time may be."""
        self._database = database
        self._cell = cell
        self._holder = holder
        self._ttl = ttl
        self._low_marks = low_marks
        self._slots = slots
        self._offers = offers

    async def claim(
        self,
        allotments: Sequence[Allotment],
        until: Instant,
        token: int,
        now: Instant,
        farther: Mapping[Lane, Instant] = MappingProxyType({}),
        late_for: LateReasons = ON_TIME,
    ) -> list[Claim]:
        """Take what is due until `until`, in some lanes `farther`. Executions that are due already come back
        started. Late ones keep the reason."""
        offer = self._slots.offer() if self._offers and self._slots.has_idle else NO_OFFER
        statement = _CLAIM.given(
            cell=self._cell,
            **lane_columns([allotment.lane for allotment in allotments]),
            takes=[allotment.take for allotment in allotments],
            low_marks=[self._low_marks.of(allotment.lane, now) for allotment in allotments],
            untils=[farther.get(allotment.lane, until) for allotment in allotments],
            token=token,
            node_id=self._holder.node_id,
            worker_id=self._holder.worker_id,
            ttl=self._ttl,
            offer=offer.numbers,
            slots_epoch=offer.epoch,
            late_for=late_for.common,
            late_tenants=late_for.tenants,
            late_reasons=late_for.reasons,
        )
        try:
            rows = await unless_overtaken(lambda: self._database.fetch(*statement))
        except BaseException:
            if offer is not NO_OFFER:
                self._slots.doubt(token)
            raise
        claims = structs(Claim, rows)
        if offer is not NO_OFFER:
            self._slots.accept([claim for claim in claims if claim.limit_key is not None])
        self._raise_low_marks(allotments, claims)
        return claims

    async def recall(self, tokens: Sequence[int]) -> tuple[list[Claim], list[Claim]]:
        """The executions that claims without an answer took and still hold. Returns them, and apart from them
        those that were asked to stop.

        A claim is one transaction: if anything of it is found, all of it is, and so is which of the offered
        slots it uses.
        """
        claims = structs(Claim, await self._database.fetch(*_RECALL.given(cell=self._cell, tokens=tokens)))
        if not claims:
            return [], []
        lost, stopped = await self.extend(claims)
        kept = without(claims, lost)
        self._slots.recall({claim.token for claim in claims}, kept)
        return without(kept, stopped), stopped

    async def extend(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Heartbeat. Returns the claims that were lost and those whose cancellation was asked for."""
        claims = in_lock_order(claims)
        rows = await self._database.fetch(*_EXTEND.given(cell=self._cell, **keys_of(claims), ttl=self._ttl))
        return mark_extended(claims, rows)

    async def release(self, claims: Sequence[Claim]) -> int:
        """Give back claims that were not started. Returns how many were still held."""
        claims = in_lock_order(claims)
        return len(await self._database.fetch(*_RELEASE.given(cell=self._cell, **keys_of(claims))))

    def _raise_low_marks(self, allotments: Sequence[Allotment], claims: Sequence[Claim]) -> None:
        """Rows of a lane come in no particular order; the least run time of a batch is the lane's new low
        mark."""
        if len(allotments) == 1 and claims:
            self._low_marks.raise_to(allotments[0].lane, min([claim.run_at for claim in claims]))
            return
        least: dict[tuple[Any, ...], Instant] = {}
        for lane, run_at in zip(map(_lane, claims), map(_run_at, claims), strict=True):
            if run_at < least.get(lane, LATEST):
                least[lane] = run_at
        for lane, run_at in least.items():
            self._low_marks.raise_to(Lane(*lane), run_at)
