"""The embedded PostgreSQL: one owner per directory, nothing left behind, nothing lost, nobody else harmed."""

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.postgres import temporary_directory
from tests.support.processes import descendants_of, state_of, wait_for
from tocsin.db import account, embedded
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.pool import open_connection
from tocsin.domain.errors import Refused, Unavailable

AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root runs the server under another account")


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory that the server's account can reach."""
    directory = temporary_directory()
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def initialised() -> Iterator[Path]:
    """A data directory that was started and stopped once."""
    directory = temporary_directory()
    _start_and_stop(directory / "data", "CREATE TABLE public.kept AS SELECT 'from the first start' AS words")
    yield directory / "data"
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def data(initialised: Path, place: Path) -> Path:
    """A copy of the initialised directory, with its owners."""
    subprocess.run(["cp", "-a", initialised, place / "data"], check=True)
    return place / "data"


def _start_and_stop(data: Path, query: str = "SELECT words FROM public.kept") -> str | None:
    return asyncio.run(_with_server(EmbeddedServer(data), query))


async def _with_server(server: EmbeddedServer, query: str) -> str | None:
    await server.start()
    try:
        return await _ask(server, query)
    finally:
        await server.stop()


async def _ask(server: EmbeddedServer, query: str) -> str | None:
    connection = await open_connection(server.url, name="test")
    try:
        found: str | None = await connection.fetchval(query)
        return found
    finally:
        await connection.close()


def _pid(data: Path) -> int:
    return int((data / "postgres" / "postmaster.pid").read_text().split()[0])


def _account() -> pwd.struct_passwd:
    """Who the server runs as."""
    return (
        pwd.getpwuid(os.geteuid()) if not AS_ROOT else (account._lookup("postgres") or pwd.getpwnam("nobody"))
    )


def test_the_first_start_makes_a_cluster_that_only_its_owner_can_enter(initialised: Path) -> None:
    for name in ("postgres", "run"):
        assert stat.S_IMODE((initialised / name).stat().st_mode) == 0o700
    assert stat.S_IMODE((initialised / "postgres.log").stat().st_mode) == 0o600
    assert not (initialised / "postgres.new").exists()


def test_the_next_start_finds_what_the_first_one_left(data: Path) -> None:
    assert _start_and_stop(data) == "from the first start"


def test_a_clean_stop_leaves_no_process_no_pid_file_and_a_free_lock(data: Path) -> None:
    async def scenario() -> None:
        server = EmbeddedServer(data)
        await server.start()
        pid = _pid(data)
        family = [pid, *descendants_of(pid)]
        assert len(family) > 3
        await server.stop()
        assert not server.alive()
        assert [state_of(member) for member in family] == ["X"] * len(family)

    asyncio.run(scenario())
    assert not (data / "postgres" / "postmaster.pid").exists()
    assert list((data / "run").iterdir()) == []
    assert "shut down" in (data / "postgres.log").read_text().splitlines()[-1]
    assert _start_and_stop(data) == "from the first start"


def test_the_server_is_durable_and_listens_on_its_socket_only(data: Path) -> None:
    query = (
        "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE name = ANY ($1)"
    )

    async def scenario() -> str:
        server = EmbeddedServer(data)
        await server.start()
        connection = await open_connection(server.url, name="test")
        names = ["fsync", "full_page_writes", "listen_addresses", "synchronous_commit", "data_checksums"]
        settings: str = await connection.fetchval(query, names)
        await connection.close()
        await server.stop()
        return settings

    settings = asyncio.run(scenario())
    assert (
        settings == "data_checksums=on fsync=on full_page_writes=on listen_addresses= synchronous_commit=on"
    )


def test_a_second_owner_is_refused_and_told_who_the_first_one_is(data: Path) -> None:
    async def scenario() -> None:
        first = EmbeddedServer(data)
        await first.start()
        pid = _pid(data)
        with pytest.raises(
            Refused, match=rf"in use by another `tocsin serve` \(pid {os.getpid()}\)"
        ) as refused:
            await EmbeddedServer(data).start()
        assert refused.value.field == "data_dir"
        assert refused.value.hint
        assert (_pid(data), first.alive()) == (pid, True)
        await first.stop()

    asyncio.run(scenario())


