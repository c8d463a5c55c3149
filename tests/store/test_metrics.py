"""Metrics of the fleet show the trouble that they are for."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.simulation.workshop import LEASE_TTL, SHARDS, Workshop, play
from tests.support.api import InProcessApi, in_process_api
from tocsin.db.pool import DatabaseError, open_database
from tocsin.db.presence import Presence
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leaser, Leases
from tocsin.telemetry import Telemetry
from tocsin.worker.tallies import Tallies

TTL = round(LEASE_TTL * SECOND)


def scraped(api: InProcessApi) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = api.get("/metrics").body.decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_due_unplanned_dead_paused_and_unowned_is_seen(url: str) -> None:
    with in_process_api(url) as api:
        for _ in range(3):
            api.create(schedule={"in": "1ms"}, queue="mail")
        api.create(schedule={"every": "1h"})
        api.fetch("UPDATE executions SET run_at = tocsin_now() - interval '90 s' WHERE queue = 'mail'")
        api.fetch("UPDATE jobs SET next_fire_at = tocsin_now() - interval '5 min' WHERE kind = 'recurring'")
        api.fetch("UPDATE shards SET owner = NULL WHERE shard < 2")
        api.fetch("UPDATE shards SET owner = 1, expires_at = tocsin_now() + interval '1 h' WHERE shard >= 2")
        api.fetch("INSERT INTO queues (tenant_id, name, paused_at) VALUES (1, 'mail', tocsin_now())")
        api.fetch(
            "INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, finished_at, attempt)"
            " SELECT 0, gen_random_uuid(), t, 1, 'mail', 0, 'schedule', 'dead', t, t, t, 1 FROM tocsin_now() AS t"
        )
        found = scraped(api)
        assert found["tocsin_due", frozenset({("queue", "mail")})] == 3
        assert found["tocsin_oldest_due_seconds", frozenset({("queue", "mail")})] >= 90
        assert found["tocsin_tenant_due", frozenset({("tenant", "default")})] == 3
        assert found["tocsin_planning_behind_seconds", frozenset()] >= 300
        for name, value in {"shards_unowned": 2, "dead_letters": 1, "queues_paused": 1}.items():
            assert found[f"tocsin_{name}", frozenset()] == value
        assert found["tocsin_nodes", frozenset({("role", "api"), ("version", "test")})] == 1
        assert found["tocsin_database_connections", frozenset()] > 0


def counted(telemetry: Telemetry) -> dict[tuple[str, str], float]:
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in telemetry.registry.collect()
        for sample in family.samples
    }


def test_a_scheduler_counts_what_it_takes_over_and_from_whom(url: str) -> None:
    async def story(shop: Workshop) -> None:
        lost = await shop.leases.register("lost", ("scheduler",), "test")
        await shop.leases.take(lost, SHARDS)
        await shop.leases.give(lost, range(4))
        await shop.time.advance(TTL + 2 * SECOND)
        heir = await shop.leases.register("heir", ("scheduler",), "test")
        telemetry = Telemetry()

        async def rejoin() -> None: ...

        leaser = Leaser(
            shop.leases, shop.time.clock, Leases(shop.time.clock, LEASE_TTL), node_id=heir, ttl=LEASE_TTL,
            plans=True, telemetry=telemetry, failpoints=Failpoints(), rejoin=rejoin,
        )  # fmt: skip
        await leaser.run_once(0)
        found = counted(telemetry)
        assert found["tocsin_leases_taken_total", "release"] == 4
        assert found["tocsin_leases_taken_total", "loss"] == SHARDS - 4
        assert found["tocsin_takeover_seconds_count", ""] == SHARDS - 4
        assert found["tocsin_takeover_seconds_sum", ""] == 2 * (SHARDS - 4)

    play(url, story)


def test_a_heartbeat_without_an_answer_is_counted(url: str) -> None:
    async def story(shop: Workshop) -> None:
        telemetry = Telemetry()

        class Away:
            async def renew(self, *_: object) -> None:
                raise Unavailable("away")

        async def rejoin() -> None: ...

        leaser = Leaser(
            Away(), shop.time.clock, Leases(shop.time.clock, LEASE_TTL), node_id=1, ttl=LEASE_TTL,  # type: ignore[arg-type]
            plans=True, telemetry=telemetry, failpoints=Failpoints(), rejoin=rejoin,
        )  # fmt: skip
        try:
            await leaser.run_once(0)
        except Unavailable:
            assert counted(telemetry)["tocsin_lease_renewals_failed_total", ""] == 1
        else:
            raise AssertionError("it did not fail")

    play(url, story)


def test_run_times_of_what_succeeded_are_counted_by_queue(url: str) -> None:
    async def story(shop: Workshop) -> None:
        telemetry = Telemetry()

        class Nowhere:
            async def write(self, _: object) -> None: ...

        tallies = Tallies(Nowhere(), shop.time.clock, telemetry)  # type: ignore[arg-type]
        await shop.many(500)
        claims = await shop.claim(shop.worker(1))
        tallies.succeeded(claims, [(claim.started_at or 0) + 3 * SECOND for claim in claims])
        await tallies.run_once(shop.time.now())
        found = counted(telemetry)
        assert found["tocsin_run_seconds_bucket", "default2.0"] == 0
        assert found["tocsin_run_seconds_bucket", "default5.0"] >= 500
        assert found["tocsin_run_seconds_sum", "default"] >= 1500

    play(url, story)


def test_database_calls_are_counted_with_their_time_and_their_errors(url: str) -> None:
    async def story() -> None:
        telemetry, presence = Telemetry(), Presence(url)
        presence.on_call(telemetry.note_call)
        database = await open_database(presence, name="test", size=1)
        await database.fetch("SELECT pg_sleep(0.03)")
        with pytest.raises(DatabaseError):
            await database.fetch("SELECT 1 / 0")
        await database.close()
        found = counted(telemetry)
        assert found["tocsin_database_call_seconds_count", ""] == 2
        assert found["tocsin_database_call_seconds_sum", ""] >= 0.03
        assert found["tocsin_database_calls_failed_total", ""] == 1

    asyncio.run(story())
