"""Many jobs in one statement: names that must be their own, names that need not, and what the audit log
says."""

from collections.abc import Iterator

import msgspec
import pytest

from tests.simulation.outage import TARGET, TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.audit import Origin
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import HOUR, format_instant, parse_instant
from tocsin.domain.job import Definition
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.store.jobs import NewJob

NOON = parse_instant("2031-05-05T12:00:00Z", "")


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def new_job(name: str | None, *, once: bool = False) -> NewJob:
    when = schedule(at=format_instant(NOON + HOUR)) if once else schedule(every="1h")
    job_id = new_job_id(NOON)
    definition = Definition(when, TARGET, name=name)
    origin = Origin("key_of_test", "request", "127.0.0.1")
    return NewJob(
        job_id, TENANT, shard_of(job_id, DEFAULT_SHARDS), definition, NOON + HOUR, NOON + HOUR, origin
    )


@pytest.mark.parametrize("one_request", [True, False])
def test_only_recurring_jobs_with_a_taken_name_are_refused_and_the_log_lists_the_others(
    url: str, one_request: bool
) -> None:
    async def story(engine: Engine) -> None:
        await engine.jobs.define([new_job("taken")], NOON)
        await engine.database.execute("DELETE FROM audit")
        first, second, again = new_job("taken"), new_job("new"), new_job("new")
        kept = [new_job("taken", once=True), new_job(None), new_job(None, once=True), second]
        refused = await engine.jobs.define([first, *kept, again], NOON, one_request=one_request)
        assert refused == {first.id, again.id}
        stored = {row["id"] for row in await engine.database.fetch("SELECT id FROM jobs")}
        assert {job.id for job in kept} <= stored
        assert len(stored) == 1 + len(kept)
        assert await engine.count("executions") == 2

        noted = await engine.database.fetch("SELECT actor, request_id, address, object, after FROM audit")
        assert {tuple(row[:3]) for row in map(tuple, noted)} == {("key_of_test", "request", "127.0.0.1")}
        if one_request:
            (entry,) = noted
            assert msgspec.json.decode(entry["after"])["created"] == len(kept)
            listed = set(msgspec.json.decode(entry["after"])["jobs"])
        else:
            listed = {row["object"].removeprefix("job:") for row in noted}
        assert listed == {str(job.id) for job in kept}

    play(url, NOON, story)
