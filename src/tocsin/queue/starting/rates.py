"""The rates of limit keys: a cap on the starts of a key per period, over the whole fleet.

A rate is one instant per key: where the next start may be. A worker reserves the instants for all of its
claims in one statement. A claim whose instant is yet to come is put back until then; asked again, it has its
instant and is let through.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from tocsin.db.pool import Database, Session
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.instant import Instant, parse_span
from tocsin.domain.policy import Limit
from tocsin.domain.waits import Reason
from tocsin.queue.claims import Claim, without
from tocsin.queue.slots.book import limit_of
from tocsin.queue.starting.parking import park

_RESERVE = named(__package__, "reserve_rate")


class Rates:
    """Keeps the rates of one cell's limit keys."""

    def __init__(self, database: Database, cell: int) -> None:
        self._database = database
        self._cell = cell

    async def keep(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Reserve an instant in its key's rate for each claim that has none. Returns the claims whose instant
        has come."""
        asking = [claim for claim in claims if _asks_for_rate(claim)]
        if not asking:
            return list(claims)
        async with self._database.transaction() as session:
            later = await self._reserve(session, asking, now)
            await park(session, self._cell, later, "rate")
        for claim in asking:
            claim.waits_for = "rate"  # asked again, it has its instant
        return without(claims, [claim for claim, _ in later])

    async def _reserve(
        self, session: Session, asking: Sequence[Claim], now: Instant
    ) -> list[tuple[Claim, Instant]]:
        """Returns the claims whose instant is yet to come, and when that is."""
        gaps = {(claim.tenant_id, claim.limit_key): _gap(limit_of(claim)) for claim in asking}
        numbers = Counter((claim.tenant_id, claim.limit_key) for claim in asking)
        wanted = [(*key, timedelta(microseconds=gap), numbers[key]) for key, gap in gaps.items()]
        columns = arrays(("tenant_ids", "keys", "gaps", "numbers"), wanted)
        rows = await session.fetch(*_RESERVE.given(cell=self._cell, **columns))
        # A row says where the rate stands after our instants; the first of them lies that many gaps before.
        instant = {}
        for row in rows:
            key = (row["tenant_id"], row["key"])
            instant[key] = row["next_at"] - numbers[key] * gaps[key]
        later: list[tuple[Claim, Instant]] = []
        for claim in asking:
            key = (claim.tenant_id, claim.limit_key)
            if instant[key] > now:
                later.append((claim, instant[key]))
            instant[key] += gaps[key]
        return later


def _asks_for_rate(claim: Claim) -> bool:
    """Whether it has yet to get an instant in its key's rate."""
    return claim.waits_for in (None, Reason.VERSION, Reason.TASK) and limit_of(claim).rate is not None


def _gap(limit: Limit) -> int:
    """Microseconds between two starts of a key."""
    return parse_span(limit.per, "limit.per") // (limit.rate or 1)
