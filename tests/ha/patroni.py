"""Three PostgreSQL servers under Patroni, with etcd, from the example configuration."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.ha.servers import USER
from tests.support.postgres import temporary_directory
from tests.support.processes import children_of, free_port, wait_for
from tocsin.db.account import Account
from tocsin.db.embedded import _program
from tocsin.db.pool import open_connection

CONFIGURATION = Path(__file__).parents[2] / "examples" / "patroni" / "patroni.yml"
PATRONI = Path(sys.executable).parent / "patroni"


class Etcd:
    """One etcd. Three of them would make it outlive a machine, and nothing else here different."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.host = f"127.0.0.1:{free_port()}"
        self._peers = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        here = f"http://{self.host}"
        command = [
            "etcd", "--data-dir", str(self._directory / "etcd"), "--listen-client-urls", here,
            "--advertise-client-urls", here, "--listen-peer-urls", self._peers, "--log-level", "error",
            "--initial-advertise-peer-urls", self._peers, "--initial-cluster", f"default={self._peers}",
        ]  # fmt: skip
        with (self._directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(self._healthy, 20, "etcd is not up")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def _healthy(self) -> bool:
        return _get(f"http://{self.host}/health") is not None


class Member:
    """One machine: Patroni and the server that it runs."""

    def __init__(self, name: str, directory: Path, etcd: Etcd) -> None:
        self.name = name
        self._directory = directory
        self._data = directory / name
        self.host = f"127.0.0.1:{free_port()}"
        self.rest = f"127.0.0.1:{free_port()}"
        self._account = Account.choose(self._data, Path(sys.executable).resolve())
        self._environment = {
            "PATRONI_NAME": name,
            "PATRONI_ETCD3_HOSTS": f"'{etcd.host}'",
            "PATRONI_RESTAPI_LISTEN": self.rest,
            "PATRONI_RESTAPI_CONNECT_ADDRESS": self.rest,
            "PATRONI_POSTGRESQL_LISTEN": self.host,
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": self.host,
            "PATRONI_POSTGRESQL_DATA_DIR": str(self._data),
            "PATRONI_POSTGRESQL_PGPASS": str(directory / f"{name}.pgpass"),
            "PATRONI_POSTGRESQL_BIN_DIR": str(Path(_program("postgres")).parent),
            "PATRONI_SUPERUSER_USERNAME": USER,
            "PATRONI_REPLICATION_USERNAME": "replicator",
            "PATRONI_REWIND_USERNAME": "rewinder",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = self._account.wrap([sys.executable, str(PATRONI), str(CONFIGURATION)])
        with (self._directory / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | self._environment, **self._account.as_user(),
            )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """What its Patroni says about it."""
        return _get(f"http://{self.rest}/patroni") or {}

    @property
    def role(self) -> str:
        state = self.state()
        return str(state.get("role", "none")) if state.get("state") in ("running", "streaming") else "none"

    def everything(self) -> list[int]:
        """Patroni, the server, and their children."""
        pids = []
        for pid in (self._patroni(), self._postmaster()):
            if pid:
                pids += [pid, *children_of(pid)]
        return list(dict.fromkeys(pids))

    def signal(self, signum: signal.Signals) -> None:
        for pid in self.everything():
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                continue

    def kill(self) -> None:
        """The machine is gone."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)

    def _patroni(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def _postmaster(self) -> int | None:
        try:
            pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return None
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return None
        return pid if status.startswith("Name:\tpostgres") else None


class Cluster:
    """Three members and their etcd. Use as a context manager."""

    def __init__(self) -> None:
        self.directory = temporary_directory()
        account = Account.choose(self.directory, Path(_program("postgres")))
        account.give(self.directory)
        self.etcd = Etcd(self.directory)
        self.members = [Member(name, self.directory, self.etcd) for name in ("db1", "db2", "db3")]

    def __enter__(self) -> Self:
        try:
            self.etcd.start()
            self.members[0].start()
            wait_for(lambda: self.members[0].role == "primary", 60, "the first member is no primary")
            for member in self.members[1:]:
                member.start()
            self.is_whole()
            asyncio.run(self._create_database())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for member in self.members:
            member.signal(signal.SIGCONT)
            member.kill()
        self.etcd.kill()
        if exc and exc[0] is not None:
            for log in self.directory.glob("db*.log"):
                print(f"--- {log.name}\n{log.read_text()[-3000:]}")
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def primary(self) -> Member:
        return next(member for member in self.members if member.role == "primary")

    @property
    def synchronous(self) -> Member:
        """The standby that commits wait for."""
        return next(member for member in self.members if member.state().get("sync_standby"))

    def url_of(self, database: str) -> str:
        hosts = ",".join(member.host for member in self.members)
        return f"postgresql://{USER}@{hosts}/{database}?target_session_attrs=read-write"

    @property
    def url(self) -> str:
        return self.url_of(USER)

    def is_whole(self, seconds: float = 90) -> None:
        """Wait until there is a primary with two standbys, one of them synchronous."""

        def whole() -> bool:
            roles = sorted(member.role for member in self.members)
            return roles == ["primary", "replica", "replica"] and any(
                member.state().get("sync_standby") for member in self.members
            )

        wait_for(whole, seconds, "the cluster is not whole")

    def switch_over(self) -> None:
        """Planned: the primary and its synchronous standby change places."""
        primary, candidate = self.primary, self.synchronous
        body = json.dumps({"leader": primary.name, "candidate": candidate.name}).encode()
        request = urllib.request.Request(f"http://{primary.rest}/switchover", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200

    async def _create_database(self) -> None:
        connection = await open_connection(self.url_of("postgres"), name="test observer")
        try:
            await connection.execute(f"CREATE DATABASE {USER}")
        finally:
            await connection.close()


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:  # a member that is not running says so with a 503
        return json.load(error)
    except (OSError, ValueError):
        return None
