"""An upgrade under way: what this build wrote, the next version plans, runs, decides, reclaims and shows as
this one does. Each story is told once under our rules and once under the next version's."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tests.simulation.workshop import CLAIM_TTL, TENANT, Workshop, play
from tests.skew import tomorrow
from tests.skew.test_newer_rows import planner_of, scheduler, work, worker_of
from tests.store.test_planning import fires
from tests.support.api import in_process_api
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit, Misfire, MisfirePolicy, Overlap, Policies, Retry
from tocsin.failpoints import Failpoints
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.store.misfires import MisfireStore

Rules = Callable[[], AbstractContextManager[None]]
either = pytest.mark.parametrize("rules", [nullcontext, tomorrow.rules], ids=["ours", "next"])
MISSED = "UPDATE executions SET missed_after = tocsin_now() - interval '1 second'"


@either
def test_recurring_jobs_are_planned(url: str, rules: Rules) -> None:
    async def story(shop: Workshop) -> None:
        jobs = [await shop.recurring(10 * SECOND), await shop.recurring(7 * SECOND, jitter="2s")]
        with rules():
            node, held, telemetry = await scheduler(shop)
            await planner_of(shop, node, held, telemetry).run_once(shop.time.now())
        assert [len(await fires(shop, job_id)) for job_id in jobs] == [3, 5]

    play(url, story)


@either
def test_missed_fires_are_decided_by_their_policy(url: str, rules: Rules) -> None:
    async def story(shop: Workshop) -> None:
        policies = [
            Policies(misfire=Misfire(policy)) for policy in (MisfirePolicy.SKIP, MisfirePolicy.FIRE_ONCE)
        ]
        jobs = [await shop.recurring(10 * SECOND, policies) for policies in policies]
        node, held, telemetry = await scheduler(shop)
        await planner_of(shop, node, held, telemetry).run_once(shop.time.now())
        await shop.plain.execute(MISSED)
        with rules():
            asked = [(TENANT, job_id) for job_id in jobs]
            decided = await MisfireStore(shop.database).decide(asked, shop.time.now())
        assert (decided.late, decided.dropped, decided.behind) == (1, 5, set())

    play(url, story)


@either
def test_executions_that_must_not_overlap_or_exceed_a_limit_do_not(url: str, rules: Rules) -> None:
    async def story(shop: Workshop) -> None:
        solo = await shop.recurring(10 * SECOND, Policies(overlap=Overlap.SKIP))
        node, held, telemetry = await scheduler(shop)
        await planner_of(shop, node, held, telemetry).run_once(shop.time.now())
        limited = [
            await shop.once(30 * SECOND, Policies(limit=Limit("mail", rate=1, per="60s"))) for _ in range(2)
        ]
        await shop.time.advance(31 * SECOND)
        with rules():
            await work(shop, worker_of(shop, node_id=node))
        ran = [len(await shop.past(key)) for key in limited]
        assert sorted(ran) == [0, 1]
        rows = await shop.plain.fetch("SELECT state FROM history WHERE job_id = $1", solo)
        assert sorted(row["state"] for row in rows) == ["skipped", "skipped", "succeeded"]

    play(url, story)


@either
def test_lost_attempts_are_tried_again_by_their_policy(url: str, rules: Rules) -> None:
    async def story(shop: Workshop) -> None:
        keys = [await shop.once(policies=Policies(retry=Retry(max_attempts=count))) for count in (1, 2)]
        await shop.claim(shop.worker(1))
        await shop.time.advance(round(CLAIM_TTL * SECOND) + 1)
        _, held, telemetry = await scheduler(shop)
        queue = shop.worker(9)
        parts: Any = (queue.reclaiming, queue.healing, held, telemetry, Failpoints())
        with rules():
            await Reclaimer(*parts, claim_ttl=CLAIM_TTL).run_once(shop.time.now())
        assert [row["state"] for row in await shop.past(keys[0])] == ["dead"]
        assert (await shop.live(keys[1]))["attempt"] == 2

    play(url, story)


@either
def test_jobs_are_shown_changed_and_run(url: str, rules: Rules) -> None:
    with in_process_api(url) as api:
        body = {
            "name": "hourly",
            "schedule": {"cron": "0 0 1 1 *"},
            "target": {"kind": "http", "url": "https://a.test/"},
        }
        asked = {
            **body,
            "overlap": "queue",
            "limit": {"key": "k", "max_parallel": 2},
            "retry": {"max_attempts": 4},
        }
        job = f"/v1/jobs/{api.create(**asked)['id']}"
        shown, upcoming = api.get(job).json(), api.get(job + "/upcoming").json()
        with rules():
            assert api.get(job).json() == shown
            assert api.get(job + "/upcoming").json() == upcoming
            assert api.call("PATCH", job, b'{"description": "by the next version"}').status == 200
            execution = api.post(job + "/run").json()["id"]
            assert api.get(f"/v1/executions/{execution}/explain").status == 200
            assert api.post(job + "/pause").status == 200
        changed = api.get(job).json()
        kept = {"schedule", "target", "overlap", "limit", "retry", "misfire"}
        assert {name: changed[name] for name in kept} == {name: shown[name] for name in kept}
        assert changed["description"] == "by the next version"
