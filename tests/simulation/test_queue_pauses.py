"""A paused queue under a running engine: nothing of it starts, nothing is lost, its end comes by itself."""

from collections.abc import Iterator

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.audit import Origin
from tocsin.domain.instant import HOUR, MINUTE, SECOND, format_instant, parse_instant
from tocsin.scheduler.queue_keeper import QueueKeeper
from tocsin.store.queues import QueueStore

NOON = parse_instant("2031-05-05T12:00:00Z", "")
WHO = Origin("key_of_somebody")


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def test_what_is_due_during_a_pause_waits_and_runs_when_it_ends_by_itself(url: str) -> None:
    async def story(engine: Engine) -> None:
        queues = QueueStore(engine.database)
        keeper = QueueKeeper(queues, engine.leases)
        await engine.define(schedule(at=format_instant(NOON + MINUTE)))
        recurring = await engine.define(schedule(every="10m", ends_at=format_instant(NOON + HOUR)))
        end = NOON + 35 * MINUTE
        await queues.pause(TENANT, "default", "vendor down", end, WHO)
        engine.away = {"claimer"}  # it would be asked at each instant, and find nothing it may take
        await engine.run_until(end - SECOND)
        assert not (await engine.worker.claimer.run_once(engine.time.now())).done
        report = await keeper.run_once(engine.time.now())
        assert report.again_at == end
        assert engine.calls.made == []
        await engine.time.advance_to(end)
        assert (await keeper.run_once(engine.time.now())).done == 1
        engine.away = set()
        await engine.run_until_done()
        assert await engine.count("history", "state = 'succeeded' AND job_id <> $1", recurring) == 1
        fates = await engine.database.fetch(
            "SELECT state, cause, reason FROM history WHERE job_id = $1", recurring
        )
        assert sum(row["cause"] == "catch_up" for row in fates) == 1
        assert sum(row["reason"] == "misfire_superseded" for row in fates) == 2
        assert len(fates) == 6
        (pause,) = await queues.pauses(TENANT, "default", NOON, NOON + HOUR)
        assert (pause.since, pause.until, pause.by, pause.reason) == (NOON, end, WHO.actor, "vendor down")

    play(url, NOON, story)


def test_what_a_worker_claimed_by_an_older_look_is_taken_back(url: str) -> None:
    async def story(engine: Engine) -> None:
        queues = QueueStore(engine.database)
        keeper = QueueKeeper(queues, engine.leases)
        await engine.define(schedule(at=format_instant(NOON + 2 * SECOND)))
        await queues.pause(TENANT, "default", None, None, WHO)
        await engine.database.execute(
            "UPDATE executions SET claim_token = 7, node_id = 1, deadline_at = tocsin_now() + interval '1 minute'"
        )
        report = await keeper.run_once(engine.time.now())
        assert report.done == 1
        assert report.again_at is not None
        assert report.again_at <= NOON + SECOND
        assert await engine.count("executions", "claim_token IS NULL") == 1
        await engine.time.advance_to(NOON + 30 * SECOND)
        assert (await keeper.run_once(engine.time.now())).again_at == engine.time.now() + 30 * SECOND

    play(url, NOON, story)
