"""What the Python drivers share: their command, payloads, the record of starts, the hand-over to the harness.

It runs in the environment of a peer, so it needs nothing but the standard library.
"""

import asyncio
import json
import random
import struct
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

BULK = 1000
RECORD = struct.Struct("<dd")


def arguments() -> tuple[str, dict[str, Any]]:
    """The command and its options."""
    return sys.argv[1], json.loads(sys.argv[2])


def now() -> float:
    """Milliseconds since the epoch."""
    return time.time() * 1000


def this_minute() -> float:
    """The minute a recurring job belongs to, where the peer does not say."""
    return now() // 60_000 * 60_000


def payload(due: float) -> dict[str, Any]:
    """About 200 bytes of JSON."""
    return {"due": due, "text": "x" * 165}


def some_dues(options: dict[str, Any]) -> Iterator[float]:
    """The instants of all jobs to make."""
    for _ in range(options["count"]):
        yield options["due"] + random.random() * options["spread"]


def bulks(options: dict[str, Any]) -> Iterator[list[float]]:
    """The same in bulks."""
    dues = list(some_dues(options))
    for at in range(0, len(dues), BULK):
        yield dues[at : at + BULK]


def report(began: float) -> None:
    """Print how long the work took."""
    print(json.dumps({"seconds": (now() - began) / 1000}), flush=True)


async def by_clients(options: dict[str, Any], work: Callable[[float], Awaitable[object]]) -> None:
    """Each client makes the next job as soon as its last one is there."""
    dues = some_dues(options)

    async def client() -> None:
        for due in dues:
            await work(due)

    await asyncio.gather(*(client() for _ in range(options["clients"])))


def recorder(path: str) -> Callable[[float], None]:
    """A function that notes a start; a thread writes what it noted every few milliseconds."""
    noted: list[bytes] = []

    def write() -> None:
        with Path(path).open("ab", buffering=0) as file:
            while True:
                time.sleep(0.005)
                if noted:
                    count = len(noted)
                    file.write(b"".join(noted[:count]))
                    del noted[:count]

    threading.Thread(target=write, daemon=True).start()
    return lambda due: noted.append(RECORD.pack(due, now()))


def go() -> None:
    """Say that this worker is up, and wait for the go."""
    print("ready", flush=True)
    sys.stdin.readline()


def set_up() -> None:
    """Say that all schedules are there."""
    print("set up", flush=True)
