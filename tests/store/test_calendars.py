"""Named calendars at rest: replaced whole, kept as long as jobs name them, followed from the next planning
on."""

from collections.abc import Iterator

import msgspec
import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.blackout import CalendarRange
from tocsin.domain.errors import Conflict, NotFound, Refused
from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from tocsin.store.calendars import CalendarStore, ranges_of

NOON = parse_instant("2031-05-05T12:00:00Z", "")


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def between(start: Instant, end: Instant, reason: str | None = None) -> CalendarRange:
    return CalendarRange(format_instant(start), format_instant(end), reason)


def test_a_calendar_is_replaced_whole_and_listed_by_name(url: str) -> None:
    async def story(engine: Engine) -> None:
        store = CalendarStore(engine.database)
        await store.put(TENANT, "zoo", [between(NOON, NOON + HOUR, "closed")])
        await store.put(TENANT, "bank", [])
        await store.put(TENANT, "zoo", [between(NOON + HOUR, NOON + 2 * HOUR)])
        assert [row["name"] for row in await store.list(TENANT)] == ["bank", "zoo"]
        ranges = msgspec.json.decode((await store.get(TENANT, "zoo"))["ranges"], type=list[CalendarRange])
        assert ranges == [between(NOON + HOUR, NOON + 2 * HOUR)]

    play(url, NOON, story)


def test_a_bad_range_leaves_the_calendar_as_it_was(url: str) -> None:
    async def story(engine: Engine) -> None:
        store = CalendarStore(engine.database)
        await store.put(TENANT, "zoo", [between(NOON, NOON + HOUR)])
        with pytest.raises(Refused):
            await store.put(TENANT, "zoo", [between(NOON, NOON)])
        assert await ranges_of(engine.database, TENANT, ["zoo"]) == [(NOON, NOON + HOUR)]

    play(url, NOON, story)


def test_tenants_do_not_see_each_others_calendars(url: str) -> None:
    async def story(engine: Engine) -> None:
        await engine.database.execute("INSERT INTO tenants (name) VALUES ('other') ON CONFLICT DO NOTHING")
        other = (await engine.database.one("SELECT id FROM tenants WHERE name = 'other'"))["id"]
        store = CalendarStore(engine.database)
        await store.put(TENANT, "zoo", [between(NOON, NOON + HOUR)])
        for look in (store.get(other, "zoo"), store.delete(other, "zoo")):
            with pytest.raises(NotFound):
                await look
        assert await store.list(other) == []
        with pytest.raises(Refused):
            await ranges_of(engine.database, other, ["zoo"], must_exist=True)

    play(url, NOON, story)


def test_a_calendar_stays_as_long_as_a_job_names_it(url: str) -> None:
    async def story(engine: Engine) -> None:
        store = CalendarStore(engine.database)
        await store.put(TENANT, "zoo", [])
        job_id = await engine.define(schedule(every="1h", exclude={"calendars": ["zoo"]}))
        with pytest.raises(Conflict):
            await store.delete(TENANT, "zoo")
        await engine.cancelling.delete(TENANT, job_id)
        await store.delete(TENANT, "zoo")
        with pytest.raises(NotFound):
            await store.get(TENANT, "zoo")

    play(url, NOON, story)


def test_several_calendars_and_dates_are_excluded_together(url: str) -> None:
    async def story(engine: Engine) -> None:
        store = CalendarStore(engine.database)
        await store.put(TENANT, "lunch", [between(NOON + HOUR, NOON + 2 * HOUR)])
        await store.put(TENANT, "tea", [between(NOON + 4 * HOUR, NOON + 5 * HOUR)])
        excluded = {"calendars": ["lunch", "tea"], "dates": ["2031-05-06"]}
        job_id = await engine.define(schedule(every="30m", exclude=excluded, ends_at="2031-05-07T00:00:00Z"))
        await engine.run_until_done(patience=72 * HOUR)
        half_hours = [NOON + place * 30 * MINUTE for place in range(1, 73)]
        rows = await engine.ledger(job_id, half_hours)
        assert [row.fire_at for row in rows] == half_hours
        ran = [(row.fire_at - NOON) / HOUR for row in rows if row.state == "succeeded"]
        assert ran == [0.5, 2, 2.5, 3, 3.5, *(5 + half / 2 for half in range(14)), 36]
        assert {row.reason for row in rows if row.state == "skipped"} == {"blackout"}

    play(url, NOON, story)


def test_jobs_follow_a_changed_calendar_from_their_next_planning_on(url: str) -> None:
    async def story(engine: Engine) -> None:
        store = CalendarStore(engine.database)
        await store.put(TENANT, "zoo", [])
        job_id = await engine.define(
            schedule(every="1m", exclude={"calendars": ["zoo"]}, ends_at="2031-05-05T12:06:00Z")
        )
        await engine.run_until(NOON + MINUTE + SECOND)
        await store.put(TENANT, "zoo", [between(NOON + 2 * MINUTE, NOON + 4 * MINUTE)])
        await engine.run_until(NOON + 4 * MINUTE + SECOND)
        await store.put(TENANT, "zoo", [])
        await engine.run_until_done()
        minutes = [NOON + place * MINUTE for place in range(1, 7)]
        states = [row.reason or row.state for row in await engine.ledger(job_id, minutes)]
        assert states == ["succeeded", "blackout", "blackout", "succeeded", "succeeded", "succeeded"]

    play(url, NOON, story)


def test_a_job_whose_calendar_is_gone_all_the_same_can_be_resumed_and_filled(url: str) -> None:
    """It can vanish in the moment between the check of a new job and its creation: nobody must be stuck
    because of it."""

    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1h", exclude={"calendars": ["gone"]}))
        other = await engine.define(schedule(every="1h"))
        for each in (job_id, other):
            await engine.pausing.pause(TENANT, each, None, NOON + 90 * MINUTE)
        await engine.run_until(NOON + 2 * HOUR)
        states = [(await engine.jobs.get(TENANT, each))["state"] for each in (job_id, other)]
        assert states == ["active", "active"]

    play(url, NOON, story)
