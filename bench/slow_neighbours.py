"""Neighbours whose calls are slow: who gets the places of workers that are full.

Ten tenants have more calls of one to three seconds than there are places, with equal weights and with weights
1, 1, 4 in turn, once as a backlog and once all due at one instant. What each *started* while all had
something left is held against its weight. An eleventh tenant has single executions all the while, half as
many as its weight would allow, every second one claimed ahead: its start lag.

A flooded host: one tenant has thousands of calls to one host. The lag of another tenant's calls, with and
without them: to another host while the flooded one hangs, and to the flooded host while that one is slow, for
one that hangs has no connection free. Beside these, without a limit, the lag of the tenant's own calls to
another host: a tenant that floods a host delays its own calls.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle, islice

import msgspec

from bench.herd import Lag, lag_of
from bench.installation import Installation
from bench.sink import sink
from tocsin.clock import system_now
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.domain.target import HttpTarget

TENANTS = 10
ENGINES = 2
PLACES = 200
WINDOW = 16
PER_TENANT = 900
DURATIONS = (1000, 3000)
"""Milliseconds that a call takes, at least and at most."""
EVERY = 200 * MILLISECOND
FLOOD = 6000
FLOOD_WINDOW = 10
HANGS, SLOW = (60_000, 60_000), (200, 600)
"""Milliseconds that a call of the flood takes, at least and at most. A connection of a slow host frees every
few milliseconds."""
MOST_LATER = 50
"""Milliseconds that the flood may add to the lag of others at p99."""


class Share(msgspec.Struct, frozen=True):
    """How a tenant's part of the starts differs from its part of the weights: 0.1 is a tenth more."""

    weight: int
    started: int
    off: float


class Slow(msgspec.Struct, frozen=True):
    """One run with slow calls: the tenants' shares, and the lag of the quiet one."""

    shares: list[Share]
    quiet: Lag

    @property
    def worst(self) -> float:
        """The largest difference of a share."""
        return max(abs(share.off) for share in self.shares)


async def main(place: Installation) -> int:
    """Measure and print everything. Returns the exit status."""
    tenants = await place.tenants(TENANTS + 1)
    good = True
    for words, weights in (("equal weights", (1,)), ("weights 1:1:4", (1, 1, 4))):
        for when in ("a backlog", "one instant"):
            slow = await run(
                place, tenants, list(islice(cycle(weights), TENANTS)), at_once=when == "one instant"
            )
            print(
                f"{words}, {when}: {sum(s.started for s in slow.shares):,} starts, worst share {slow.worst:.1%} off;"
                f" a quiet tenant's lag p50 {slow.quiet.p50:.0f} ms, p99 {slow.quiet.p99:.0f} ms",
                flush=True,
            )
            print("   ", ", ".join(f"{s.started} ({s.off:+.1%})" for s in slow.shares), flush=True)
            good &= slow.worst <= 0.1 and slow.quiet.p99 <= 250
    flooder, other, *_ = tenants
    for words, takes, caller, same_host in (
        ("another tenant, another host than the one that hangs", HANGS, other, False),
        ("another tenant, the same slow host", SLOW, other, True),
        ("the same tenant, another host than the one that hangs", HANGS, flooder, False),
    ):
        without, beside = [
            await beside_a_flood(place, flooder, caller, flood, takes, same_host=same_host)
            for flood in (0, FLOOD)
        ]
        print(
            f"{words}: lag p99 {without.p99:.1f} ms; beside {FLOOD:,} calls {beside.p99:.1f} ms", flush=True
        )
        good &= caller == flooder or beside.p99 - without.p99 <= MOST_LATER
    return 0 if good else 1


async def run(place: Installation, tenants: Sequence[int], weights: Sequence[int], *, at_once: bool) -> Slow:
    """Fill the workers with slow calls of ten tenants for a while."""
    *noisy, quiet = tenants
    await place.empty()
    for tenant, weight in zip(noisy, weights, strict=True):
        await place.database.execute("UPDATE tenants SET weight = $2 WHERE id = $1", tenant, weight)
    with sink() as port:
        due_at = system_now() + (10 * SECOND if at_once else 0)
        for tenant in noisy:
            await place.pause_queue(tenant)
            await add_slow(place, tenant, due_at, port)
        await place.settle_down()
        async with engines(place, host_concurrency=10 * PLACES):
            await place.resume_queue()
            begin = max(due_at, system_now())
            await wait_for(begin + 3 * SECOND)  # until the first calls, which began together, have ended
            await one_by_one(place, quiet, port, begin + WINDOW * SECOND)
            await wait_for(begin + WINDOW * SECOND)
            started = await starts(place, noisy, begin + WINDOW * SECOND)
        lags = await lags_of(place, quiet)
    total = sum(started)
    shares = [
        Share(weight, count, count / total / (weight / sum(weights)) - 1)
        for weight, count in zip(weights, started, strict=True)
    ]
    return Slow(shares, lag_of(lags))


