"""A PostgreSQL of the user's own, of the oldest version that is supported: migrated, and a job from end to
end."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import RealApi, fleet, with_database
from tests.support.postgres import temporary_directory
from tests.support.processes import Processes, free_port, wait_for
from tests.support.sink import Sink
from tocsin.db.migrations import migrations
from tocsin.db.pool import MINIMUM_VERSION, Database

BINARIES = Path(f"/usr/lib/postgresql/{MINIMUM_VERSION}/bin")
pytestmark = pytest.mark.skipif(
    not BINARIES.exists(), reason=f"PostgreSQL {MINIMUM_VERSION} is not installed in {BINARIES}"
)
PASSWORD = "s3cret/with:odd@characters"


@pytest.fixture(scope="module")
def external() -> Iterator[str]:
    """The URL of a fresh database on a server with default settings, reached over TCP with a password."""
    directory = temporary_directory()
    cluster, port = directory / "cluster", free_port()
    cluster.mkdir()
    (directory / "password").write_text(PASSWORD)
    identity: dict[str, Any] = {"cwd": "/"}
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        for path in (cluster, directory, directory / "password"):
            os.chown(path, account.pw_uid, account.pw_gid)
        identity |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    _run(
        "initdb",
        "-D",
        cluster,
        "-U",
        "owner",
        "-A",
        "scram-sha-256",
        f"--pwfile={directory / 'password'}",
        **identity,
    )
    options = f"-p {port} -k {directory} -c listen_addresses=127.0.0.1"
    _run("pg_ctl", "-D", cluster, "-w", "-l", directory / "log", "-o", options, "start", **identity)
    yield f"postgresql://owner:s3cret%2Fwith%3Aodd%40characters@127.0.0.1:{port}/postgres"
    _run("pg_ctl", "-D", cluster, "-m", "immediate", "stop", **identity)
    shutil.rmtree(directory, ignore_errors=True)


def _run(program: str, *arguments: object, **identity: Any) -> None:
    command = [str(BINARIES / program), *map(str, arguments)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **identity
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def migrated(external: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same database after `tocsin migrate`, run twice."""
    directory = tmp_path_factory.mktemp("migrate")
    with Processes(directory) as processes:
        for name in ("first", "second"):
            process = processes.tocsin(name, "migrate", cwd=directory, database_url=external)
            process.start()
            assert process.wait(60) == 0, process.last_words()
            assert PASSWORD not in process.output()
            assert ("administrator's API key" in process.output()) == (name == "first")
    return external


def test_the_schema_is_migrated_once_and_whole(migrated: str) -> None:
    async def applied(database: Database) -> list[str]:
        return [row["name"] for row in await database.fetch("SELECT name FROM migrations ORDER BY number")]

    assert with_database(migrated, applied) == [migration.name for migration in migrations()]


def test_jobs_run_from_end_to_end_on_the_oldest_supported_version(migrated: str) -> None:
    with Sink() as sink, fleet(migrated) as api:
        target = {"kind": "http", "url": f"{sink.url}/fail/1"}
        retry = {"initial_backoff": "50ms"}
        once = api.create(schedule={"in": "300ms"}, target=target, retry=retry)
        often = api.create(
            schedule={"every": "1s", "max_fires": 2}, target=target | {"url": f"{sink.url}/ok"}
        )
        assert [a["verdict"] for a in api.wait_for(once, "succeeded")["attempts"]] == ["failed", "succeeded"]
        wait_for(lambda: api.job(often)["state"] == "completed", 20, "the recurring job does not complete")
        wait_for(lambda: len(sink.of_job(often["id"])) == 2, 20, "the recurring job does not fire twice")
        assert [hit.attempt for hit in sink.of_job(once["id"])] == [1, 2]
        _pause_cancel_retry(api)


def _pause_cancel_retry(api: RealApi) -> None:
    """Every statement that changes a job, once."""
    job = api.create(schedule={"in": "1h"})
    for action, state in (("pause", "paused"), ("resume", "active")):
        assert api.post(f"/v1/jobs/{job['id']}/{action}").json()["job"]["state"] == state
    execution = api.execution(job)
    assert api.post(f"/v1/executions/{execution['id']}/cancel").json()["state"] == "cancelled"
    assert api.post(f"/v1/executions/{execution['id']}/retry").status == 202
    assert api.wait_for(job, "succeeded")["id"] == execution["id"]
    other = api.create(schedule={"every": "1h"})
    assert api.post(f"/v1/jobs/{other['id']}/run").status == 202
    assert api.post(f"/v1/jobs/{other['id']}/cancel").json()["job"]["state"] == "cancelled"
    assert api.delete(f"/v1/jobs/{other['id']}").status == 200


def test_serve_uses_the_database_it_is_given_and_starts_none_of_its_own(
    migrated: str, tmp_path: Path
) -> None:
    with Processes(tmp_path) as processes:
        port = free_port()
        serve = processes.tocsin(
            "serve", "serve", "--port", str(port), "--engines", "1", "--database-url", migrated, cwd=tmp_path,
            admin_key="a-key-that-is-long-enough",
        )  # fmt: skip
        serve.start()
        api = RealApi(port, "a-key-that-is-long-enough")
        api.wait_until_ready(serve)
        assert api.wait_for(api.create(schedule={"now": True}), "succeeded")
        assert not (tmp_path / ".tocsin" / "postgres").exists()
        serve.terminate()
        assert serve.wait(40) == 0, serve.last_words()
        assert PASSWORD not in serve.output()
