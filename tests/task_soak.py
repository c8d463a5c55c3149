"""Tasks under load while their workers, gateways and the database are killed: `python -m tests.soak --tasks`.

Two API processes on one port, an engine, two workers. So many tasks a second are enqueued, a batch at a time;
every few seconds something is killed with -9, drawn from the seed, and now and then it is the database, which
is stopped like a machine that loses its power. Each kind of victim comes first once, in an order drawn from
the seed; what follows is drawn freely. In the end all are up again, and every task that the API accepted must
have succeeded; each that ran more than once must have an attempt for each run, and each of those but the last
must have been lost: its claim expired. A run that killed too little, or enqueued too slowly, proves nothing
and fails.
"""

import argparse
import asyncio
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.acceptance import diary
from tests.acceptance.task_shop import Shop
from tests.support.api import ADMIN_KEY
from tests.support.postgres import Cluster
from tests.support.processes import Process, Processes, wait_for
from tocsin.db.embedded import EmbeddedServer
from tocsin.domain.errors import TocsinError

_BATCHES_A_SECOND = 5
_DATABASE_EVERY = 8
"""One fault of so many is the database's."""
_REACHED = 0.6
"""Of the rate that was asked for, so much is accepted while everything dies again and again."""
DATABASE = "database"
Say = Callable[[str], None]


class Load:
    """Enqueues at a pace, in a thread of its own. Numbers are `accepted` when the API says so; of the others
    nobody knows."""

    def __init__(self, rate: float) -> None:
        self.accepted: list[range] = []
        self.unknown = 0
        self._batch = max(1, round(rate / _BATCHES_A_SECOND))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def count(self) -> int:
        """How many were accepted."""
        return sum(map(len, self.accepted))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        begin, number = time.monotonic(), 0
        while not self._over.wait(max(0.0, begin + number / _BATCHES_A_SECOND - time.monotonic())):
            numbers = range(number * self._batch, (number + 1) * self._batch)
            task = diary.write if number % 2 else diary.write_async
            try:
                task.enqueue_many(task.args(one) for one in numbers)
            except TocsinError:
                self.unknown += len(numbers)
            else:
                self.accepted.append(numbers)
            number += 1


def soak_tasks(arguments: argparse.Namespace, cluster: Cluster, url: str, directory: Path, say: Say) -> bool:
    """One run. Returns whether every promise was kept."""
    rng = random.Random(arguments.seed)
    with Processes(directory) as processes:
        shop = Shop(url, directory, processes)
        diary.app.reach(shop.api.url, ADMIN_KEY)
        faults: Counter[str] = Counter()
        with Load(arguments.rate) as load:
            victims = {one.name: one for one in (*shop.gateways, *shop.workers, shop.engine)}
            first = [*victims, DATABASE]
            rng.shuffle(first)
            began = time.monotonic()
            until = began + arguments.minutes * 60
            while time.monotonic() < until:
                time.sleep(rng.uniform(1, 6))
                name = first.pop() if first else _drawn(rng, list(victims))
                if name == DATABASE:
                    _crash_database(cluster.server, rng)
                else:
                    _kill(victims[name], rng)
                faults[name] += 1
                say(
                    f"{load.count:,} accepted, {load.unknown:,} unknown, {len(shop.entries()):,} runs; {dict(faults)}"
                )
            wanted = arguments.rate * (time.monotonic() - began)
        for process in (*shop.gateways, shop.engine, *shop.workers):
            if not process.alive:
                process.start()
        spared = {*victims, DATABASE} - set(faults)
        say(f"spared: {sorted(spared)}; {load.count:,} accepted of {wanted:,.0f} that were wanted")
        tried = not spared and load.count >= _REACHED * wanted
        return _judge(shop, load, say) and tried


def _drawn(rng: random.Random, victims: list[str]) -> str:
    return DATABASE if rng.randrange(_DATABASE_EVERY) == 0 else rng.choice(victims)


def _kill(victim: Process, rng: random.Random) -> None:
    assert victim.alive, f"{victim.name} died by itself\n{victim.last_words()}"
    victim.kill()
    time.sleep(rng.uniform(0, 3))
    victim.start()


def _crash_database(server: EmbeddedServer, rng: random.Random) -> None:
    process = server._process
    assert process is not None
    process.send_signal(signal.SIGQUIT)
    process.wait(30)
    time.sleep(rng.uniform(0, 2))
    asyncio.run(server.start())


def _judge(shop: Shop, load: Load, say: Say) -> bool:
    accepted = {number for numbers in load.accepted for number in numbers}

    def live() -> bool:
        states = ("queued", "claimed", "running")
        return not any(
            shop.api.get("/v1/executions", state=state, limit=1).json()["items"] for state in states
        )

    wait_for(live, 300, "not everything comes to its end")
    entries = shop.entries()
    lost = accepted - {number for number, _, _ in entries}
    dead = shop.api.get("/v1/executions", state="dead", limit=500).json()["items"]
    repeated = shop.repeated()
    unexplained = shop.unexplained()
    say(f"{len(accepted):,} accepted, {len(entries):,} runs, {len(repeated):,} executions ran more than once")
    say(f"lost: {sorted(lost)[:20]}; dead: {len(dead)}; repeated without a reason: {unexplained[:20]}")
    return bool(accepted) and not (lost or dead or unexplained)
