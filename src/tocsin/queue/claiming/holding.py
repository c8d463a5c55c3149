"""Claims as remote workers name them: by execution and token, whichever node handed them out.

A gateway that did not claim an execution finds what it needs to extend or settle it by its token; that is all
the proof that any statement asks for. So a gateway may die, and its workers go on with another.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from tocsin.db.pool import Database
from tocsin.db.rows import structs
from tocsin.db.statements import named
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.queue.claims import Claim, in_lock_order, keys_of, mark_extended

GRACE: Final[Span] = 30 * SECOND
"""How long after its timeout an attempt may still be extended: for its worker to stop it, and to say so."""
_HELD = named(__package__, "held")
_PROLONG = named(__package__, "prolong")
_STILL_HELD = named(__package__, "still_held")
_SETTLED = named("tocsin.queue.settling", "settled")


class Ref(NamedTuple):
    """A claim by its name."""

    key: ExecutionKey
    token: int


class Beat(NamedTuple):
    """A claim whose worker was heard: the worker's lease, and how far the attempt says it is, as JSON
    text."""

    claim: Claim
    lease: Span
    progress: str | None = None


class Holding:
    """Claims of one cell that remote workers hold."""

    def __init__(self, database: Database, cell: int) -> None:
        self._database = database
        self._cell = cell

    async def find(self, refs: Sequence[Ref]) -> list[Claim]:
        """Those of the claims that are still held."""
        if not refs:
            return []
        rows = await self._database.fetch(*_HELD.given(cell=self._cell, **_columns(refs)))
        return structs(Claim, rows)

    async def settled(self, told: Mapping[Ref, str | None]) -> set[Ref]:
        """Those of the claims whose settlement is in history: in the state that was told, if one was."""
        if not told:
            return set()
        refs = list(told)
        rows = await self._database.fetch(
            *_SETTLED.given(cell=self._cell, **_columns(refs), states=list(told.values()))
        )
        return {refs[row["place"]] for row in rows}

    async def prolong(self, beats: Sequence[Beat]) -> tuple[list[Claim], list[Claim]]:
        """Heartbeat. Returns the claims that were lost and those whose cancellation was asked for."""
        by_claim = {id(beat.claim): beat for beat in beats}
        claims = in_lock_order(beat.claim for beat in beats)
        ordered = [by_claim[id(claim)] for claim in claims]
        rows = await self._database.fetch(
            *_PROLONG.given(
                cell=self._cell,
                **keys_of(claims),
                leases=[timedelta(microseconds=beat.lease) for beat in ordered],
                latest=[latest(claim) for claim in claims],
                progress=[beat.progress for beat in ordered],
            )
        )
        return mark_extended(claims, rows)

    async def still_held(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Returns the claims that are held no longer, and those whose cancellation was asked for."""
        if not claims:
            return [], []
        rows = await self._database.fetch(*_STILL_HELD.given(cell=self._cell, **keys_of(claims)))
        held = {row["place"]: row["cancel_requested"] for row in rows}
        gone = [claim for place, claim in enumerate(claims) if place not in held]
        return gone, [claim for place, claim in enumerate(claims) if held.get(place)]


def latest(claim: Claim) -> Instant:
    """Until when at most a started attempt is extended."""
    started_at = claim.run_at if claim.started_at is None else claim.started_at
    return started_at + claim.work.timeout + GRACE


def ref_of(claim: Claim) -> Ref:
    """How a worker names a claim."""
    return Ref(claim.key, claim.token)


def _columns(refs: Iterable[Ref]) -> dict[str, list[object]]:
    refs = list(refs)
    return {
        "job_ids": [ref.key.job_id for ref in refs],
        "fire_ats": [ref.key.fire_at for ref in refs],
        "tokens": [ref.token for ref in refs],
    }
