"""How many requests per second one process sends: our client beside plain asyncio streams, in the same run.

    .venv/bin/python -m bench.http_client [seconds]

The sink is a raw protocol in another process that answers 200 without reading what it was sent, so that the
client's own cost is what is measured. Both clients post the same 200-byte JSON body with the same headers
over kept connections on uvloop, with the same number of requests in flight, in alternating rounds; the
medians are compared. Each process keeps to one core, as far as there are two and the system can do it. The
streams loop is the least that a client can do in that style: no deadline, no limits, no pool, no policy, only
the length header read. The processor time per request says the same on a busy machine as on a quiet one.
Traffic stays on loopback.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import NamedTuple, cast

import uvloop

from tocsin.domain.addresses import AddressPolicy, parse_target_url
from tocsin.targets.http.client import HttpClient
from tocsin.targets.http.exchange import OutgoingRequest, encode_request
from tocsin.targets.http.name_servers import NameServers
from tocsin.targets.http.resolver import Resolver

IN_FLIGHT = 64
ROUNDS = 5
BODY = b'{"event": "tick", "padding": "' + b"x" * 168 + b'"}'
HEADERS = (
    ("Content-Type", "application/json"),
    ("User-Agent", "tocsin"),
    ("webhook-id", "exec_01h2xcejqtf2nbrexx3vqjhp41"),
    ("webhook-timestamp", "1700000000"),
    ("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: sink\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
)


class Sink(asyncio.Protocol):
    """Answers every segment: each request here fits into one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - the segment only says when
        self._write(ANSWER)


def keep_to_core(number: int) -> None:
    """On two cores the scheduler would otherwise often run client and sink in turns on one."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


def run_sink(pipe: Connection) -> None:
    keep_to_core(1)

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


class Round(NamedTuple):
    """What one round showed."""

    per_second: float
    cpu_microseconds: float


async def measure(call: Callable[[], Awaitable[None]], seconds: float) -> Round:
    """IN_FLIGHT callers, each calling again as soon as it is answered."""
    done = 0
    until = time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await call()
            done += 1

    began, began_cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return Round(done / (time.perf_counter() - began), (time.process_time() - began_cpu) / done * 1e6)


async def round_of_ours(port: int, seconds: float) -> Round:
    client = HttpClient(Resolver(NameServers().lookup), AddressPolicy(allow_loopback=True))
    url = parse_target_url(f"http://127.0.0.1:{port}/hook/0")

    async def call() -> None:
        answer = await client.send(OutgoingRequest("POST", url, HEADERS, BODY))
        assert answer.status == 200

    try:
        return await measure(call, seconds)
    finally:
        await client.close()


async def round_of_streams(port: int, seconds: float) -> Round:
    url = parse_target_url(f"http://127.0.0.1:{port}/hook/0")
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(IN_FLIGHT)]

    async def call() -> None:
        reader, writer = idle.pop()
        writer.write(encode_request(OutgoingRequest("POST", url, HEADERS, BODY)))
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        assert head.startswith(b"HTTP/1.1 200")
        idle.append((reader, writer))

    try:
        return await measure(call, seconds)
    finally:
        for _, writer in idle:
            writer.close()


async def compare(port: int, seconds: float) -> None:
    ours: list[Round] = []
    streams: list[Round] = []
    for _ in range(ROUNDS):
        ours.append(await round_of_ours(port, seconds))
        streams.append(await round_of_streams(port, seconds))
    our_rate = report("tocsin http client", ours)
    print(f"{'ratio':<20} {our_rate / report('asyncio streams', streams):>10.2f}")


def report(name: str, rounds: list[Round]) -> float:
    """Print one line; the median rate."""
    rates = [one.per_second for one in rounds]
    cpu = statistics.median(one.cpu_microseconds for one in rounds)
    rate = statistics.median(rates)
    print(
        f"{name:<20} {rate:>10,.0f} req/s  (from {min(rates):,.0f} to {max(rates):,.0f}), {cpu:.1f} µs of CPU each"
    )
    return rate


def main(seconds: float) -> None:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    sink = context.Process(target=run_sink, args=(sender,), daemon=True)
    sink.start()
    keep_to_core(0)
    try:
        uvloop.run(compare(receiver.recv(), seconds))
    finally:
        sink.terminate()
        sink.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.http_client", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("seconds", type=float, nargs="?", default=2.0, help="length of a round")
    main(parser.parse_args().seconds)