def test_an_orphaned_server_is_stopped_and_its_directory_opened_again(data: Path) -> None:
    async def scenario() -> None:
        orphan = EmbeddedServer(data)
        await orphan.start()
        await _ask(orphan, "INSERT INTO public.kept VALUES ('by the orphan')")
        pid = _pid(data)
        assert orphan._lock is not None
        orphan._lock.close()  # as if its owner had died without a word
        heir = EmbeddedServer(data)
        assert (
            await _with_server(heir, "SELECT words FROM public.kept WHERE words LIKE 'by%'")
            == "by the orphan"
        )
        assert state_of(pid) in "ZX"

    asyncio.run(scenario())


def test_a_killed_server_recovers_everything_that_was_committed(data: Path) -> None:
    async def scenario() -> None:
        server = EmbeddedServer(data)
        await server.start()
        await _ask(server, "INSERT INTO public.kept VALUES ('before the crash')")
        family = [_pid(data), *descendants_of(_pid(data))]
        for member in family:
            with suppress(ProcessLookupError):  # a backend that saw the others go is gone by itself
                os.kill(member, signal.SIGKILL)
        wait_for(lambda: not server.alive(), 10, "the server does not die")
        assert (data / "postgres" / "postmaster.pid").exists()
        await server.start()  # as the supervisor does, keeping the lock
        assert (
            await _ask(server, "SELECT words FROM public.kept WHERE words LIKE 'before%'")
            == "before the crash"
        )
        await server.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("content", ["", "garbage\n", "999999999\n", "1\n"])
def test_a_pid_file_that_names_no_server_does_not_stand_in_the_way(data: Path, content: str) -> None:
    file = data / "postgres" / "postmaster.pid"
    file.write_text(content)
    os.chown(file, _account().pw_uid, _account().pw_gid)
    assert _start_and_stop(data) == "from the first start"


def test_a_pid_that_belongs_to_another_program_by_now_does_not_stand_in_the_way(data: Path) -> None:
    account = _account()
    extra = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if AS_ROOT else {}
    bystander = subprocess.Popen(["sleep", "60"], cwd="/", **extra)  # type: ignore[call-overload]
    try:
        for file in (data / "postgres" / "postmaster.pid", data / "run" / ".s.PGSQL.5432.lock"):
            file.write_text(f"{bystander.pid}\n{data / 'postgres'}\n1\n5432\n")
            os.chown(file, account.pw_uid, account.pw_gid)
        assert _start_and_stop(data) == "from the first start"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_pid_that_belongs_to_another_postgres_by_now_leaves_that_one_alone(
    data: Path, initialised: Path
) -> None:
    async def scenario() -> None:
        other = EmbeddedServer(initialised)
        await other.start()
        file = data / "postgres" / "postmaster.pid"
        file.write_text(f"{_pid(initialised)}\n{data / 'postgres'}\n1\n5432\n")
        os.chown(file, _account().pw_uid, _account().pw_gid)
        assert (
            await _with_server(EmbeddedServer(data), "SELECT words FROM public.kept")
            == "from the first start"
        )
        assert other.alive()
        assert await _ask(other, "SELECT words FROM public.kept") == "from the first start"
        await other.stop()

    asyncio.run(scenario())


