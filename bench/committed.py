"""(k) From commit to start: how soon a task runs once the application's transaction that enqueued it commits.

    .venv/bin/python -m bench.committed [--count 200] [--runs 3]

Writers of a bound login insert an order and enqueue its task, hold their transaction open for a while, and
commit; one remote worker is free meanwhile. The time is that from before the COMMIT is sent to the function's
own note. How long the transaction was open must not matter.
"""

import argparse
import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import asyncpg
import msgspec
import uvloop

from bench.enqueue import LOGIN, ORDER, bound_login
from bench.herd import lag_of
from bench.installation import Installation, installation
from bench.peers.record import payload
from bench.task_workers import gateway
from tocsin.clock import system_now
from tocsin.domain.instant import MILLISECOND

OPEN_FOR = (0.0, 8.0)
"""Seconds that the transactions are open."""
WRITERS = 8
_STEP = timedelta(milliseconds=1)
_TASK = "SELECT tocsin.enqueue('bench.noop', $1::text::jsonb, run_at => $2)"


async def lags(place: Installation, count: int, open_for: float) -> list[float]:
    """Milliseconds from the commit to the function's first line."""
    committed: dict[float, float] = {}
    async with gateway(place) as workers, bound_login(place):
        await workers.serve()
        # Whole milliseconds in the past, each once: by it the function's note is known again.
        latest = datetime.now(UTC).replace(microsecond=0)
        due = iter(latest - number * _STEP for number in range(count))
        connections = [await asyncpg.connect(place.url) for _ in range(WRITERS)]
        try:
            await asyncio.gather(*(_write(one, due, open_for, committed) for one in connections))
        finally:
            for connection in connections:
                await connection.close()
        await place.wait_until_done()
        await workers.stop()
        began = {round(one.due): one.start for one in workers.starts()}
    assert len(began) == count, f"{len(began):,} functions ran instead of {count:,}"
    return [began[round(at)] - commit for at, commit in committed.items()]


async def _write(
    connection: "asyncpg.Connection[asyncpg.Record]",
    due: Iterator[datetime],
    open_for: float,
    committed: dict[float, float],
) -> None:
    await connection.execute(f"SET SESSION AUTHORIZATION {LOGIN}")
    text = msgspec.json.encode(payload(0.0)).decode()
    for run_at in due:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(ORDER, "17")
        await connection.execute(_TASK, text, run_at)
        await asyncio.sleep(open_for)
        committed[run_at.timestamp() * 1000] = system_now() / MILLISECOND
        await transaction.commit()


async def main(count: int, runs: int) -> None:
    async with installation() as place:
        for _ in range(runs):
            for open_for in OPEN_FOR:
                found = lag_of(await lags(place, count, open_for))
                print(f"open for {open_for:g} s: {found}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.committed", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="transactions")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.count, options.runs))
