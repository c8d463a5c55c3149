"""(k) Enqueue: how fast calls of tasks come in, by the SDK and in transactions of an application.

    .venv/bin/python -m bench.enqueue [--count 50000] [--runs 3]

The SDK: one process of Python, `enqueue_many` in one thread and `enqueue` in eight, beside jobs in bulk as
`bench.create` sends them. Transactions: eight writers of a bound login that insert an order each, without a
task and with one, quietly and with the notice that wakes workers.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import uvloop

from bench.create import KEY, send_batches
from bench.installation import Installation, installation
from bench.peers.record import payload
from bench.report import Spread
from bench.task_workers import gateway
from bench.tasks_app import app, noop

WRITERS = 8
SINGLES = 20
"""One call by itself for this many in bulk."""
LOGIN = "bench_app"
MANY, ONE, BULK = "`enqueue_many`", f"`enqueue`, {WRITERS} threads", "jobs in bulk over HTTP"
ORDER = "INSERT INTO tocsin.bench_orders (customer) VALUES ($1)"
TASK = (
    "SELECT tocsin.enqueue('bench.noop', $1::text::jsonb, run_at => now() + interval '1 hour', notify => {})"
)
ALONE, QUIET, NOTICED = "the order alone", "with its task, quiet", "with its task, and a notice"
TRANSACTIONS = {ALONE: None, QUIET: TASK.format("false"), NOTICED: TASK.format("true")}
_SET_UP = f"""
CREATE ROLE {LOGIN} LOGIN;
CREATE TABLE tocsin.bench_orders (id bigserial PRIMARY KEY, customer text);
GRANT INSERT ON tocsin.bench_orders TO {LOGIN};
GRANT USAGE ON SEQUENCE tocsin.bench_orders_id_seq TO {LOGIN};
GRANT USAGE ON SCHEMA tocsin TO {LOGIN};
GRANT EXECUTE ON FUNCTION tocsin.enqueue, tocsin.enqueue_many TO {LOGIN};
INSERT INTO tenant_logins (login, tenant_id) VALUES ('{LOGIN}', 1)
"""
_CLEAR_UP = (
    f"DELETE FROM tenant_logins; DROP TABLE tocsin.bench_orders; DROP OWNED BY {LOGIN}; DROP ROLE {LOGIN}"
)


async def by_sdk(place: Installation, count: int) -> dict[str, float]:
    """Calls per second by the SDK, and jobs per second in bulk."""
    rates: dict[str, float] = {}
    async with gateway(place) as workers:
        app.reach(workers.url, KEY)
        later, text = noop.having(delay="1h"), str(payload(0.0)["text"])

        async def timed(name: str, number: int, work: Awaitable[object]) -> None:
            began = time.perf_counter()
            await work
            rates[name] = number / (time.perf_counter() - began)
            found = await place.count("executions")
            assert found == number, f"{name}: {found:,} executions instead of {number:,}"
            await place.empty()

        def some() -> None:
            for _ in range(each):
                later.enqueue(0.0, text)

        each = max(1, count // SINGLES // WRITERS)
        calls = (later.args(0.0, text) for _ in range(count))
        await timed(MANY, count, asyncio.to_thread(later.enqueue_many, calls))
        await timed(BULK, count, send_batches(workers.port, count))
        await timed(ONE, each * WRITERS, asyncio.gather(*(asyncio.to_thread(some) for _ in range(WRITERS))))
    return rates


async def in_transactions(place: Installation, count: int) -> dict[str, float]:
    """Transactions per second of eight writers: an order, and an order with its task."""
    await place.empty()
    rates = {}
    async with bound_login(place):
        for name, task in TRANSACTIONS.items():
            rates[name] = await _write_orders(place, count, task)
            found = await place.count("executions")
            assert found == (0 if task is None else count), f"{name}: {found:,} executions"
            await place.empty()
    return rates


@asynccontextmanager
async def bound_login(place: Installation) -> AsyncIterator[None]:
    """An application's login, and its table of orders."""
    await place.database.execute(_SET_UP)
    try:
        yield
    finally:
        await place.database.execute(_CLEAR_UP)


async def _write_orders(place: Installation, count: int, task: str | None) -> float:
    left = iter(range(count))
    text = msgspec.json.encode(payload(0.0)).decode()
    connections = [await asyncpg.connect(place.url) for _ in range(WRITERS)]

    async def write(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        for number in left:
            async with connection.transaction():
                await connection.execute(ORDER, str(number))
                if task is not None:
                    await connection.execute(task, text)

    try:
        for connection in connections:
            await connection.execute(f"SET SESSION AUTHORIZATION {LOGIN}")
        began = time.perf_counter()
        await asyncio.gather(*map(write, connections))
        return count / (time.perf_counter() - began)
    finally:
        for connection in connections:
            await connection.close()


async def main(count: int, runs: int) -> None:
    async with installation() as place:
        found: dict[str, list[float]] = {}
        for _ in range(runs):
            rates = {**await by_sdk(place, count), **await in_transactions(place, count // SINGLES)}
            for name, rate in rates.items():
                found.setdefault(name, []).append(rate)
    for name, values in found.items():
        print(f"{name:<40} {Spread.of(values)} per second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.enqueue", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=50_000, help="calls in bulk")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.count, options.runs))
