"""(a) Create: how fast jobs come in over HTTP, beside PostgreSQL's own limits, in the same run.

    .venv/bin/python -m bench.create [--runs 3] [--count 100000] [--singles 20000]

Two `tocsin api` processes share the port, as many as there are cores.

Batches: one-offs as NDJSON through ``POST /v1/jobs:batch``, ten thousand per request, two requests at a time;
beside it the same rows (a job and its execution each) inserted by one `unnest` statement, a thousand at a
time, with everything prepared beforehand and nothing but the database at work.

Singles: ``POST /v1/jobs`` with 64 requests in flight over kept connections; beside it the same rows by plain
SQL from 64 connections at once, each row its own statement and its own commit. The API shares commits between
requests, so a ratio above one is possible.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvloop

from bench.installation import Installation, installation
from bench.report import Spread
from tocsin.clock import system_now
from tocsin.db.pool import open_connection
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import HOUR, Instant, format_instant
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.store.keys import KeyStore

KEY = "a-key-for-measuring"
PER_REQUEST = 10_000
PER_STATEMENT = 1000
IN_FLIGHT = 64
API_PROCESSES = 2
TARGET = {"kind": "http", "url": "https://hooks.example.com/orders/17/remind", "body": {"order": 17}}
INSERT = """
WITH given AS (
    SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::jsonb[], $4::jsonb[], $5::timestamptz[])
        AS g (id, shard, schedule, target, due_at)
), job AS (
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, queue, priority, schedule, target, policies)
    SELECT 0, id, 1, shard, 'once', 'default', 5, schedule, target, '{}' FROM given
)
INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route)
SELECT 0, id, due_at, 1, 'default', 5, due_at, due_at, 'noop' FROM given
"""
Row = tuple[Any, int, str, str, Instant]


async def create(place: Installation, runs: int, count: int, singles: int) -> dict[str, list[float]]:
    """Jobs per second: batches, singles, and the rows of either by SQL alone, in turns."""
    await KeyStore(place.database).put_bootstrap(KEY)
    port = free_port()
    await place.start("api", API_PROCESSES, port=port, share_port="true")
    rates: dict[str, list[float]] = {name: [] for name in ("batch", "unnest", "single", "commit")}
    for _ in range(runs):
        rates["batch"].append(await timed(place, count, lambda: send_batches(port, count)))
        rates["unnest"].append(await timed(place, count, insert_in_chunks(place, count)))
        rates["single"].append(await timed(place, singles, lambda: send_singles(port, singles)))
        rates["commit"].append(await timed(place, singles, await insert_one_by_one(place, singles)))
    await place.stop()
    return rates


async def main(runs: int, count: int, singles: int) -> None:
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, median of {runs} runs"
    )
    async with installation() as place:
        rates = await create(place, runs, count, singles)
    show(f"batch create of {count:,} one-offs over HTTP", rates["batch"])
    show(f"  the same rows by unnest, {PER_STATEMENT:,} at a time", rates["unnest"], rates["batch"])
    show(f"single create, {IN_FLIGHT} in flight", rates["single"])
    show(f"  one row per commit, {IN_FLIGHT} connections", rates["commit"], rates["single"])


async def timed(place: Installation, count: int, work: Callable[[], Awaitable[None]]) -> float:
    """Jobs per second into an empty database; what is there afterwards is counted."""
    await place.empty()
    began = time.perf_counter()
    await work()
    took = time.perf_counter() - began
    for table in ("jobs", "executions"):
        assert await place.count(table) == count, f"{table} has not {count} rows"
    return count / took


def show(name: str, rates: list[float], ours: list[float] | None = None) -> None:
    ratio = f", ratio {statistics.median(ours) / statistics.median(rates):.2f}" if ours else ""
    print(f"{name:<55} {Spread.of(rates)} per second{ratio}")


def body_of_one() -> dict[str, Any]:
    due = format_instant(system_now() + HOUR)
    return {"schedule": {"at": due}, "target": TARGET}


async def send_batches(port: int, count: int) -> None:
    """Ten thousand lines per request."""
    line = json.dumps(body_of_one()).encode()
    starts = iter(range(0, count, PER_REQUEST))

    async def client() -> None:
        connection = await Connection.open(port)
        for start in starts:
            lines = b"\n".join([line] * min(PER_REQUEST, count - start))
            status, answer = await connection.post("/v1/jobs:batch", lines, "application/x-ndjson")
            assert status == 200, answer[:500]
        connection.close()

    await asyncio.gather(*(client() for _ in range(API_PROCESSES)))


async def send_singles(port: int, count: int) -> None:
    """Each client sends the next job as soon as its last one was answered."""
    left = iter(range(count))
    loop = asyncio.get_running_loop()
    request = _post("/v1/jobs", json.dumps(body_of_one()).encode(), "application/json")
    clients = [
        (await loop.create_connection(lambda: SingleClient(request, left), "127.0.0.1", port))[1]
        for _ in range(IN_FLIGHT)
    ]
    await asyncio.gather(*(client.done for client in clients))


class SingleClient(asyncio.Protocol):
    """Sends the same creation again and again; as light as a load generator can be, for it shares the
    cores."""

    def __init__(self, request: bytes, left: Iterator[int]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._left = left
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionResetError("the API closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, complete, body = self._answer.partition(b"\r\n\r\n")
        if not complete or len(body) < _length(head):
            return
        if head[9:12] != b"201":
            self.done.set_exception(AssertionError(self._answer[:500]))
            return
        self._answer = b""
        self._next()

    def _next(self) -> None:
        if next(self._left, None) is None:
            self.done.set_result(None)
            self._transport.close()
        else:
            self._transport.write(self._request)


def _post(path: str, body: bytes, kind: str) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {KEY}\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


def insert_in_chunks(place: Installation, count: int) -> Callable[[], Awaitable[None]]:
    """The rows are made before the clock runs."""
    rows = list(new_rows(count))
    chunks = [list(zip(*rows[at : at + PER_STATEMENT], strict=True)) for at in range(0, count, PER_STATEMENT)]

    async def insert() -> None:
        async with place.database.connection() as connection:
            statement = await connection.prepare(INSERT)
            for chunk in chunks:
                await statement.fetch(*chunk)

    return insert


async def insert_one_by_one(place: Installation, count: int) -> Callable[[], Awaitable[None]]:
    rows = iter([[[value] for value in row] for row in new_rows(count)])
    connections = [
        await open_connection(place.url, name="bench commit", timeout=60) for _ in range(IN_FLIGHT)
    ]
    statements = [await connection.prepare(INSERT) for connection in connections]

    async def insert() -> None:
        async def writer(statement: Any) -> None:
            for row in rows:
                await statement.fetch(*row)

        await asyncio.gather(*(writer(statement) for statement in statements))
        for connection in connections:
            connection.terminate()

    return insert


def new_rows(count: int) -> Iterator[Row]:
    now = system_now()
    due = now + HOUR
    schedule, target = json.dumps({"at": format_instant(due)}), json.dumps(TARGET)
    for _ in range(count):
        job_id = new_job_id(now)
        yield job_id, shard_of(job_id, DEFAULT_SHARDS), schedule, target, due


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Connection:
    """A kept HTTP connection, as little of it as possible."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: bytes, kind: str) -> tuple[int, bytes]:
        self._writer.write(_post(path, body, kind))
        await self._writer.drain()
        answer = await self._reader.readuntil(b"\r\n\r\n")
        return int(answer[9:12]), await self._reader.readexactly(_length(answer))

    def close(self) -> None:
        self._writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.create", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--count", type=int, default=100_000, help="jobs created in batches")
    parser.add_argument("--singles", type=int, default=20_000, help="jobs created one by one")
    options = parser.parse_args()
    uvloop.run(main(options.runs, options.count, options.singles))