def test_the_server_dies_with_its_owner_however_that_dies(data: Path) -> None:
    script = textwrap.dedent("""
        import asyncio, pathlib, sys
        from tocsin.db.embedded import EmbeddedServer
        async def main():
            await EmbeddedServer(pathlib.Path(sys.argv[1])).start()
            print("up", flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """)
    owner = subprocess.Popen([sys.executable, "-c", script, str(data)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    while owner.stdout.readline() != "up\n":
        assert owner.poll() is None
    pid = _pid(data)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for(lambda: state_of(pid) in "ZX", 20, "the server outlives its owner")
    assert _start_and_stop(data) == "from the first start"


@pytest.mark.parametrize("name", ["d" * 120, "a, b", 'it\'s a "name"', "100% ünïcödé?b=c&d#e\n"])
def test_a_directory_of_any_name_works(data: Path, name: str) -> None:
    moved = data.parent / name
    data.rename(moved)
    assert _start_and_stop(moved) == "from the first start"
    assert len(os.fsencode(EmbeddedServer(moved)._sockets)) < 100
    stand_in = EmbeddedServer(moved)._sockets
    if not stand_in.is_relative_to(moved):
        shutil.rmtree(stand_in)


def test_a_relative_directory_is_the_same_one_after_a_change_of_directory(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    server = EmbeddedServer(Path("data"))
    monkeypatch.chdir("/")
    assert asyncio.run(_with_server(server, "SELECT words FROM public.kept")) == "from the first start"


def test_an_initialisation_that_failed_or_was_cut_short_is_begun_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = place / "data"
    monkeypatch.setattr(embedded, "_program", lambda name: "/bin/false")
    server = EmbeddedServer(data)
    with pytest.raises(Unavailable, match="initdb failed"):
        asyncio.run(server.start())
    asyncio.run(server.stop())
    monkeypatch.undo()
    assert not (data / "postgres.new").exists()
    (data / "postgres.new").mkdir()
    (data / "postgres.new" / "PG_VERSION").write_text("18\n")
    careful = os.umask(0o077)  # must not lock the server's account out
    try:
        assert _start_and_stop(data, "SELECT 'well'") == "well"
    finally:
        os.umask(careful)


@pytest.mark.parametrize("path", ["/proc/tocsin", "/dev/null", "/dev/null/inside"])
def test_a_place_that_cannot_be_a_data_directory_is_refused_in_words(path: str) -> None:
    with pytest.raises(Refused, match="cannot use") as refused:
        asyncio.run(EmbeddedServer(Path(path)).start())
    assert refused.value.field == "data_dir"


def test_a_socket_directory_that_somebody_else_laid_out_is_not_used(place: Path) -> None:
    server = EmbeddedServer(place / ("d" * 120))
    assert not server._sockets.is_relative_to(place)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    server._sockets.symlink_to(elsewhere)
    try:
        with pytest.raises(Refused, match="belongs to another user"):
            asyncio.run(server.start())
    finally:
        asyncio.run(server.stop())
        server._sockets.unlink()
    assert elsewhere.stat().st_uid == os.geteuid()


@needs_root
def test_root_can_keep_the_data_where_only_root_can_go(data: Path) -> None:
    data.parent.chmod(0o700)
    assert _start_and_stop(data) == "from the first start"
    data.chmod(0o700)
    assert _start_and_stop(data) == "from the first start"


@needs_root
def test_root_can_keep_the_programs_where_only_root_can_go(
    data: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    (closed / "bin").symlink_to(Path(embedded._program("postgres")).parent)
    monkeypatch.setattr(embedded, "_program", lambda name: str(closed / "bin" / name))
    assert _start_and_stop(data) == "from the first start"
    assert _start_and_stop(place / "fresh", "SELECT 'well'") == "well"


@needs_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is needed to become another user")
def test_an_ordinary_user_can_run_the_server_and_root_later_runs_it_as_that_user(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    home = place / "home"
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    # The capability is for this interpreter, which may lie in a directory that is closed to others.
    become = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    become += [*account.PASSAGE, "--"]
    script = (
        "import asyncio, pathlib, sys; from tocsin.db.embedded import EmbeddedServer;"
        "server = EmbeddedServer(pathlib.Path(sys.argv[1]));"
        "asyncio.run(server.start()); asyncio.run(server.stop()); print('well')"
    )
    done = subprocess.run(
        [*become, sys.executable, "-c", script, str(home / "data")],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("well\n"), done.stderr
    assert _start_and_stop(home / "data", "SELECT 'well'") == "well"
    assert (home / "data" / "postgres" / "global" / "pg_control").stat().st_uid == nobody.pw_uid
