"""(c) Herd: executions due at one instant, known ahead. Start lag, by the database's own record."""

import msgspec

from bench.installation import Installation
from tocsin.clock import system_now
from tocsin.domain.instant import SECOND


class Lag(msgspec.Struct, frozen=True):
    """Milliseconds from due to started."""

    first: float
    p50: float
    p99: float
    max: float


async def herd(place: Installation, count: int, engines: int, *, ahead: float = 6.0) -> Lag:
    """All due at one instant `ahead` seconds after the last of them was created."""
    await place.empty()
    await place.add_one_offs(count, system_now() + 3600 * SECOND)
    await place.settle_down()
    await place.start("engine", engines)
    instant = system_now() + round(ahead * SECOND)
    await place.database.execute("UPDATE executions SET due_at = $1, run_at = $1", instant)
    await place.wait_until_done()
    await place.stop()
    return await lag_of_history(place)


async def lag_of_history(place: Installation) -> Lag:
    """Start lag of everything in history."""
    row = await place.database.one(
        """SELECT min(lag) AS first, percentile_cont(0.5) WITHIN GROUP (ORDER BY lag) AS p50,
                  percentile_cont(0.99) WITHIN GROUP (ORDER BY lag) AS p99, max(lag) AS max
           FROM (SELECT extract(epoch FROM started_at - due_at)::float8 * 1000 AS lag FROM history) AS h"""
    )
    return Lag(row["first"], row["p50"], row["p99"], row["max"])
