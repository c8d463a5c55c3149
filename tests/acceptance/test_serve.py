"""`tocsin serve`: one command, one directory, everything in it; and it comes back from anything."""

import os
import pwd
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.acceptance.fleet import come_to_rest, run, until
from tests.acceptance.fleet_client import Client
from tests.acceptance.fleet_load import Load, now
from tests.support.checker import check
from tests.support.history import SECOND, Fault, History, read_database
from tests.support.postgres import temporary_directory
from tests.support.processes import (
    Processes,
    children_of,
    command_of,
    descendants_of,
    free_port,
    state_of,
    wait_for,
)
from tests.support.sink import Sink
from tocsin.db.account import PASSAGE
from tocsin.db.embedded import EmbeddedServer

PATIENCE = 60
KEY_PATTERN = re.compile(r"tocsin_bootstrap_\w{40,}")


@pytest.fixture
def directory() -> Iterator[Path]:
    """An empty directory with a short path."""
    directory = temporary_directory()
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


class Served:
    """A `tocsin serve` with its own database, directory and port."""

    def __init__(self, processes: Processes, directory: Path, wrap: Sequence[str] = ()) -> None:
        self.data = directory / "data"
        self.url = EmbeddedServer(self.data).url
        self.port = free_port()
        self._clients: list[Client] = []
        self.process = processes.tocsin(
            "serve",
            *("serve", "--data-dir", str(self.data), "--port", str(self.port), "--engines", "1"),
            wrap=wrap,
            cwd=directory,
            lease_ttl="2",
            claim_ttl="2",
            log_format="json",
        )

    @property
    def key(self) -> str:
        return (self.data / "admin-key").read_text().strip()

    def children(self, role: str) -> list[int]:
        """The running children with a role: `api`, `engine` or `postgres`."""
        return [pid for pid in children_of(self.process.pid) if _plays(role, command_of(pid))]

    async def start(self) -> Client:
        """Start, and wait until it is ready. Returns a client with the key from the directory."""
        self.process.start()
        await until(self._has_key, PATIENCE, "serve makes no key")
        client = Client(self.port, self.key)
        self._clients.append(client)

        async def ready() -> bool:
            return self._has_key() and await client.works("/readyz")

        await until(ready, PATIENCE, "serve is not ready")
        return client

    def _has_key(self) -> bool:
        assert self.process.alive, self.process.last_words()
        return (self.data / "admin-key").exists()

    def kill_everything(self) -> None:
        """kill -9 of the supervisor, its children and every process of the database, before any can react."""
        pids = [self.process.pid, *descendants_of(self.process.pid)]
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):  # connections of the database come and go
                    os.kill(pid, signum)
        self.process.wait(10)
        for pid in pids[1:]:
            _wait_until_gone(pid)

    def stop(self) -> None:
        """SIGTERM, and everything ends in order."""
        below = descendants_of(self.process.pid)
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0, self.process.last_words()
        for pid in below:
            _wait_until_gone(pid)

    def close(self) -> None:
        """Leave nothing behind."""
        for client in self._clients:
            client.close()
        if self.process.alive:
            self.kill_everything()


@asynccontextmanager
async def serving(directory: Path, wrap: Sequence[str] = ()) -> AsyncIterator[Served]:
    """A `Served` that is not started yet, and whose processes are gone afterwards, whatever happened."""
    with Processes(directory) as processes:
        served = Served(processes, directory, wrap)
        try:
            yield served
        finally:
            served.close()


def test_the_first_start_makes_a_key_that_only_its_owner_can_read_and_shows_it_once(directory: Path) -> None:
    async def scenario() -> None:
        async with serving(directory) as served:
            client = await served.start()
            file = served.data / "admin-key"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert KEY_PATTERN.findall(served.process.output()) == [served.key]
            assert (await client.get("/v1/jobs")).status == 200
            served.stop()
            client = await served.start()
            assert KEY_PATTERN.findall(served.process.output()) == [served.key], "it was shown again"
            assert (await client.get("/v1/jobs")).status == 200
            served.stop()

    run(scenario())


