"""Tasks in a mixed fleet: engines of any version leave them alone, a gateway leaves what it cannot read,
workers read newer answers."""

import asyncio

import msgspec

from tests.simulation.workshop import SHARDS, TENANT, Workshop, play
from tests.skew import tomorrow
from tests.skew.test_newer_rows import counted, work, worker_of
from tests.support.queues import CELL
from tocsin.domain.ids import ExecutionKey, execution_text, new_job_id, shard_of
from tocsin.domain.instant import SECOND, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.protocol import Ask, Given, Heard, NewWorker, Registered, TaskOffer
from tocsin.domain.schedule import Schedule
from tocsin.domain.task_target import TaskTarget
from tocsin.failpoints import Failpoints
from tocsin.settings import Settings
from tocsin.store.jobs import NewJob
from tocsin.telemetry import Telemetry
from tocsin.worker.remote.assembly import make_gateway


async def task(shop: Workshop) -> ExecutionKey:
    now = shop.time.now()
    job_id = new_job_id(now)
    definition = Definition(Schedule(at=format_instant(now)), TaskTarget("a"))
    await shop.jobs.define([NewJob(job_id, TENANT, shard_of(job_id, SHARDS), definition, now, now)], now)
    return ExecutionKey(job_id, now)


async def claimed(shop: Workshop, telemetry: Telemetry) -> list[str]:
    """What a worker that knows the task is given by a gateway of this version."""
    clock = shop.time.clock
    parts = make_gateway(
        shop.database, shop.leases, clock, Settings(), telemetry, Failpoints(), node_id=7, cell=CELL
    )
    gateway = parts.gateway
    worker = (await gateway.register(TENANT, "key", NewWorker("w", [TaskOffer("a")]))).worker
    asking = asyncio.create_task(gateway.claim(TENANT, worker, Ask(1, 10)))
    while not asking.done():
        await asyncio.sleep(0)
        await parts.dispatching.service.run_once(clock.now())
    while parts.settler.backlog:
        await parts.settler.run_once(clock.now())
    return [claim.id for claim in (await asking).claims]


def test_a_gateway_leaves_a_task_that_a_newer_version_wrote_and_hands_out_the_others(url: str) -> None:
    async def story(shop: Workshop) -> None:
        plain, strange = await task(shop), await task(shop)
        await tomorrow.write(shop.plain, strange.job_id, """policies = '{"gravity": 9.81}'""")
        telemetry = Telemetry()
        assert await claimed(shop, telemetry) == [execution_text(plain)]
        left = await shop.live(strange)
        assert (left["waits_for"], left["attempt"], left["claim_token"]) == ("version", 1, None)
        assert counted(telemetry, "execution") == 1
        await tomorrow.write(shop.plain, strange.job_id, "policies = '{}'")
        await shop.time.advance(2 * SECOND)
        assert await claimed(shop, telemetry) == [execution_text(strange)]

    play(url, story)


def test_engines_of_any_version_leave_tasks_alone_at_no_cost(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await task(shop)
        await shop.many(10)
        telemetry = Telemetry()
        await work(shop, worker_of(shop, telemetry))
        assert (await shop.count("history"), counted(telemetry, "execution")) == (10, 0)
        assert (await shop.live(key))["attempt"] == 1

    play(url, story)


def test_a_worker_reads_answers_of_a_newer_gateway() -> None:
    more = {"gravity": 9.81}
    given = {"claims": [], "settled": [], "stop": [], "drain": False, "now": "2030-01-01T00:00:00Z"} | more
    assert msgspec.json.decode(msgspec.json.encode(given), type=Given).drain is False
    heard = {"lost": [], "stop": [], "deadline_at": "", "drain": True, "now": ""} | more
    assert msgspec.json.decode(msgspec.json.encode(heard), type=Heard).drain is True
    registered = {
        "worker": "wrk_1",
        "lease_ms": 1,
        "heartbeat_ms": 1,
        "wait_max_ms": 1,
        "batch_max": 1,
        "now": "",
    }
    assert msgspec.json.decode(msgspec.json.encode(registered | more), type=Registered).batch_max == 1