async def beside_a_flood(
    place: Installation, flooder: int, caller: int, flood: int, takes: tuple[int, int], *, same_host: bool
) -> Lag:
    """The lag of one tenant's single calls while a host is flooded."""
    await place.empty()
    with sink() as other, sink() as flooded:
        chance = random.Random(flooder)
        await place.add_one_offs(
            flood, system_now(), lambda _: call(flooded, "flood", chance.randint(*takes)), tenant=flooder
        )
        async with engines(place):
            await asyncio.sleep(2)
            port = flooded if same_host else other
            await one_by_one(place, caller, port, system_now() + FLOOD_WINDOW * SECOND)
            await asyncio.sleep(0.5)
        return lag_of(await lags_of(place, caller))


@asynccontextmanager
async def engines(place: Installation, **settings: int) -> AsyncIterator[None]:
    """Workers that are killed afterwards: their calls are of no interest any more."""
    await place.start(
        "engine",
        ENGINES,
        concurrency=PLACES,
        allow_loopback="true",
        claim_ttl=60,
        **settings,
    )
    try:
        yield
    finally:
        while place.processes:
            await place.kill(0)


def call(port: int, key: str, milliseconds: int) -> HttpTarget:
    return HttpTarget(url=f"http://127.0.0.1:{port}/{key}/{milliseconds}", method="POST")


async def add_slow(place: Installation, tenant: int, due_at: Instant, port: int) -> None:
    """Calls of all durations, mixed: so that places become free one by one."""
    chance = random.Random(tenant)
    await place.add_one_offs(
        PER_TENANT, due_at, lambda _: call(port, "slow", chance.randint(*DURATIONS)), tenant=tenant
    )


async def one_by_one(place: Installation, tenant: int, port: int, until: Instant) -> None:
    """One quick call every so often: due at once, or a second later, so that it is claimed ahead."""
    number = 0
    while (now := system_now()) < until - 2 * SECOND:
        ahead = SECOND if number % 2 else 0
        await place.add_one_offs(1, now + ahead, call(port, "quick", 0), tenant=tenant)
        await place.database.execute("SELECT pg_notify('tocsin', 'ready')")
        number += 1
        await wait_for(now + EVERY)


async def wait_for(instant: Instant) -> None:
    while (left := instant - system_now()) > 0:
        await asyncio.sleep(left / SECOND)


async def starts(place: Installation, tenants: Sequence[int], until: Instant) -> list[int]:
    """How many executions of each tenant began until then."""
    rows = await place.database.fetch(
        """SELECT tenant_id, count(*) AS n FROM (
               SELECT tenant_id, started_at FROM history UNION ALL SELECT tenant_id, started_at FROM executions
           ) AS e WHERE started_at <= $1 GROUP BY tenant_id""",
        until,
    )
    counted = {row["tenant_id"]: row["n"] for row in rows}
    return [counted.get(tenant, 0) for tenant in tenants]


async def lags_of(place: Installation, tenant: int) -> list[float]:
    """Milliseconds from due to started, of all quick calls of a tenant; of what has not started, until
    now."""
    rows = await place.database.fetch(
        """SELECT (extract(epoch FROM coalesce(e.started_at, tocsin_now()) - e.due_at) * 1000)::float8 AS lag FROM (
               SELECT cell, job_id, started_at, due_at FROM history
               UNION ALL SELECT cell, job_id, started_at, due_at FROM executions
           ) AS e JOIN jobs j ON j.cell = e.cell AND j.id = e.job_id
           WHERE j.tenant_id = $1 AND j.target ->> 'url' LIKE '%/quick/%'""",
        tenant,
    )
    return [row["lag"] for row in rows]