def test_a_second_serve_on_the_same_directory_is_refused_and_says_who_is_there(directory: Path) -> None:
    async def scenario() -> None:
        async with serving(directory) as served:
            client = await served.start()
            arguments = ("serve", "--data-dir", str(served.data), "--port", str(free_port()))
            second = subprocess.run(
                [sys.executable, "-m", "tocsin", *arguments],
                capture_output=True, text=True, timeout=PATIENCE, check=False,
            )  # fmt: skip
            assert second.returncode != 0
            assert f"in use by another `tocsin serve` (pid {served.process.pid})" in second.stderr
            assert "Traceback" not in second.stderr
            assert (await client.get("/readyz")).status == 200, "the first one was disturbed"

    run(scenario())


def test_children_and_database_that_were_killed_come_back_and_jobs_go_on(directory: Path) -> None:
    async def scenario() -> None:
        with Sink() as sink:
            async with serving(directory) as served:
                load = Load(await served.start(), sink.url, _any_order())
                for role in ("engine", "api", "postgres"):
                    await until(lambda: bool(served.children(role)), PATIENCE, f"there is no {role}")  # noqa: B023
                    [pid] = served.children(role)
                    os.kill(pid, signal.SIGKILL)
                    _wait_until_gone(pid)
                    job = await created_at_last(load)
                    await until(lambda: bool(sink.of_job(job)), PATIENCE, f"nothing fires without {role}")  # noqa: B023
                    assert served.children(role) not in ([], [pid])

    run(scenario())


def test_after_kill_9_of_everything_serve_finds_every_acknowledged_job_again(directory: Path) -> None:
    async def scenario() -> None:
        with Sink() as sink:
            async with serving(directory) as served:
                load = Load(await served.start(), sink.url, _any_order())
                await load.everies(20, until=now() + 10 * SECOND, longest=2)
                await load.one_offs(now() + number * 30_000 for number in range(300))
                await until(lambda: len(sink.hits) > 50, PATIENCE, "nothing fires")
                began_at = now()
                served.kill_everything()
                await served.start()
                await come_to_rest(served.url)
                fault = Fault(what="kill", victim="everything", began_at=began_at, ended_at=now())
                jobs, finals, lives = await read_database(served.url)
                verdict = check(
                    History(load.creates, [], list(sink.hits), jobs, finals, lives, faults=[fault])
                )
                assert verdict.good, verdict.report()
                assert verdict.counts["creates ok"] == 320

    run(scenario())


@pytest.mark.skipif(os.geteuid() != 0, reason="then all tests here run as an ordinary user already")
def test_an_ordinary_user_can_serve(directory: Path) -> None:
    account = pwd.getpwnam("nobody")
    os.chown(directory, account.pw_uid, account.pw_gid)

    async def scenario() -> None:
        with Sink() as sink:
            async with serving(directory, wrap=_as_user(account)) as served:
                load = Load(await served.start(), sink.url, _any_order())
                assert (served.data / "admin-key").stat().st_uid == account.pw_uid
                job = await created_at_last(load)
                await until(lambda: bool(sink.of_job(job)), PATIENCE, "nothing fires")
                served.stop()

    run(scenario())


async def created_at_last(load: Load) -> str:
    """Ask for a job until the API, which may be on its way back, says yes. Returns its id."""
    ids: list[str] = []

    async def created() -> bool:
        create = await load.one_off(now())
        ids.extend([create.job_id] if create.job_id else [])
        return bool(ids)

    await until(created, PATIENCE, "the API takes no job", every=0.2)
    return ids[0]


def _plays(role: str, command: list[str]) -> bool:
    return role in command[-8:] or (
        role == "postgres" and command[:1] != [] and command[0].endswith("/postgres")
    )


def _wait_until_gone(pid: int) -> None:
    wait_for(lambda: state_of(pid) in "ZX", 30, f"process {pid} does not end")


def _any_order() -> random.Random:
    return random.Random(7)


def _as_user(account: pwd.struct_passwd) -> list[str]:
    """A prefix for commands. Where the way to Python is closed to others, the right to pass it is added."""
    plain = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    passing = [*plain, *PASSAGE]
    # setpriv itself may pass where its command's children cannot, so the probe has a child.
    probe = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import tocsin'], check=True)"
    for wrap in (plain, passing):
        done = subprocess.run([*wrap, "--", sys.executable, "-c", probe], capture_output=True, check=False)
        if done.returncode == 0:
            return [*wrap, "--"]
    pytest.skip("another user cannot run this Python")
