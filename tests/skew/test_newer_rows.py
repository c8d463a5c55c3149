"""Rows that a newer version wrote: what this one cannot read it leaves to others, and everything else goes
on."""

import contextlib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
import pytest
import structlog

from tests.simulation.virtual_time import VirtualTimer
from tests.simulation.workshop import CLAIM_TTL, SHARDS, TENANT, Workshop, play
from tests.skew.tomorrow import UNKNOWN, UNKNOWN_OFFSET, UNKNOWN_SCHEDULES, UNKNOWN_TARGET, write
from tests.store.test_planning import fires, lease_all
from tests.support.queues import ROUTES
from tocsin.domain.backfill import Mode, Order
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import job_text
from tocsin.domain.instant import MINUTE, SECOND
from tocsin.domain.limits import TenantLimits
from tocsin.domain.policy import Limit, Policies
from tocsin.domain.schedule import rule_of
from tocsin.domain.waits import Reason
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.planner import Planner
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.scheduler.resumer import Resumer
from tocsin.settings import Settings
from tocsin.store.backfills import BackfillStore, NewBackfill
from tocsin.store.logins import LoginStore
from tocsin.store.misfires import MisfireStore
from tocsin.store.plans import PlanStore
from tocsin.store.unread import Unread
from tocsin.targets.caller import Caller
from tocsin.targets.noop.caller import NoopCaller
from tocsin.telemetry import Telemetry
from tocsin.worker.worker import Worker


def worker_of(
    shop: Workshop,
    telemetry: Telemetry | None = None,
    node_id: int = 1,
    callers: Mapping[str, Caller] | None = None,
) -> Worker:
    worker = Worker(
        shop.worker(node_id, routes=[*ROUTES, *(callers or {})]),
        {"noop": NoopCaller(), **(callers or {})},
        shop.time.clock,
        Settings(claim_ttl=CLAIM_TTL),
        telemetry or Telemetry(),
        Failpoints(),
        node_id=node_id,
        misfires=MisfireStore(shop.database),
    )
    VirtualTimer(shop.time.clock, worker.runner)
    return worker


async def work(shop: Workshop, worker: Worker, turns: int = 3) -> None:
    """Let a worker claim and settle what is due."""
    for _ in range(turns):
        worker.claimer.forget_look()
        await worker.claimer.run_once(shop.time.now())
        await worker.starter.run_once(shop.time.now())
        while worker.settler.backlog:
            await worker.settler.run_once(shop.time.now())


def counted(telemetry: Telemetry, kind: str) -> float:
    return telemetry.registry.get_sample_value("tocsin_left_for_newer_total", {"kind": kind}) or 0.0


@pytest.mark.parametrize("change", UNKNOWN)
def test_among_a_hundred_executions_one_that_cannot_be_read_is_left_and_all_others_run(
    url: str, change: str
) -> None:
    async def story(shop: Workshop) -> None:
        await shop.many(50)
        strange = await shop.once()
        await shop.many(50)
        await write(shop.plain, strange.job_id, change)
        telemetry = Telemetry()
        await work(shop, worker_of(shop, telemetry))
        assert await shop.count("history") == 100
        row = await shop.live(strange)
        assert (row["claim_token"], row["started_at"], row["attempt"]) == (None, None, 1)
        assert row["waits_for"] == "version"
        assert msgspec.json.decode(row["waits"])[-1]["for"] == Reason.NEWER
        assert row["run_at"] > shop.time.now()
        assert counted(telemetry, "execution") == 1

    play(url, story)


