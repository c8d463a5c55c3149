"""Idempotency keys: whoever comes first makes the job, everybody else gets the same answer, for a day."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.simulation.outage import TARGET, TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.errors import Conflict, Refused
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import HOUR, SECOND, Instant, parse_instant
from tocsin.domain.job import Definition
from tocsin.domain.schedule import rule_of
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.store.forgetting import ForgettingStore
from tocsin.store.jobs import NewJob

NOON = parse_instant("2031-05-05T12:00:00Z", "")


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def new_job(now: Instant, name: str | None = None, tenant_id: int = TENANT) -> NewJob:
    definition = Definition(schedule(every="1h"), TARGET, name=name)
    job_id, first = new_job_id(now), rule_of(definition.schedule).next_fire(now)
    assert first is not None
    return NewJob(job_id, tenant_id, shard_of(job_id, DEFAULT_SHARDS), definition, first, first)


async def define(engine: Engine, key: str, body: bytes, answer: str, **fields: object) -> str | None:
    job = new_job(engine.time.now(), **fields)  # type: ignore[arg-type]
    return await engine.jobs.define_once(job, key, body, f'"{answer}"', engine.time.now())


def test_of_many_at_once_with_one_key_one_makes_the_job_and_all_hear_the_same(url: str) -> None:
    async def story(engine: Engine) -> None:
        answers = await asyncio.gather(*(define(engine, "key", b"same", f"answer {n}") for n in range(40)))
        firsts = {answer for answer in answers if answer is not None}
        assert answers.count(None) == 1, "None says that the job was made"
        assert firsts == {f'"answer {answers.index(None)}"'}
        assert await engine.count("jobs") == 1

    play(url, NOON, story)


def test_a_key_that_was_used_for_another_request_is_refused_and_makes_nothing(url: str) -> None:
    async def story(engine: Engine) -> None:
        assert await define(engine, "key", b"one", "first") is None
        with pytest.raises(Refused) as refusal:
            await define(engine, "key", b"other", "second")
        assert refusal.value.field == "idempotency_key"
        assert await engine.count("jobs") == 1

    play(url, NOON, story)


def test_a_key_is_free_again_after_a_day_and_not_before(url: str) -> None:
    async def story(engine: Engine) -> None:
        assert await define(engine, "key", b"one", "first") is None
        await engine.time.advance(24 * HOUR - SECOND)
        assert await define(engine, "key", b"one", "second") == '"first"'
        assert await engine.jobs.first_answer(TENANT, "key", b"one") == '"first"'
        await engine.time.advance(SECOND)
        assert await engine.jobs.first_answer(TENANT, "key", b"other") is None
        answers = await asyncio.gather(*(define(engine, "key", b"other", f"new {n}") for n in range(20)))
        assert answers.count(None) == 1
        assert await engine.count("jobs") == 2

    play(url, NOON, story)


def test_a_creation_that_fails_leaves_its_key_free(url: str) -> None:
    async def story(engine: Engine) -> None:
        assert await define(engine, "taken", b"one", "first", name="name") is None
        with pytest.raises(Conflict):
            await define(engine, "key", b"two", "second", name="name")
        assert await define(engine, "key", b"three", "third") is None
        assert await engine.count("jobs") == 2

    play(url, NOON, story)


def test_tenants_do_not_share_keys(url: str) -> None:
    async def story(engine: Engine) -> None:
        await engine.database.execute("INSERT INTO tenants (name) VALUES ('other') ON CONFLICT DO NOTHING")
        other = (await engine.database.one("SELECT id FROM tenants WHERE name = 'other'"))["id"]
        assert await define(engine, "key", b"one", "ours") is None
        assert await define(engine, "key", b"two", "theirs", tenant_id=other) is None
        assert await engine.jobs.first_answer(other, "key", b"two") == '"theirs"'

    play(url, NOON, story)


def test_keys_that_no_longer_count_do_not_pile_up(url: str) -> None:
    async def story(engine: Engine) -> None:
        for number in range(3):
            await define(engine, f"key {number}", b"one", "first")
            await engine.time.advance(10 * HOUR)
        await ForgettingStore(engine.database, 30, 365).keys(0)
        left = await engine.database.fetch("SELECT key FROM idempotency ORDER BY key")
        assert [row["key"] for row in left] == ["key 1", "key 2"]

    play(url, NOON, story)
