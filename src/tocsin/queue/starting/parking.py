"""Putting back claims that may not start yet."""

from collections.abc import Sequence
from typing import Final

from tocsin.db.pool import Session
from tocsin.db.statements import named
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.queue.claims import Claim, in_lock_order, keys_of

LOOK_AGAIN: Final[Span] = 30 * SECOND
"""When nothing wakes an execution that waits for a slot or its turn, it is tried again after this long."""
_PARK = named(__package__, "park")


async def park(session: Session, cell: int, waiting: Sequence[tuple[Claim, Instant]], reason: str) -> None:
    """Put claims back into the queue until an instant, or until another transaction brings that forward."""
    if not waiting:
        return
    run_at = {id(claim): at for claim, at in waiting}
    claims = in_lock_order(claim for claim, _ in waiting)
    times = [run_at[id(claim)] for claim in claims]
    await session.execute(*_PARK.given(cell=cell, **keys_of(claims), run_ats=times, reason=reason))