def test_what_cannot_be_read_is_tried_ever_more_seldom_and_told_of_once(url: str) -> None:
    async def story(shop: Workshop) -> None:
        strange = await shop.once()
        await write(shop.plain, strange.job_id, UNKNOWN_TARGET)
        worker, waits = worker_of(shop), []
        with structlog.testing.capture_logs() as logs:
            for _ in range(9):
                await work(shop, worker)
                row = await shop.live(strange)
                waits.append((row["run_at"] - shop.time.now()) // SECOND)
                await shop.time.advance(row["run_at"] - shop.time.now())
        assert waits == [1, 1, 2, 4, 8, 16, 32, 60, 60]
        told = [entry for entry in logs if entry["event"] == "job.left_for_newer"]
        assert [entry["job"] for entry in told] == [job_text(strange.job_id)]

    play(url, story)


def test_a_newer_worker_has_it_before_an_older_one_claims_it_again(url: str) -> None:
    async def story(shop: Workshop) -> None:
        strange = await shop.once(SECOND)
        await write(shop.plain, strange.job_id, UNKNOWN_TARGET)
        older, newer = worker_of(shop), shop.worker(2)
        await work(shop, older)
        row = await shop.live(strange)
        assert (row["claim_token"], row["run_at"]) == (None, strange.fire_at), "it need not be late"
        [claim] = await shop.claim(newer)
        assert claim.key == strange

    play(url, story)


def test_an_execution_under_a_rate_asks_for_its_place_after_it_waited_for_a_version(url: str) -> None:
    async def story(shop: Workshop) -> None:
        limited = Policies(limit=Limit("mail", rate=1, per="60s"))
        keys = [await shop.once(policies=limited), await shop.once(policies=limited)]
        for key in keys:
            await write(shop.plain, key.job_id, UNKNOWN_TARGET)
        await work(shop, worker_of(shop))
        for key in keys:
            await write(shop.plain, key.job_id, """target = '{"kind": "noop"}'""")
        await shop.time.advance(2 * SECOND)
        await work(shop, worker_of(shop, node_id=2))
        assert await shop.count("history") == 1

    play(url, story)


def test_what_must_not_start_any_more_expires_although_it_cannot_be_read(url: str) -> None:
    async def story(shop: Workshop) -> None:
        strange = await shop.once(policies=Policies(start_within="5s"))
        await write(shop.plain, strange.job_id, UNKNOWN_TARGET)
        worker = worker_of(shop)
        await work(shop, worker)
        await shop.time.advance(6 * SECOND)
        await work(shop, worker)
        assert [row["state"] for row in await shop.past(strange)] == ["expired"]

    play(url, story)


def test_a_lost_attempt_whose_policies_cannot_be_read_is_tried_again_and_others_are_reclaimed(
    url: str,
) -> None:
    async def story(shop: Workshop) -> None:
        keys = [await shop.once(), await shop.once()]
        await shop.claim(shop.worker(1))
        await write(shop.plain, keys[0].job_id, UNKNOWN[1])
        await shop.time.advance(round(CLAIM_TTL * SECOND) + 1)
        _, held, telemetry = await scheduler(shop)
        reclaimer = Reclaimer(
            shop.worker(9).reclaiming,
            shop.worker(9).healing,
            held,
            telemetry,
            Failpoints(),
            claim_ttl=CLAIM_TTL,
        )
        for _ in range(3):
            await reclaimer.run_once(shop.time.now())
        rows = [await shop.live(key) for key in keys]
        assert [row["attempt"] for row in rows if row] == [2, 2]

    play(url, story)


@pytest.mark.parametrize("limits", ['{"in_flight": "half of it"}', '{"fires_per_second": {"burst": 3}}'])
def test_a_tenant_whose_limits_cannot_be_read_is_left_to_newer_workers_and_others_are_served(
    url: str, limits: str
) -> None:
    async def story(shop: Workshop) -> None:
        await shop.many(3)
        await shop.plain.execute("INSERT INTO tenants (name, limits) VALUES ('strange', $1)", limits)
        strange = await shop.once()
        await shop.plain.execute(
            "UPDATE executions SET tenant_id = (SELECT id FROM tenants WHERE name = 'strange') WHERE job_id = $1",
            strange.job_id,
        )
        await shop.plain.execute(
            "INSERT INTO lanes (cell, queue, priority, tenant_id, route)"
            " SELECT cell, queue, priority, tenant_id, route FROM executions WHERE job_id = $1",
            strange.job_id,
        )
        await work(shop, worker_of(shop))
        assert await shop.count("history") == 3
        assert (await shop.live(strange))["claim_token"] is None

    play(url, story)


def test_an_idle_slot_goes_to_no_execution_whose_limit_cannot_be_read(url: str) -> None:
    async def story(shop: Workshop) -> None:
        limited = Policies(limit=Limit("mail", max_parallel=2))
        worker = worker_of(shop, node_id=await shop.leases.register("worker", ("worker",), "test"))
        await shop.once(policies=limited)
        await work(shop, worker, turns=6)
        assert (await shop.count("history"), worker._queue.slots.has_idle) == (1, True)
        strange = await shop.once(policies=limited)
        await shop.once(policies=limited)
        change = """policies = '{"limit": {"key": "mail", "max_parallel": "half of it"}}'"""
        await write(shop.plain, strange.job_id, change)
        await work(shop, worker)
        assert await shop.count("history") == 2
        assert (await shop.live(strange))["waits_for"] == "version"

    play(url, story)


async def scheduler(shop: Workshop) -> tuple[int, Leases, Telemetry]:
    """A node that holds every shard."""
    node, leases = await lease_all(shop)
    held = Leases(shop.time.clock, 10_000.0)
    held.renewed(leases, shop.time.clock.monotonic())
    return node, held, Telemetry()


def planner_of(shop: Workshop, node: int, held: Leases, telemetry: Telemetry) -> Planner:
    store = PlanStore(shop.database, node, Unread("job", telemetry))
    return Planner(store, held, horizon=30.0, wake_within=2.0, telemetry=telemetry, failpoints=Failpoints())


@pytest.mark.parametrize("change", UNKNOWN_SCHEDULES)
def test_jobs_that_cannot_be_read_are_passed_over_and_all_others_of_their_shards_are_planned(
    url: str, change: str
) -> None:
    async def story(shop: Workshop) -> None:
        await shop.plain.execute(
            """INSERT INTO calendars (tenant_id, name, ranges) VALUES ($1, 'strange', '[{"lunar": 1}]')""",
            TENANT,
        )
        strange = [await shop.recurring(10 * SECOND) for _ in range(5)]
        for job_id in strange:
            await write(shop.plain, job_id, change)
        good = [await shop.recurring(10 * SECOND) for _ in range(5)]
        await shop.plain.execute("UPDATE jobs SET shard = 3, next_fire_at = next_fire_at")
        node, held, telemetry = await scheduler(shop)
        planner = planner_of(shop, node, held, telemetry)
        for _ in range(4):
            await planner.run_once(shop.time.now())
        assert [len(await fires(shop, job_id)) for job_id in (*good, *strange)] == [3] * 5 + [0] * 5
        assert counted(telemetry, "job") == 5
        assert (await planner.run_once(shop.time.now())).again_at is None, "it does not spin"
        await shop.plain.execute(
            """UPDATE jobs SET schedule = '{"every": "10s"}', policies = '{}', version = version + 1"""
            " WHERE id = ANY ($1::uuid[])",
            strange,
        )
        await planner.run_once(shop.time.now())
        assert [len(await fires(shop, job_id)) for job_id in strange] == [3] * 5, "a change is seen at once"

    play(url, story)


@pytest.mark.parametrize("change", [*UNKNOWN_SCHEDULES[2:5], UNKNOWN_OFFSET])
def test_missed_executions_of_a_job_that_cannot_be_read_keep_no_others_from_being_decided(
    url: str, change: str
) -> None:
    async def story(shop: Workshop) -> None:
        strange, good = [await shop.recurring(10 * SECOND) for _ in range(2)]
        node, held, telemetry = await scheduler(shop)
        await planner_of(shop, node, held, telemetry).run_once(shop.time.now())
        await write(shop.plain, strange, change)
        await shop.plain.execute("UPDATE executions SET missed_after = tocsin_now() - interval '1 second'")
        jobs = [(TENANT, strange), (TENANT, good)]
        decided = await MisfireStore(shop.database).decide(jobs, shop.time.now())
        assert (decided.late, decided.dropped, decided.behind) == (1, 2, {strange})

    play(url, story)


def test_a_defect_that_shows_with_one_job_does_not_stop_the_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(shop: Workshop) -> None:
        broken, good = await shop.recurring(7 * SECOND), await shop.recurring(10 * SECOND)
        node, held, telemetry = await scheduler(shop)
        planner = planner_of(shop, node, held, telemetry)

        def rule_with_a_defect(schedule: Any) -> Any:
            return 1 / 0 if schedule.every == 7 else rule_of(schedule)

        monkeypatch.setattr("tocsin.scheduler.planner.rule_of", rule_with_a_defect)
        await planner.run_once(shop.time.now())
        assert [len(await fires(shop, job_id)) for job_id in (broken, good)] == [0, 3]

    play(url, story)


@pytest.mark.parametrize("change", [*UNKNOWN_SCHEDULES[:2], UNKNOWN_OFFSET, UNKNOWN_SCHEDULES[4]])
def test_a_pause_that_ends_of_a_job_that_cannot_be_read_keeps_no_other_waiting(url: str, change: str) -> None:
    async def story(shop: Workshop) -> None:
        strange, good = await shop.recurring(10 * SECOND), await shop.recurring(10 * SECOND)
        for offset, job_id in enumerate((strange, good)):
            await shop.pausing.pause(TENANT, job_id, "for a while", shop.time.now() + SECOND + offset)
        await write(shop.plain, strange, change)
        await shop.time.advance(2 * SECOND)
        _, held, telemetry = await scheduler(shop)
        resumer = Resumer(shop.pausing, held, Unread("pause", telemetry))
        await resumer.run_once(shop.time.now())
        states = {row["id"]: row["state"] for row in await shop.plain.fetch("SELECT id, state FROM jobs")}
        assert states == {strange: "paused", good: "active"}
        report = await resumer.run_once(shop.time.now())
        assert (report.done, counted(telemetry, "pause")) == (0, 1), "it does not spin"

    play(url, story)


def test_a_pause_that_cannot_be_ended_for_a_defect_keeps_no_other_waiting(url: str) -> None:
    async def story(shop: Workshop) -> None:
        strange, good = await shop.recurring(10 * SECOND), await shop.recurring(10 * SECOND)
        for offset, job_id in enumerate((strange, good)):
            await shop.pausing.pause(TENANT, job_id, "for a while", shop.time.now() + SECOND + offset)
        resume = shop.pausing.resume

        async def failing(tenant_id: int, job_id: UUID, *args: Any, **more: Any) -> Any:
            if job_id == strange:
                raise ZeroDivisionError
            return await resume(tenant_id, job_id, *args, **more)

        shop.pausing.resume = failing  # type: ignore[method-assign]
        await shop.time.advance(2 * SECOND)
        _, held, telemetry = await scheduler(shop)
        resumer = Resumer(shop.pausing, held, Unread("pause", telemetry))
        await resumer.run_once(shop.time.now())
        states = {row["id"]: row["state"] for row in await shop.plain.fetch("SELECT id, state FROM jobs")}
        assert states == {strange: "paused", good: "active"}
        assert (await resumer.run_once(shop.time.now())).done == 0, "it does not spin"

    play(url, story)


@pytest.mark.parametrize("error", [ZeroDivisionError(), Unavailable("it took too long")])
def test_a_backfill_whose_steps_fail_keeps_no_other_from_its_own(url: str, error: Exception) -> None:
    async def story(shop: Workshop) -> None:
        strange, good = await shop.recurring(10 * SECOND), await shop.recurring(10 * SECOND)
        store = BackfillStore(shop.plain)
        now = shop.time.now()
        for job_id in (strange, good):
            new = NewBackfill(now - MINUTE, now, Mode.ALL, Order.OLDEST_FIRST, 0, 10)
            await store.define(TENANT, job_id, new, total=6)
            await shop.time.advance(SECOND)  # so that the first one is due first
        step = store._step

        async def failing(session: Any, row: Any, now: int) -> int:
            if row["job_id"] == strange:
                raise error
            return await step(session, row, now)

        store._step = failing  # type: ignore[method-assign]
        for _ in range(3):
            with contextlib.suppress(ZeroDivisionError, Unavailable):
                await store.advance(range(SHARDS), shop.time.now())
        planned = await shop.plain.fetch("SELECT job_id, planned FROM backfills WHERE planned > 0")
        assert [tuple(row) for row in planned] == [(good, 6)]

    play(url, story)


def test_a_backfill_that_cannot_be_read_keeps_no_other_waiting(url: str) -> None:
    async def story(shop: Workshop) -> None:
        strange, good = await shop.recurring(10 * SECOND), await shop.recurring(10 * SECOND)
        telemetry = Telemetry()
        store = BackfillStore(shop.plain, Unread("backfill", telemetry))
        now = shop.time.now()
        for job_id in (strange, good):
            new = NewBackfill(now - MINUTE, now, Mode.ALL, Order.OLDEST_FIRST, 0, 10)
            await store.define(TENANT, job_id, new, total=6)
        await shop.plain.execute(
            f"UPDATE backfills SET resume_at = tocsin_now() - interval '1 minute', {UNKNOWN_SCHEDULES[0]}"
            " WHERE job_id = $1",
            strange,
        )
        await shop.time.advance(SECOND)
        await store.advance(range(SHARDS), shop.time.now())
        await store.advance(range(SHARDS), shop.time.now())
        assert len(await fires(shop, good)) == 6
        assert await fires(shop, strange) == []
        assert counted(telemetry, "backfill") == 1

    play(url, story)


def test_the_rooms_of_other_tenants_are_counted_although_one_tenant_cannot_be_read(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.plain.execute(
            "INSERT INTO tenants (name, limits) VALUES ('strange', '{\"pending_jobs\": {\"burst\": 3}}'), ('plain', '{}')"
        )
        await shop.plain.execute("INSERT INTO tenant_logins (login, tenant_id) SELECT name, id FROM tenants")
        await LoginStore(shop.plain, 30.0, TenantLimits(pending_jobs=7)).count()
        rows = await shop.plain.fetch(
            "SELECT t.name, l.pending_jobs FROM login_limits l JOIN tenants t ON t.id = l.tenant_id ORDER BY 1"
        )
        assert [tuple(row) for row in rows] == [("default", 7), ("plain", 7)]

    play(url, story)
