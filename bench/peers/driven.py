"""A peer measured through its driver: a small script in the peer's own language.

The driver takes a command and one JSON object:

    create    single creations by a number of clients at once; prints {"seconds": …}
    enqueue   creations in bulk, due at `due` (milliseconds) plus a part of `spread`; prints {"seconds": …}
    work      prints "ready", waits for a line, then runs jobs until it is killed
    recur     as `work`, after it has set up `count` schedules of every minute

A job does nothing but note its due and its start instant: two float64 milliseconds, appended to the worker's
file in `starts`. So every figure rests on jobs that really ran, and on what the store itself says is left.
"""

import asyncio
import json
import os
import random
import signal
import struct
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import msgspec

from bench.herd import Lag, lag_of
from bench.peers.environment import run

HOUR = 3_600_000.0
MINUTE = 60_000.0
RECORD = struct.Struct("<dd")


class Start(NamedTuple):
    """When a job was due and when it started, in milliseconds since the epoch."""

    due: float
    start: float


class Recurring(msgspec.Struct, frozen=True):
    """Start lag of jobs of every minute, and how many of them started in each minute; the lag of each
    minute's, too."""

    lag: Lag
    fired: list[int]
    lags: list[Lag]


class Dishonest(AssertionError):
    """A measurement whose jobs did not all run, or ran twice, is no measurement."""


