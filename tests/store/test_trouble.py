"""When the database falls silent: what is known of a change, and for how long anybody waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.wire import Wire
from tocsin.db.pool import Database, open_connection, open_database
from tocsin.domain.errors import OutcomeUnknown, Refused, Unavailable

TIMEOUT = 1.0
CHANGE = "INSERT INTO tenants (name) VALUES ($1)"


@asynccontextmanager
async def over_a_wire(url: str) -> AsyncIterator[tuple[Database, Wire]]:
    async with Wire(url) as wire:
        database = await open_database(wire.url, name="test", timeout=TIMEOUT, size=2)
        try:
            yield database, wire
        finally:
            wire.mend()
            await database.close()


async def names(url: str) -> list[str]:
    """The tenants that there are."""
    connection = await open_connection(url, name="test observer")
    try:
        return [row["name"] for row in await connection.fetch("SELECT name FROM tenants ORDER BY id")]
    finally:
        await connection.close()


async def trouble(database: Database, change: str = CHANGE) -> type[Unavailable]:
    """What a change says that fails."""
    with pytest.raises(Unavailable) as caught:
        await database.execute(change, "acme")
    assert "127.0.0.1" not in caught.value.detail
    return caught.type


async def trouble_of_transaction(
    database: Database, wire: Wire, *, before_the_end: bool
) -> type[Unavailable]:
    """What a transaction says that loses its answers before its last statement, or after it."""

    async def change() -> None:
        async with database.transaction() as session:
            if before_the_end:
                wire.fall_silent()
            await session.execute(CHANGE, "acme")
            wire.fall_silent()

    with pytest.raises(Unavailable) as caught:
        await change()
    return caught.type


def test_a_change_whose_answer_is_lost_may_have_been_made(url: str) -> None:
    async def story() -> None:
        async with over_a_wire(url) as (database, wire):
            await database.execute(CHANGE, "first")  # which prepares the statement
            wire.fall_silent()
            assert await trouble(database) is OutcomeUnknown
            assert "acme" in await names(url)

    asyncio.run(story())


def test_a_change_that_could_not_be_sent_was_not_made(url: str) -> None:
    async def story() -> None:
        async with over_a_wire(url) as (database, wire):
            async with database.connection(), database.connection():  # both that there may be
                assert await trouble(database) is Unavailable
            wire.mend()
            assert "acme" not in await names(url)

    asyncio.run(story())


def test_a_change_that_the_server_gave_up_was_not_made(url: str) -> None:
    async def story() -> None:
        async with over_a_wire(url) as (database, _):
            await database.execute("SET statement_timeout = '50ms'")
            slow = "INSERT INTO tenants (name) SELECT $1 FROM pg_sleep(30)"
            assert await trouble(database, slow) is Unavailable

    asyncio.run(story())


def test_a_transaction_is_only_uncertain_from_its_commit_on(url: str) -> None:
    async def story() -> None:
        async with over_a_wire(url) as (database, wire):
            assert await trouble_of_transaction(database, wire, before_the_end=True) is Unavailable
            assert "acme" not in await names(url)
            wire.mend()
            assert await trouble_of_transaction(database, wire, before_the_end=False) is OutcomeUnknown
            assert "acme" in await names(url)

    asyncio.run(story())


@pytest.mark.parametrize("transaction", [False, True])
def test_a_server_that_fell_silent_is_waited_for_once(url: str, transaction: bool) -> None:
    async def story() -> None:
        async with over_a_wire(url) as (database, wire):
            wire.cut()
            twice = asyncio.Event()
            asyncio.get_running_loop().call_later(1.8 * TIMEOUT, twice.set)
            with pytest.raises(Unavailable):
                await (in_transaction(database) if transaction else database.execute("SELECT 1"))
            assert not twice.is_set()

    async def in_transaction(database: Database) -> None:
        async with database.transaction() as session:
            await session.execute("SELECT 1")

    asyncio.run(story())


def test_a_login_that_is_refused_later_is_no_fault_of_the_caller(url: str) -> None:
    async def story() -> None:
        admin = await open_connection(url, name="test observer")
        await admin.execute("CREATE ROLE doorman LOGIN SUPERUSER")
        theirs = url.replace("tocsin@", "doorman@")
        database = await open_database(theirs, name="doorman", timeout=5)
        try:
            await admin.execute("ALTER ROLE doorman NOLOGIN")
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'doorman'"
            )
            for _ in range(2):  # the first may meet the connection that was ended
                with pytest.raises(Unavailable) as caught:
                    await database.fetchrow("SELECT 1")
            assert "doorman" in str(caught.value)
            assert "doorman" not in caught.value.detail
            with pytest.raises(Refused):
                await open_database(theirs, name="doorman", timeout=5)
        finally:
            await database.close()
            await admin.execute("DROP ROLE doorman")
            await admin.close()

    asyncio.run(story())
