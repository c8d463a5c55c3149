"""(l) Messages: executions per second that publish to a broker, beside what our client does alone, and how
late a single message is acknowledged.

    .venv/bin/python -m bench.messages [--kinds kafka,nats] [--count 20000] [--runs 3]

An execution is claimed, started, published, acknowledged, settled and kept in history; the client alone only
publishes. Every broker writes as its tests have it do: Redis syncs each entry, a queue of RabbitMQ and the
messages in it are durable, JetStream syncs every two minutes, Kafka leaves that to its replicas and has none.
Broker, database and engines share the machine. A kind whose server is not installed is left out.
"""

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from uuid import UUID

import pytest
import uvloop
from tests.engines.brokers import KafkaKind, Kind, NatsKind, RabbitKind, RedisKind
from tests.engines.servers import Server

from bench.drain import ENGINES, drained
from bench.herd import Lag, lag_of
from bench.installation import Installation, installation
from bench.report import Spread
from tocsin.clock import system_now
from tocsin.domain.connection import Connection
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.store.connections import ConnectionStore
from tocsin.targets.assignment import Assignment

KINDS: Final[Sequence[Kind]] = (KafkaKind(), NatsKind(), RabbitKind(), RedisKind())
_AT_ONCE: Final = 5000
"""Messages that the client alone is given together: what an engine may have under way."""
_TIMEOUT: Final = 30.0


class Messages(NamedTuple):
    """Per second, and per second of processor time of whoever published."""

    per_second: float
    per_core: float


@asynccontextmanager
async def broker(kind: Kind) -> AsyncIterator[Server | None]:
    """A running server with what takes messages in it; None if it is not installed."""
    try:
        server = await asyncio.to_thread(kind.server)
    except pytest.skip.Exception:
        yield None
        return
    try:
        await kind.make_stream(server)
        yield server
    finally:
        await asyncio.to_thread(server.stop)


async def published(place: Installation, kind: Kind, server: Server, count: int) -> Messages:
    """Due executions as messages."""
    await _connect(place, kind, server)
    done = await drained(place, count, ENGINES, target=kind.target({"order": 7}), allow_loopback="true")
    return Messages(done.rate, count / done.cpu_seconds)


async def client_alone(kind: Kind, server: Server, count: int) -> Messages:
    """The same messages by our client, without anything around it."""
    caller = kind.attempts(server).caller
    first, now, target = random.getrandbits(100), system_now(), kind.target({"order": 7})
    began, used = time.perf_counter(), time.process_time()
    for start in range(first, first + count, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, first + count))
        outcomes = await asyncio.gather(
            *(
                caller.call(Assignment(UUID(int=number), now, 1, 1, number, now, now, now), target, _TIMEOUT)
                for number in numbers
            )
        )
        for outcome in outcomes:
            assert isinstance(outcome, Outcome), outcome
            assert outcome.verdict is Verdict.SUCCEEDED, outcome
    took, used = time.perf_counter() - began, time.process_time() - used
    await caller.close()
    return Messages(count / took, count / used)


async def lags(
    place: Installation, kind: Kind, server: Server, count: int, seconds: int, seed: int
) -> tuple[Lag, list[float]]:
    """From due to acknowledged, at random instants with nothing else to do."""
    await _connect(place, kind, server)
    await place.empty()
    await place.start("engine", 1, allow_loopback="true")
    rng = random.Random(seed)
    start = system_now() + 5 * SECOND
    for due_at in [start + rng.randrange(seconds * SECOND) for _ in range(count)]:
        await place.add_one_offs(1, due_at, kind.target("x"))
    await place.wait_until_done()
    await place.stop()
    await place.expect_all_succeeded(count)
    rows = await place.database.fetch(
        "SELECT extract(epoch FROM finished_at - due_at)::float8 * 1000 AS lag FROM history ORDER BY 1"
    )
    found = [row["lag"] for row in rows]
    return lag_of(found), found


async def _connect(place: Installation, kind: Kind, server: Server) -> None:
    """The connection that targets name. Another kind may have had the name before."""
    await place.database.execute("DELETE FROM connections")
    connection = Connection(kind.name, (server.address,), in_flight=_AT_ONCE)
    await ConnectionStore(place.database).create(1, "bus", connection)


async def main(names: Sequence[str], count: int, runs: int) -> None:
    async with installation() as place:
        for kind in [kind for kind in KINDS if kind.name in names]:
            async with broker(kind) as server:
                if server is None:
                    print(f"{kind.name}: no server is installed")
                    continue
                ours, alone, lag = [], [], []
                for run in range(runs):
                    ours.append(await published(place, kind, server, count))
                    alone.append(await client_alone(kind, server, count))
                    lag.append((await lags(place, kind, server, 100, 5, run))[0])
                for who, found in ((f"{ENGINES} engines", ours), ("our client alone", alone)):
                    print(
                        f"{kind.name:<9} {who:<17} {Spread.of([one.per_second for one in found])} per second,"
                        f" {Spread.of([one.per_core for one in found])} per core"
                    )
                p50, p99 = (Spread.of([getattr(one, part) for one in lag]) for part in ("p50", "p99"))
                print(f"{kind.name:<9} due to acknowledged, ms: p50 {p50}, p99 {p99}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.messages", description=__doc__.partition("\n")[0])
    known = ",".join(kind.name for kind in KINDS)
    parser.add_argument("--kinds", default=known, help=f"which of {known}")
    parser.add_argument("--count", type=int, default=20_000, help="messages per run")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.kinds.split(","), options.count, options.runs))
