"""The commands that start processes: what they say when they cannot, and how they end."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.api import ADMIN_KEY, RealApi
from tests.support.postgres import Cluster
from tests.support.processes import Processes, descendants_of, free_port, state_of, wait_for


def _tocsin(
    *words: str, cwd: Path | None = None, patience: float = 60, **settings: str
) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    environment |= {f"TOCSIN_{name.upper()}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "tocsin", *words],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=patience,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value"),
    [("port", "high"), ("lease_ttl", "soon"), ("allow_loopback", "perhaps")],
)
def test_a_setting_that_cannot_be_read_is_refused_by_the_name_of_its_variable(
    tmp_path: Path, setting: str, value: str
) -> None:
    done = _tocsin("serve", cwd=tmp_path, **{setting: value})
    assert done.returncode == 2
    assert f"TOCSIN_{setting.upper()}" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _tocsin("serve", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "in use" in done.stderr
    assert "while attempting" not in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--port", "70000"], ["--host", "999.1.1.1"]])
def test_an_address_that_is_none_is_told(tmp_path: Path, words: list[str]) -> None:
    done = _tocsin("serve", *words, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert words[1] in done.stderr
    assert words[0] in done.stderr, "the option to change"


def test_a_data_directory_that_cannot_be_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _tocsin("serve", "--port", str(free_port()), "--data-dir", str(tmp_path / "file"))
    assert done.returncode == 1
    assert "data_dir" in done.stderr
    assert "--data-dir" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("role", ["api", "worker", "migrate"])
def test_a_role_without_a_database_is_told_what_it_needs(role: str) -> None:
    done = _tocsin(role)
    assert done.returncode == 2
    assert "TOCSIN_DATABASE_URL" in done.stderr


@pytest.mark.parametrize("url", ["mysql://127.0.0.1/x", "{server}/no_such_database"])
def test_a_database_url_that_can_never_work_is_told_at_once(cluster: Cluster, url: str) -> None:
    try:
        missing = cluster.url("no_such_database")
        done = _tocsin(
            "api", "--port", str(free_port()), database_url=missing if "{" in url else url, patience=20
        )
    except subprocess.TimeoutExpired:
        pytest.fail("it waits for ever")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_a_database_without_the_schema_is_told_to_be_migrated(cluster: Cluster) -> None:
    done = _tocsin("api", "--port", str(free_port()), database_url=cluster.empty_database())
    assert done.returncode == 1
    assert "tocsin migrate" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_administrators_key_that_is_too_short_is_refused_without_being_shown(
    url: str, tmp_path: Path
) -> None:
    key = "fifteen-letters"
    done = _tocsin("migrate", cwd=tmp_path, database_url=url, admin_key=key)
    assert done.returncode == 1
    assert "TOCSIN_ADMIN_KEY" in done.stderr
    assert key not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "key",
    ["  with spaces around it  ", "schlüssel-für-alle-fälle", "tocsin_looks_like-one-of-ours", "k" * 600],
)
def test_an_administrators_key_that_could_never_be_presented_is_refused(
    url: str, tmp_path: Path, key: str
) -> None:
    done = _tocsin("migrate", cwd=tmp_path, database_url=url, admin_key=key)
    assert done.returncode != 0
    assert "TOCSIN_ADMIN_KEY" in done.stderr


def test_an_api_on_port_0_says_which_port_the_kernel_chose(url: str, tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        process = processes.tocsin("api", "api", "--port", "0", database_url=url, log_format="json")
        process.start()
        wait_for(lambda: "api.listening" in process.output(), 30, "it does not say where it listens")
        port = int(process.output().partition("http://127.0.0.1:")[2].partition('"')[0])
        api = RealApi(port)
        api.wait_until_ready(process)
        assert api.get("/v1/jobs").status == 401
        process.terminate()
        assert process.wait(30) == 0


def test_serve_shows_the_key_once_and_keeps_it_for_the_owner_and_the_cli(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with Processes(tmp_path) as processes:
        port = free_port()
        words = ("serve", "--port", str(port), "--engines", "1", "--data-dir", "here")
        serve = processes.tocsin("serve", *words, cwd=tmp_path)
        serve.start()
        api = RealApi(port)
        api.wait_until_ready(serve, 60)
        file = tmp_path / "here" / "admin-key"
        key = file.read_text().strip()
        assert file.stat().st_mode & 0o777 == 0o600
        assert serve.output().count(key) == 1
        url = f"http://127.0.0.1:{port}"
        done = _tocsin("jobs", "create", "--now", "--noop", cwd=tmp_path, url=url, data_dir="here")
        assert done.returncode == 0, done.stderr
        second = _tocsin("serve", "--port", str(free_port()), "--data-dir", "here", cwd=tmp_path)
        assert (second.returncode, "in use by another" in second.stderr) == (1, True)
        family = descendants_of(serve.pid)
        serve.terminate()
        assert serve.wait(60) == 0, serve.last_words()
        assert {state_of(pid) for pid in family} == {"X"}
        serve.start()
        RealApi(port, key).wait_until_ready(serve, 60)
        assert serve.output().count(key) == 1
        assert len(RealApi(port, key).get("/v1/jobs", key=key).json()["items"]) == 1
        assert ADMIN_KEY not in serve.output()
        serve.terminate()
        assert serve.wait(60) == 0
