"""A fleet of real processes on one database, a sink that it fires into, and the hands that break it.

`Fleet` starts an API and some engine nodes with short leases, keeps the record that the checker needs, and
knows how to bring a run to rest: everything healed, everything due fired, nothing live. Every fault goes
through it, so that the fault log is complete and says for each how we know that it landed.
"""

import asyncio
import random
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvloop

from tests.acceptance.fleet_client import KEY, Client
from tests.acceptance.fleet_load import Load, now
from tests.support.checker import Verdict, check
from tests.support.history import Fault, History, read_database, read_leases, watch_leases
from tests.support.processes import Process, Processes, free_port, state_of
from tests.support.sink import Sink
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.pool import open_connection
from tocsin.domain.shard import DEFAULT_SHARDS

TTL = 2.0
SHARDS = DEFAULT_SHARDS
_START_PATIENCE = 30.0
_SOURCES = "PYTHONPATH"
_REST_PATIENCE = 60.0


class Fleet:
    """Use as an async context manager. Its nodes are engines, unless `roles` names one role for each."""

    def __init__(
        self,
        url: str,
        directory: Path,
        *,
        nodes: int = 3,
        roles: Sequence[str] = (),
        ttl: float = TTL,
        seed: int = 1,
        build: Path | None = None,
        **environment: str,
    ) -> None:
        """`build`: a folder that holds another build's sources."""
        self.url = url
        self.ttl = ttl
        self.rng = random.Random(seed)
        self.sink = Sink()
        self.faults: list[Fault] = []
        self._wall_ahead = _wall_ahead()
        self._directory = directory
        self._processes = Processes(directory)
        port = free_port()
        self.client = Client(port)
        common = (
            {
                "lease_ttl": str(ttl),
                "claim_ttl": str(ttl),
                "horizon": "6",  # a little more than the planner's pace, so that planning goes on during the whole run
                "allow_loopback": "true",
                "admin_key": KEY,
                "log_format": "json",
                "supervised": "1",
            }
            | environment
        )
        self._common = common
        self._database = database = ("--database-url", url)
        self._migration = self._processes.tocsin("migrate", "migrate", *database, **common)
        self.api = self._processes.tocsin("api", "api", "--port", str(port), *database, **common)
        self.nodes = [
            self._processes.tocsin(f"node-{number}", role, *database, **common)
            for number, role in enumerate(roles or ["engine"] * nodes, 1)
        ]
        if build is not None:
            for process in (self._migration, self.api, *self.nodes):
                process.environment[_SOURCES] = str(build)

    async def __aenter__(self) -> Self:
        self.sink.__enter__()
        self.load = Load(self.client, self.sink.url, self.rng)
        try:
            self._migration.start()
            assert self._migration.wait(_START_PATIENCE) == 0, self._migration.last_words()
            await watch_leases(self.url)
            for process in (self.api, *self.nodes):
                process.start()
            await until(lambda: self.client.works("/readyz"), _START_PATIENCE, "the API is not ready")
            await self.all_leased()
        except BaseException:
            await self.__aexit__(AssertionError, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._processes.__exit__(kind, error, trace)
        self.sink.__exit__(kind, error, trace)

    @asynccontextmanager
    async def under_load(self, *, per_second: float, ahead: float = 3.0) -> AsyncIterator[Load]:
        """Clients ask for jobs steadily while the body runs."""
        stop = asyncio.Event()
        flow = asyncio.create_task(self.load.flow(stop, per_second=per_second, ahead=ahead))
        try:
            yield self.load
        finally:
            stop.set()
            await flow

    # Upgrading

    async def migrate_to_this_build(self) -> None:
        """Run this build's migrations."""
        migration = self._processes.tocsin("migrate-again", "migrate", *self._database, **self._common)
        migration.start()
        assert await asyncio.to_thread(migration.wait, _START_PATIENCE) == 0, migration.last_words()

    async def replace(self, node: Process) -> None:
        """Stop a node in order and start it with this build."""
        node.terminate()
        assert await asyncio.to_thread(node.wait, _START_PATIENCE) == 0, node.last_words()
        node.environment.pop(_SOURCES)
        node.start()
        await self.holds_shards(await self.node_id(node))
        await self.all_leased()

    async def replace_api(self) -> None:
        """Start this build's API beside the other, send clients there, then stop the other in order."""
        port, old = free_port(), self.api
        self.api = self._processes.tocsin(
            "api-again", "api", "--port", str(port), *self._database, **self._common
        )
        self.api.start()
        client = Client(port)
        await until(lambda: client.works("/readyz"), _START_PATIENCE, "the new API is not ready")
        self.client = self.load._client = client
        old.terminate()
        assert await asyncio.to_thread(old.wait, _START_PATIENCE) == 0, old.last_words()

    # Breaking things

    async def kill(self, victim: Process) -> Fault:
        """kill -9."""
        fault = self.note("kill", victim.name)
        victim.kill()
        fault.proof = f"exit code {victim.exit_code}"
        return fault

    async def freeze(self, victim: Process, seconds: float) -> Fault:
        """SIGSTOP, wait, SIGCONT."""
        fault = self.note("freeze", victim.name)
        victim.freeze()
        fault.proof = f"state {state_of(victim.pid)} for {seconds:.1f} s"
        await asyncio.sleep(seconds)
        victim.thaw()
        fault.ended_at = now()
        return fault

    async def cut_connections(self, share: float = 1.0) -> Fault:
        """Let the database end the connections of the fleet, or of a random share of it."""
        fault = self.note("cut connections", "database")
        rows = await self.query(
            "SELECT pg_terminate_backend(pid) AS done FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'tocsin %' AND random() < $1",
            share,
        )
        fault.proof = f"{sum(row['done'] for row in rows)} connections ended"
        fault.ended_at = now()
        return fault

    async def crash_database(self, server: EmbeddedServer) -> Fault:
        """What `pg_ctl stop -m immediate` does: no checkpoint, no goodbye; the next start recovers from the
        log."""
        process = server._process
        assert process is not None
        fault = self.note("database crash", "database")
        process.send_signal(signal.SIGQUIT)
        fault.proof = f"exit code {await asyncio.to_thread(process.wait, 30)}"
        return fault

    def crashed(self, victim: Process, point: str) -> None:
        """Note that a process crashed itself at an armed failpoint."""
        assert victim.exit_code == -signal.SIGKILL, victim.last_words()
        self.note(f"crash at {point}", victim.name).proof = f"exit code {victim.exit_code}"

    def note(self, what: str, victim: str) -> Fault:
        """Write a fault into the log."""
        fault = Fault(what=what, victim=victim, began_at=now())
        self.faults.append(fault)
        return fault

    # Looking

    def calls_under_way(self) -> int:
        """Requests that the sink has received and not answered yet."""
        return sum(hit.status == 0 for hit in self.sink.hits[-200:])

    async def query(self, sql: str, *args: Any) -> list[Any]:
        """Ask the database something."""
        return await query(self.url, sql, *args)

    async def shards_of(self) -> dict[int, list[int]]:
        """Node ids and the shards they lease at the moment."""
        rows = await self.query(
            "SELECT owner, array_agg(shard) AS shards FROM shards WHERE expires_at > clock_timestamp()"
            " AND owner IS NOT NULL GROUP BY owner"
        )
        return {row["owner"]: sorted(row["shards"]) for row in rows}

    async def node_id(self, node: Process) -> int:
        """The id of a running process in the fleet, once it has joined."""
        ids: list[int] = []

        async def joined() -> bool:
            assert node.alive, node.last_words()
            rows = await self.query("SELECT id FROM nodes WHERE split_part(name, ':', 2) = $1", str(node.pid))
            ids.extend(row["id"] for row in rows)
            return bool(ids)

        await until(joined, _START_PATIENCE, f"{node.name} does not join")
        return max(ids)

    async def all_leased(self, seconds: float = _START_PATIENCE) -> None:
        """Wait until every shard has an owner."""

        async def leased() -> bool:
            (installation,) = await self.query("SELECT shard_count AS shards FROM installation")
            return sum(map(len, (await self.shards_of()).values())) == installation["shards"]

        await until(leased, seconds, "some shards have no owner")

    async def holds_shards(self, node_id: int, *, at_least: int = 1) -> None:
        """Wait until a node leases some shards."""

        async def holds() -> bool:
            return len((await self.shards_of()).get(node_id, [])) >= at_least

        await until(holds, _START_PATIENCE, f"node {node_id} does not lease {at_least} shards")

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the live nodes and its other labels, as /metrics shows it."""
        answer = await self.client.get("/metrics")
        assert answer.status == 200, answer
        lines = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", answer.body, re.MULTILINE)
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(value) for shown, value in lines if all(label in shown for label in wanted))

    # Coming to rest

    async def come_to_rest(self, seconds: float = _REST_PATIENCE) -> None:
        """Heal everything, then wait until every schedule is exhausted and nothing is live."""
        for process in (self.api, *self.nodes):
            if not process.alive:
                process.start()
            assert not process.deaths, (
                f"{process.name} ended by itself: {process.deaths}\n{process.last_words()}"
            )
        await until(lambda: self.client.works("/readyz"), _START_PATIENCE, "the API is not ready")

        await come_to_rest(self.url, seconds)

    async def history(self) -> History:
        """What everybody saw up to now."""
        jobs, finals, lives = await read_database(self.url)
        return History(
            self.load.creates,
            self.load.cancels,
            list(self.sink.hits),
            jobs,
            finals,
            lives,
            await read_leases(self.url),
            self.faults,
            max(0, _wall_ahead() - self._wall_ahead),
        )

    async def judge(self) -> Verdict:
        """Come to rest, have the run checked, and fail with everything known if a promise was broken."""
        await self.come_to_rest()
        assert not self.load.defects, f"{len(self.load.defects)} answers such as {self.load.defects[0]}"
        history = await self.history()
        verdict = check(history)
        if not verdict.good:
            history.save(self._directory / "history.json")
            raise AssertionError(f"{verdict.report()}\nthe whole run: {self._directory / 'history.json'}")
        print(verdict.report())
        return verdict


def _wall_ahead() -> int:
    """Microseconds by which the wall clock leads the monotonic one, which stands while a machine sleeps."""
    return (time.time_ns() - time.monotonic_ns()) // 1000


async def come_to_rest(url: str, seconds: float = _REST_PATIENCE) -> None:
    """Wait until every schedule is exhausted and nothing is live."""

    async def at_rest() -> bool:
        return not await _unfinished(url)

    try:
        await until(at_rest, seconds, "something is still unfinished", every=0.1)
    except AssertionError as error:
        raise AssertionError(f"{error}, such as {(await _unfinished(url))[:5]}") from None


async def query(url: str, sql: str, *args: Any) -> list[Any]:
    """Ask a database something."""
    connection = await open_connection(url, name="test observer")
    try:
        return await connection.fetch(sql, *args)
    finally:
        await connection.close()


async def _unfinished(url: str) -> list[Any]:
    """Live executions, and recurring jobs whose schedule is not exhausted."""
    return await query(
        url,
        "SELECT job_id, fire_at, run_at, node_id, deadline_at, started_at, attempt FROM executions UNION ALL"
        " SELECT id, next_fire_at, NULL, NULL, NULL, NULL, NULL FROM jobs"
        " WHERE kind = 'recurring' AND state = 'active'",
    )


async def until(
    condition: Callable[[], bool | Awaitable[bool]], seconds: float, words: str, every: float = 0.05
) -> None:
    """Wait until `condition` holds; fail with `words` when it has not after a generous while."""
    deadline = time.monotonic() + seconds
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        assert time.monotonic() < deadline, f"{words} within {seconds:g} s"
        await asyncio.sleep(every)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario to its end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario)
