"""Which builds may work on which schemas, and who is who in a fleet."""

import asyncio

import pytest

from tests.simulation.workshop import Workshop, play
from tocsin.db import migrations as migrations_module
from tocsin.db.migrations import Migration, check_schema, migrate, migrations
from tocsin.db.pool import Database, open_connection, open_database
from tocsin.domain.errors import Refused

NEWEST = migrations()[-1].number
FIRST_MARKED = 9


def test_every_migration_says_beside_which_builds_it_runs() -> None:
    unmarked = [m.name for m in migrations() if m.number >= FIRST_MARKED and m.runs_beside is None]
    assert unmarked == []


@pytest.mark.parametrize("migration", migrations()[FIRST_MARKED - 1 :], ids=lambda migration: migration.name)
def test_no_migration_runs_beside_builds_that_are_yet_to_come(migration: Migration) -> None:
    assert migration.runs_beside is not None
    assert migration.runs_beside <= migration.number


async def migrated_by_newer(url: str, *runs_beside: int | None) -> Database:
    connection = await open_connection(url, name="test")
    for place, number in enumerate(runs_beside, 1):
        await connection.execute(
            "INSERT INTO migrations (number, name, checksum, runs_beside) VALUES ($1, $2, '', $3)",
            NEWEST + place,
            f"of_tomorrow_{place}",
            number,
        )
    await connection.close()
    return await open_database(url, name="test", size=1)


@pytest.mark.parametrize("runs_beside", [[1], [NEWEST], [NEWEST - 1, NEWEST]])
def test_a_build_works_on_a_newer_schema_that_runs_beside_it(url: str, runs_beside: list[int]) -> None:
    async def scenario() -> None:
        database = await migrated_by_newer(url, *runs_beside)
        await check_schema(database)
        await migrate(url)
        await database.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("runs_beside", [[None], [NEWEST + 1], [NEWEST + 1, NEWEST], [NEWEST, NEWEST + 1]])
def test_a_build_refuses_a_newer_schema_that_does_not(url: str, runs_beside: list[int | None]) -> None:
    async def scenario() -> None:
        database = await migrated_by_newer(url, *runs_beside)
        with pytest.raises(Refused, match=r"newer version: migration of_tomorrow_\d .* this build"):
            await check_schema(database)
        with pytest.raises(Refused, match="newer version"):
            await migrate(url)
        await database.close()

    asyncio.run(scenario())


def test_a_build_refuses_a_schema_that_lacks_its_own_migrations(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        ours = [*migrations(), Migration(NEWEST + 1, "of_today", "SELECT 1")]
        monkeypatch.setattr(migrations_module, "migrations", lambda: ours)
        database = await open_database(url, name="test", size=1)
        with pytest.raises(Refused, match="of_today") as refusal:
            await check_schema(database)
        assert "tocsin migrate" in (refusal.value.hint or "")
        await database.close()

    asyncio.run(scenario())


def test_the_heartbeat_tells_a_node_that_its_schema_was_overtaken(url: str) -> None:
    async def story(shop: Workshop) -> None:
        node = await shop.leases.register("old", ("worker",), "1")
        assert (await shop.leases.renew(node, "{}")).overtaken_by is None
        await (await migrated_by_newer(url, NEWEST, NEWEST + 2)).close()
        assert (await shop.leases.renew(node, "{}")).overtaken_by == "of_tomorrow_2"

    play(url, story)


def test_the_fleet_shows_the_newest_migration_that_each_node_knows(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.leases.register("node", ("worker",), "1.2.3")
        [row] = await shop.leases.nodes()
        assert (row["version"], row["schema"]) == ("1.2.3", NEWEST)

    play(url, story)


def test_a_database_that_jumped_back_to_a_backup_gives_no_id_twice(url: str) -> None:
    async def story(shop: Workshop) -> None:
        first = await shop.leases.register("before the backup was restored", ("worker",), "1")
        await shop.plain.execute("SELECT setval('node_ids', 1, false)")
        await shop.plain.execute("DELETE FROM nodes")
        second = await shop.leases.register("after it", ("worker",), "1")
        await shop.leases.register("before the backup was restored", ("worker",), "1", first)
        assert len({row["id"] for row in await shop.leases.nodes()}) == 2
        assert first != second
        assert max(first, second) < 2**53, "every reader of JSON has to tell ids apart"

    play(url, story)
