"""An upgrade without downtime, as the guide says: this build's migrations and processes take over from an
older build's, one by one, under load. `TEST_UPGRADE_MINUTES=60` lets both work side by side for that long."""

import os
from pathlib import Path

from tests.acceptance.fleet import Fleet, run, until
from tests.acceptance.fleet_load import now
from tests.support.history import SECOND
from tests.support.older_build import older_build
from tests.support.postgres import Cluster

SIDE_BY_SIDE = float(os.environ.get("TEST_UPGRADE_MINUTES", "0"))


def test_an_older_build_and_this_one_work_side_by_side_and_clients_see_no_error(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.empty_database()  # so that it begins with the older build's schema
    older = older_build(tmp_path / "older")

    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=3, seed=60, build=older) as fleet:
            before = await newest_known(fleet)
            await fleet.load.everies(40, until=now() + round((15 + SIDE_BY_SIDE * 60) * SECOND))
            async with fleet.under_load(per_second=40):
                await fleet.migrate_to_this_build()
                await fleet.replace(fleet.nodes[0])
                await both_end_executions(fleet)
                await fleet.replace_api()
                await both_end_executions(fleet)
                enough = now() + round(SIDE_BY_SIDE * 60 * SECOND)
                while now() < enough:
                    await both_end_executions(fleet)
                for node in fleet.nodes[1:]:
                    await fleet.replace(node)
            verdict = await fleet.judge()
            assert {create.answer for create in fleet.load.creates} == {"ok"}, "clients saw an error"
            assert verdict.counts["attempts lost"] == 0
            after = await newest_known(fleet)
            assert len(before) == len(after) == 1
            assert min(after) > max(before), "the older build was this one"

    run(scenario())
    cluster.drop(url)


async def newest_known(fleet: Fleet) -> set[int]:
    """The newest migrations that live nodes know."""
    rows = await fleet.query("SELECT schema AS n FROM nodes WHERE expires_at > clock_timestamp()")
    return {row["n"] for row in rows}


async def both_end_executions(fleet: Fleet) -> None:
    """Wait until live nodes of both builds have ended some executions each from now on."""

    async def ended() -> bool:
        rows = await fleet.query(
            "SELECT n.schema AS build, count(*) AS ended FROM history h JOIN nodes n ON n.id = h.node_id"
            " WHERE n.expires_at > clock_timestamp() AND h.finished_at >= $1 GROUP BY 1",
            begun,
        )
        return len(rows) == 2 and all(row["ended"] >= 20 for row in rows)

    begun = now()
    await until(ended, 30, "one of the builds ends nothing")
