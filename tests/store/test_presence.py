"""Whether the database is there: who finds out, who waits, and how it is found again."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.postgres import temporary_directory
from tests.support.processes import free_port, wait_for
from tests.support.wire import Wire
from tocsin.db.patience import patient_for
from tocsin.db.pool import Database, open_connection, open_database
from tocsin.db.presence import Presence
from tocsin.db.readiness import Readiness
from tocsin.domain.errors import OutcomeUnknown, Refused, Unavailable

CHANGE = "INSERT INTO tenants (name) VALUES ('acme')"


@asynccontextmanager
async def opened(where: str | Presence, **options: object) -> AsyncIterator[Database]:
    database = await open_database(where, name="test", **{"timeout": 30.0, "size": 2, **options})  # type: ignore[arg-type]
    try:
        yield database
    finally:
        await database.close()


async def works_again(database: Database) -> None:
    while True:
        try:
            await database.fetchrow("SELECT 1")
        except Unavailable:
            await asyncio.sleep(0.02)
        else:
            return


async def in_transaction(database: Database, *statements: str) -> None:
    async with database.transaction() as session:
        for statement in statements:
            await session.execute(statement)


def test_a_silent_host_that_comes_first_does_not_keep_us_from_the_next(url: str) -> None:
    async def story() -> None:
        async with Wire(url) as frozen, Wire(url) as good:
            frozen.cut()
            both = f"{urlsplit(frozen.url).netloc},{urlsplit(good.url).netloc.partition('@')[2]}"
            async with opened(urlsplit(good.url)._replace(netloc=both).geturl()) as database:
                assert await database.fetchrow("SELECT 1")

    asyncio.run(story())


def test_a_server_that_hangs_is_away_long_before_statements_time_out_and_is_found_again(url: str) -> None:
    async def story() -> None:
        async with Wire(url) as wire, opened(wire.url) as database:
            back = asyncio.Event()
            database.presence.on_back(back.set)
            wire.cut()
            async with asyncio.timeout(10):  # of the 30 s that a statement may take
                with pytest.raises(OutcomeUnknown):
                    await database.execute(CHANGE)
            with pytest.raises(Unavailable, match="not available"):
                database.presence.refuse_if_away()
            with pytest.raises(Unavailable):  # at once: nothing is asked
                await database.fetchrow("SELECT 1")
            assert not back.is_set()
            wire.mend()
            await asyncio.wait_for(back.wait(), 10)
            await database.execute("SELECT 1")

    asyncio.run(story())


def test_a_server_that_is_slow_to_answer_at_the_start_is_waited_for(url: str) -> None:
    async def story() -> None:
        async with Wire(url) as wire:
            wire.cut()
            asyncio.get_running_loop().call_later(2.5, wire.mend)  # a little more than one try may take
            async with opened(wire.url) as database:
                assert await database.fetchrow("SELECT 1")

    asyncio.run(story())


def test_a_slow_statement_is_left_alone_while_the_server_answers_others(url: str) -> None:
    async def story() -> None:
        async with opened(url, size=1) as database:
            assert await database.fetchrow("SELECT pg_sleep(2.2)")
            database.presence.refuse_if_away()

    asyncio.run(story())


def test_a_server_that_turns_read_only_is_left_and_not_ready_until_it_can_be_written_to(url: str) -> None:
    async def story() -> None:
        admin = await open_connection(url, name="test observer")
        async with opened(url) as database:
            ready = Readiness(database.presence)
            await ready.check()
            try:
                await admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
                await admin.execute("SELECT pg_reload_conf()")
                await turns(ready, well=False)
                with pytest.raises(Unavailable):
                    await database.execute(CHANGE)
            finally:
                await admin.execute("SET default_transaction_read_only = off")
                await admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
                await admin.execute("SELECT pg_reload_conf()")
            await turns(ready, well=True)
            await database.execute(CHANGE)
        await admin.close()

    asyncio.run(story())


def test_a_write_that_meets_a_read_only_server_closes_every_connection_to_it(url: str) -> None:
    async def story() -> None:
        async with opened(url) as database:
            with pytest.raises(Unavailable):
                await in_transaction(database, "SET TRANSACTION READ ONLY", CHANGE)
            with pytest.raises(Unavailable, match="read-only"):
                database.presence.refuse_if_away()
            await asyncio.wait_for(works_again(database), 10)

    asyncio.run(story())


async def turns(ready: Readiness, *, well: bool) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await ready.check()
            except Unavailable:
                if not well:
                    return
            else:
                if well:
                    return
            await asyncio.sleep(0.02)


def test_a_process_is_not_ready_on_a_schema_that_does_not_fit(url: str) -> None:
    async def story() -> None:
        async with opened(url) as database:
            await Readiness(database.presence).check()
            await database.execute("INSERT INTO migrations (number, name, checksum) VALUES (9999, 'x', 'y')")
            with pytest.raises(Unavailable, match="schema"):
                await Readiness(database.presence).check()

    asyncio.run(story())


def test_several_statements_share_the_patience_of_their_caller(url: str) -> None:
    async def story() -> None:
        async with opened(url) as database:
            with patient_for(1.0), pytest.raises(Unavailable):
                await in_transaction(database, CHANGE, "SELECT pg_sleep(20)")
            with patient_for(1.0), pytest.raises(OutcomeUnknown):
                await database.execute("INSERT INTO tenants (name) SELECT 'x' FROM pg_sleep(20)")
            assert not await database.fetch("SELECT FROM tenants WHERE name IN ('acme', 'x')")

    asyncio.run(story())


@pytest.mark.parametrize(
    "word", ["sslmode=strict", "flavour=sweet", "work_mem=soon", "sslnegotiation=x", "port=x"]
)
def test_a_wrong_word_in_the_url_is_refused_and_not_waited_for(url: str, word: str) -> None:
    with pytest.raises(Refused) as caught:
        asyncio.run(open_database(f"{url}&{word}", name="test"))
    assert caught.value.field == "database_url"


IGNORED = (
    "search_path,timezone,jit,statement_timeout,idle_in_transaction_session_timeout,"
    "tcp_user_timeout,tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count"
)


@pytest.fixture(params=["", f"ignore_startup_parameters = {IGNORED}\n"], ids=["refusing", "ignoring"])
def pooled(url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of the database behind a PgBouncer that shares sessions."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    directory, port, parts = temporary_directory(), free_port(), urlsplit(url)
    directory.chmod(0o777)
    (directory / "users").write_text(f'"{parts.username}" ""\n')
    (directory / "ini").write_text(
        f"[databases]\n* = host={parse_qs(parts.query)['host'][0]} user={parts.username}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
        f"auth_file = {directory / 'users'}\nlogfile = {directory / 'log'}\n{request.param}"
    )
    account = ["-u", "postgres"] if Path("/proc/self").owner() == "root" else []
    process = subprocess.Popen([program, *account, str(directory / "ini")], stderr=subprocess.DEVNULL)
    wait_for(lambda: "process up" in _text(directory / "log"), 10, "pgbouncer is not up")
    yield f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}"
    process.kill()
    process.wait()
    shutil.rmtree(directory, ignore_errors=True)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_a_pooler_in_front_is_recognised_and_refused(pooled: str) -> None:
    with pytest.raises(Refused, match="there is a connection pooler in front") as caught:
        asyncio.run(open_database(pooled, name="test", pinned=False))
    assert caught.value.field == "database_url"
