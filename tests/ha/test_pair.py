"""A pair of servers under load: killed, frozen, read-only, moved, slow, alone. Nothing acknowledged is lost,
nobody hangs, and what is due fires again as soon as there is a primary."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.fleet import Fleet, run
from tests.ha.drill import Drill
from tests.ha.forwarder import Forwarder
from tests.ha.servers import RELOAD, USER, Pair, lay_out, run_on
from tests.support.figures import Note
from tests.support.postgres import temporary_directory
from tocsin.db.pool import open_database
from tocsin.store.standing import database_standing

READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = on"
WRITABLE = ("SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only")


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    directory = temporary_directory()
    yield lay_out(directory)
    shutil.rmtree(directory, ignore_errors=True)


def test_a_primary_that_turns_read_only_and_then_freezes_first_in_the_url(
    template: Path, tmp_path: Path, record_property: Note
) -> None:
    async def scenario(pair: Pair) -> None:
        async with Fleet(pair.url, tmp_path, nodes=2) as fleet:
            assert await standing_of_fleet(fleet) == "synchronous"
            drill = Drill(fleet, record_property)
            async with drill.under_load(12):
                async with drill.fault("read-only") as fault:
                    await run_on(pair.primary, READ_ONLY, RELOAD)
                    await fault.is_noticed()
                    await _make_writable(pair)
                    await fault.back(pair.primary)
                async with drill.fault("frozen, first in the URL") as fault:
                    pair.primary.freeze()
                    await fault.is_noticed()
                    pair.standby.promote()
                    await fault.back(pair.standby)
            pair.primary.kill()  # else it would be a second primary once it thaws
            await drill.judge()

    with Pair(template) as pair:
        run(scenario(pair))


async def standing_of_fleet(fleet: Fleet) -> str:
    """What operators are told about the standbys."""
    database = await open_database(fleet.url, name="test observer", size=1)
    try:
        return (await database_standing(database)).kind
    finally:
        await database.close()


async def _make_writable(pair: Pair) -> None:
    """Over a connection that may write although the server says that none may."""
    connection = await asyncpg.connect(
        pair.primary.url, server_settings={"default_transaction_read_only": "off"}
    )
    try:
        for statement in (*WRITABLE, RELOAD):
            await connection.execute(statement)
    finally:
        await connection.close()


def test_a_primary_that_is_killed_behind_an_endpoint_that_moves(
    template: Path, tmp_path: Path, record_property: Note
) -> None:
    async def scenario(pair: Pair, endpoint: Forwarder) -> None:
        url = f"postgresql://{USER}@{endpoint.host}/{USER}"
        async with Fleet(url, tmp_path, nodes=2) as fleet:
            drill = Drill(fleet, record_property)
            async with drill.under_load(10), drill.fault("killed, and the endpoint moves") as fault:
                pair.primary.kill()
                await fault.is_noticed()
                pair.standby.promote()
                endpoint.lead_to(pair.standby.host)
                await fault.back(pair.standby)
            await drill.judge()

    with Pair(template) as pair, Forwarder(pair.primary.host) as endpoint:
        run(scenario(pair, endpoint))


def test_a_synchronous_standby_far_away_and_then_gone(
    template: Path, tmp_path: Path, record_property: Note
) -> None:
    async def scenario(pair: Pair) -> None:
        async with Fleet(pair.url, tmp_path, nodes=2) as fleet:
            drill = Drill(fleet, record_property)
            async with drill.under_load(16):
                await drill.note_lag("over 80 ms", pair.primary, after=3, seconds=3)
                async with drill.fault("standby gone while synchronous") as fault:
                    pair.standby.kill()
                    await fault.is_noticed()
                    await run_on(pair.primary, "ALTER SYSTEM RESET synchronous_standby_names", RELOAD)
                    await fault.back(pair.primary)
            await drill.judge()

    with Pair(template, alone=True) as pair, Forwarder(pair.primary.host, delay=0.04) as distance:
        pair.follow(distance.host)
        pair.replicate_synchronously()
        run(scenario(pair))
