"""This build on a schema that the next version has migrated: every table has a column more, and everything
works."""

import asyncio

from tests.simulation.workshop import CLAIM_TTL, TENANT, Workshop, play
from tests.skew import tomorrow
from tests.skew.test_newer_rows import planner_of, scheduler, work, worker_of
from tests.store.test_planning import fires
from tests.support.api import in_process_api
from tocsin.db.pool import open_database
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit, Overlap, Policies
from tocsin.failpoints import Failpoints
from tocsin.scheduler.reclaimer import Reclaimer


def test_executions_are_planned_claimed_retried_reclaimed_and_settled_on_wider_tables(url: str) -> None:
    async def story(shop: Workshop) -> None:
        tables = await tomorrow.widen(shop.plain)
        assert {"jobs", "executions", "lanes", "history", "slots", "nodes", "shards"} <= set(tables)
        plain, limited = await shop.once(), await shop.once(policies=Policies(limit=Limit("mail", 1)))
        alone = await shop.recurring(10 * SECOND, Policies(overlap=Overlap.QUEUE))
        node, held, telemetry = await scheduler(shop)
        planner = planner_of(shop, node, held, telemetry)
        await planner.run_once(shop.time.now())
        assert len(await fires(shop, alone)) == 3
        await work(shop, worker_of(shop, node_id=node))
        assert [len(await shop.past(key)) for key in (plain, limited)] == [1, 1]

        queue = shop.worker(2)
        lost, failed = await shop.once(), await shop.once()
        claims = {claim.key: claim for claim in await shop.claim(queue)}
        await queue.settling.retry([shop.again(claims[failed])])
        await shop.time.advance(round(CLAIM_TTL * SECOND) + 1)
        queue = shop.worker(9)
        reclaimer = Reclaimer(
            queue.reclaiming, queue.healing, held, telemetry, Failpoints(), claim_ttl=CLAIM_TTL
        )
        for _ in range(3):
            await reclaimer.run_once(shop.time.now())
        assert [(await shop.live(key))["attempt"] for key in (lost, failed)] == [2, 2]
        await shop.pausing.pause(TENANT, alone, "for a while", None)
        assert await fires(shop, alone) == []

    play(url, story)


def test_the_api_works_on_wider_tables(url: str) -> None:
    async def widen() -> None:
        database = await open_database(url, name="test", size=1)
        await tomorrow.widen(database)
        await database.close()

    asyncio.run(widen())
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"}, name="hourly")
        assert api.post(f"/v1/jobs/{job['id']}/run").status in {200, 201, 202}
        execution = api.executions(job)[0]
        assert api.get(f"/v1/executions/{execution['id']}/explain").status == 200
        assert api.post(f"/v1/executions/{execution['id']}/cancel").status == 200
        assert api.post(f"/v1/jobs/{job['id']}/pause").status == 200
        assert api.get("/v1/stats/summary").status == 200
        assert api.get("/v1/audit").status == 200
        assert api.delete(f"/v1/jobs/{job['id']}").status == 200
