"""Noisy neighbours: what a flood of one tenant does to the others.

    .venv/bin/python -m bench.neighbours [--flood 200000] [--slow]

Shares: three tenants with weights 1, 1 and 4 all have a backlog; what each got is counted while all three
still have one.

Quiet ones: the first tenant floods the fleet; the two others have one execution due every 50 ms all the
while. Their start lag, by the database's own record.

With `--slow` their calls take seconds, and the workers are full: see `bench.slow_neighbours`.
"""

import argparse
import asyncio

import uvloop

from bench import slow_neighbours
from bench.herd import Lag, lag_of_history
from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.domain.instant import MILLISECOND, SECOND

WEIGHTS = {"noisy": 1, "quiet": 1, "heavy": 4}
EVERY = 50 * MILLISECOND
ENGINES = 2


async def main(flood: int, *, slow: bool) -> int:
    async with installation() as place:
        if slow:
            return await slow_neighbours.main(place)
        tenants = await make_tenants(place)
        got = await shares(place, tenants, flood)
        due = {name: weight / sum(WEIGHTS.values()) for name, weight in WEIGHTS.items()}
        worst = 0.0
        for name, share in got.items():
            off = share / due[name] - 1
            worst = max(worst, abs(off))
            print(
                f"{name:<6} weight {WEIGHTS[name]}: {share:.1%} of the throughput, {off:+.1%} from its share"
            )
        lag = await quiet_lag(place, tenants, flood)
        print(
            f"while one tenant floods {flood:,}: start lag of the others p50 {lag.p50:.1f} ms,"
            f" p99 {lag.p99:.1f} ms, max {lag.max:.1f} ms"
        )
    return 0 if worst <= 0.15 and lag.p99 < 1000 else 1


async def make_tenants(place: Installation) -> dict[str, int]:
    """Names to ids."""
    made = {}
    for name, weight in WEIGHTS.items():
        row = await place.database.one(
            "INSERT INTO tenants (name, weight) VALUES ($1, $2) RETURNING id", name, weight
        )
        made[name] = int(row["id"])
    return made


async def shares(place: Installation, tenants: dict[str, int], flood: int) -> dict[str, float]:
    """Each tenant's part of what ran until the first of them had nothing left."""
    await place.empty()
    total = sum(WEIGHTS.values())
    for name, tenant in tenants.items():
        await place.pause_queue(tenant)
        await place.add_one_offs(max(1000, flood * WEIGHTS[name] // total), system_now(), tenant=tenant)
    await place.settle_down()
    await place.start("engine", ENGINES)
    await place.resume_queue()
    await place.wait_until_done()
    await place.stop()
    rows = await place.database.fetch(
        """WITH ends AS (SELECT min(last) AS until FROM (SELECT max(started_at) AS last FROM history GROUP BY tenant_id) AS t)
           SELECT tenant_id, count(*)::float8 AS n FROM history, ends WHERE started_at <= ends.until GROUP BY tenant_id"""
    )
    ran = {row["tenant_id"]: row["n"] for row in rows}
    return {name: ran[tenant] / sum(ran.values()) for name, tenant in tenants.items()}


async def quiet_lag(place: Installation, tenants: dict[str, int], flood: int) -> Lag:
    """Lag of tenants that have a little to do while another has everything."""
    await place.empty()
    noisy, *others = tenants.values()
    await place.pause_queue(noisy)
    await place.add_one_offs(flood, system_now(), tenant=noisy)
    await place.settle_down()
    await place.start("engine", ENGINES)
    start = system_now() + SECOND
    # About as many as there is time for at ten thousand a second; what comes after the flood is left out
    # below.
    for n in range(flood // 10_000 * SECOND // EVERY):
        await place.add_one_offs(1, start + n * EVERY, tenant=others[n % len(others)])
    await place.resume_queue()
    while system_now() < start:
        await asyncio.sleep(0.01)
    await place.wait_until_done()
    await place.stop()
    await place.database.execute(
        """DELETE FROM history WHERE tenant_id = $1
               OR due_at > (SELECT max(started_at) FROM history WHERE tenant_id = $1)
               OR due_at < (SELECT min(started_at) FROM history WHERE tenant_id = $1)""",
        noisy,
    )
    return await lag_of_history(place)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.neighbours", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--flood", type=int, default=200_000, help="executions of the noisy tenant")
    parser.add_argument("--slow", action="store_true", help="calls of one to three seconds, and full workers")
    given = parser.parse_args()
    raise SystemExit(uvloop.run(main(given.flood, slow=given.slow)))