class DrivenPeer:
    """What all peers share. A peer says how it is installed, where its jobs live and what is left of them."""

    name: ClassVar[str]
    version: ClassVar[str]
    settings: ClassVar[str]
    unfair: ClassVar[str] = ""
    measures: ClassVar[frozenset[str]] = frozenset({"single", "bulk", "drain", "herd", "spread", "recurring"})
    processes: ClassVar[int] = 1
    processes_ahead: ClassVar[int] = 0  # the same for jobs known ahead, where another number is better
    clients: ClassVar[int] = 10
    # Jobs per second it surely takes in, on a slow day too: a herd must be there before it is due.
    enqueue_rate: ClassVar[float] = 8_000.0
    # Whether work is done before the first start, so that a drain is timed from the go.
    from_go: ClassVar[bool] = False

    def __init__(self, server_url: str) -> None:
        self.server_url = server_url
        self.command: list[str] = []
        self.home = Path()

    async def install(self) -> None:
        """Make the environment of the peer, if it is not there yet."""
        raise NotImplementedError

    def store(self) -> Any:
        """A fresh place for jobs, for the time of one measurement: an asynchronous context manager of its
        address."""
        raise NotImplementedError

    async def pending(self, store: str) -> int:
        """Jobs that are not done."""
        raise NotImplementedError

    async def settle_down(self, store: str) -> None:
        """Let maintenance that belongs to the set-up not run into the measurement."""

    async def create_single(self, count: int, clients: int | None = None) -> float:
        """Jobs per second created one by one."""
        async with self.store() as store:
            due = _now() + HOUR
            made = await self._call(
                store, "create", count=count, clients=clients or self.clients, due=due, spread=0
            )
            _same("created", await self.pending(store), count)
            return count / float(made["seconds"])

    async def create_bulk(self, count: int) -> float:
        """Jobs per second created in bulk."""
        async with self.store() as store:
            made = await self._call(store, "enqueue", count=count, due=_now() + HOUR, spread=0)
            _same("created", await self.pending(store), count)
            return count / float(made["seconds"])

    async def drain(self, count: int) -> float:
        """Jobs per second from the first start until none is left in the store."""
        async with self.store() as store:
            await self._call(store, "enqueue", count=count, due=_now(), spread=0)
            _same("created", await self.pending(store), count)
            await self.settle_down(store)
            async with self._workers(store, "work") as workers:
                began = workers.go()
                await self._until_done(store, workers, count)
                finished = _now()
                starts = workers.starts()
        _same("started", len(starts), count)
        first = began if self.from_go else min(start.start for start in starts)
        return count / (finished - first) * 1000

    async def herd(self, count: int) -> Lag:
        """Start lag of jobs that are all due at one instant, known ahead."""
        return lag_of(await self.herd_lags(count))

    async def spread(self, count: int, seconds: float) -> Lag:
        """Start lag of jobs that are due at random instants, with little else to do."""
        return lag_of(await self.spread_lags(count, seconds))

    async def herd_lags(self, count: int) -> list[float]:
        """The same, each lag in milliseconds."""
        return await self._lags(count, 0.0)

    async def spread_lags(self, count: int, seconds: float) -> list[float]:
        """The same, each lag in milliseconds."""
        return await self._lags(count, seconds)

    async def recurring(self, count: int, minutes: int) -> Recurring:
        """Schedules of every minute, over whole minutes."""
        async with self.store() as store, self._workers(store, "recur", count=count) as workers:
            workers.go()
            await workers.until_set_up()
            first = (_now() // MINUTE + 1) * MINUTE
            if first - _now() < 8000:  # a start in the last seconds may miss the coming minute
                first += MINUTE
            last = first + minutes * MINUTE
            while _now() < last:
                workers.check()
                await asyncio.sleep(0.2)
            starts = [start for start in workers.starts() if first <= start.start < last]
        if not starts:
            raise Dishonest("no schedule fired")
        by_minute: list[list[float]] = [[] for _ in range(minutes)]
        for start in starts:
            by_minute[int((start.start - first) // MINUTE)].append(start.start - start.due)
        return Recurring(
            lag_of([lag for lags in by_minute for lag in lags]),
            [len(lags) for lags in by_minute],
            [lag_of(lags) for lags in by_minute if lags],
        )

    async def _lags(self, count: int, seconds: float) -> list[float]:
        async with self.store() as store:
            due = _now() + 8000 + count / self.enqueue_rate * 1000
            await self._call(store, "enqueue", count=count, due=due, spread=seconds * 1000)
            _same("created", await self.pending(store), count)
            await self.settle_down(store)
            async with self._workers(store, "work", ahead=True) as workers:
                workers.go()
                if _now() > due - 1000:
                    raise Dishonest("the jobs were due before the workers were up: enqueue_rate is too high")
                await self._until_done(store, workers, count, patience=(due - _now()) / 1000 + seconds)
                starts = workers.starts()
        _same("started", len(starts), count)
        return [start.start - start.due for start in starts]

    async def _until_done(self, store: str, workers: "Workers", count: int, patience: float = 0.0) -> None:
        deadline = time.monotonic() + patience + 60 + count / 100
        while (started := workers.started()) < count or await self.pending(store):
            workers.check()
            if time.monotonic() > deadline:
                left = await self.pending(store)
                raise Dishonest(
                    f"{self.name}: {started} of {count} started, {left} left\n{workers.complaints()}"
                )
            await asyncio.sleep(0.005)

    async def _call(self, store: str, command: str, **options: object) -> dict[str, Any]:
        """Run the driver to its end; its last line is the answer."""
        arguments = [*self.command, command, json.dumps({"store": store, **options})]
        said = await run(arguments, self.home, timeout=60 + float(str(options["count"])) / 50)
        answer: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return answer

    @asynccontextmanager
    async def _workers(self, store: str, command: str, **options: object) -> AsyncIterator["Workers"]:
        """Worker processes, up and waiting; killed in the end, when the store knows all it has to."""
        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as directory:
            workers = Workers(Path(directory))
            try:
                for number in range(self._number_of_workers(command, options)):
                    given = {"store": store, "starts": f"{directory}/{number}", **options}
                    await workers.launch([*self.command, command, json.dumps(given)], self.home)
                await workers.until_ready()
                yield workers
            finally:
                await workers.kill()

    def _number_of_workers(self, command: str, options: dict[str, object]) -> int:
        if command == "recur":
            return 1
        return (self.processes_ahead if "ahead" in options else 0) or self.processes


class Workers:
    """The worker processes of one measurement and the starts they noted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[asyncio.subprocess.Process] = []

    async def launch(self, command: list[str], home: Path) -> None:
        with (self._directory / f"{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                await asyncio.create_subprocess_exec(
                    *command,
                    cwd=home,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,  # so that children of a worker end with it
                )
            )

    async def until_ready(self) -> None:
        await self._until_said("ready")

    async def until_set_up(self) -> None:
        await self._until_said("set up")

    def go(self) -> float:
        """Let all of them begin."""
        for process in self._processes:
            assert process.stdin
            process.stdin.write(b"go\n")
        return _now()

    def started(self) -> int:
        """How many starts have been noted, by the size of the files."""
        return sum(file.stat().st_size for file in self._files()) // RECORD.size

    def starts(self) -> list[Start]:
        return [Start(*record) for file in self._files() for record in RECORD.iter_unpack(file.read_bytes())]

    def check(self) -> None:
        """A worker that ended is an error."""
        for process in self._processes:
            if process.returncode is not None:
                raise Dishonest(f"a worker ended with {process.returncode}\n{self.complaints()}")

    def complaints(self) -> str:
        return "\n".join(
            log.read_text(errors="replace")[-1500:] for log in self._directory.glob("*.log")
        ).strip()

    async def kill(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _until_said(self, word: str) -> None:
        for process in self._processes:
            assert process.stdout
            try:
                line = await asyncio.wait_for(process.stdout.readline(), 300)
            except TimeoutError:
                line = b""
            if line.decode().strip() != word:
                raise Dishonest(f"a worker did not say {word!r} but {line.decode()!r}\n{self.complaints()}")

    def _files(self) -> list[Path]:
        return [file for file in self._directory.iterdir() if file.suffix != ".log"]


class PostgresPeer(DrivenPeer):
    """A peer whose jobs live in PostgreSQL: a fresh database on the server that Tocsin is measured on."""

    count_pending: ClassVar[str]

    def __init__(self, server_url: str) -> None:
        super().__init__(server_url)
        self._connections: dict[str, asyncpg.Connection[asyncpg.Record]] = {}

    @asynccontextmanager
    async def store(self) -> AsyncIterator[str]:
        database = f"peer_{random.getrandbits(48):012x}"
        url = urlsplit(self.server_url)._replace(path=f"/{database}").geturl()
        server = await asyncpg.connect(self.server_url)
        try:
            await server.execute(f"CREATE DATABASE {database}")
            self._connections[url] = await asyncpg.connect(url)
            yield url
        finally:
            self._connections.pop(url).terminate()
            await server.execute(f"DROP DATABASE {database} WITH (FORCE)")
            await server.close()

    async def pending(self, store: str) -> int:
        return int(await self._connections[store].fetchval(self.count_pending))

    async def settle_down(self, store: str) -> None:
        await self._connections[store].execute("VACUUM (ANALYZE)")
        await self._connections[store].execute("CHECKPOINT")


def _same(what: str, seen: int, count: int) -> None:
    if seen != count:
        raise Dishonest(f"{seen} jobs {what} instead of {count}")


def _now() -> float:
    return time.time() * 1000
