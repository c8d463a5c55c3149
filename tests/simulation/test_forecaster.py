"""The forecast that schedulers keep: what the jobs of all shards will do, written once per change, under the
leases."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.blackout import CalendarRange
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from tocsin.domain.planning import terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.preview import preview
from tocsin.domain.stored_job import read_schedule
from tocsin.scheduler import forecaster as parts
from tocsin.scheduler.forecaster import Forecaster
from tocsin.store.calendars import CalendarStore, ranges_of
from tocsin.store.forecasts import ForecastStore
from tocsin.store.foreseeing import Foreseeing
from tocsin.telemetry import Telemetry

NOON = parse_instant("2031-05-05T12:00:00Z", "")
Story = Callable[[Engine], Awaitable[None]]


@pytest.fixture
def url(cluster: Cluster):  # type: ignore[no-untyped-def]
    url = cluster.new_database()
    yield url
    cluster.drop(url)


async def forecaster_of(engine: Engine, telemetry: Telemetry | None = None) -> Forecaster:
    (node,) = await engine.database.fetch("SELECT id FROM nodes")
    store = Foreseeing(engine.database, node["id"])
    return Forecaster(store, engine.leases, engine.time.clock, telemetry or Telemetry())


async def whole_cycle(engine: Engine, forecaster: Forecaster) -> None:
    forecaster.jobs_changed()
    forecaster._earliest = 0
    await forecaster.run_once(engine.time.now())
    while forecaster._todo:
        forecaster._resting_until = 0
        await forecaster.run_once(engine.time.now())


async def oracle(engine: Engine, job_id: UUID, since: Instant, until: Instant) -> list[int]:
    """What the job's own preview shows, by minute."""
    row = await engine.jobs.get(TENANT, job_id)
    written = read_schedule(row["schedule"])
    calendars = await ranges_of(engine.database, TENANT, written.calendars)
    terms = terms_of(written, Policies(), job_id, row["fire_count"], calendars)
    after = row["unplanned_at"] - 1 if written.max_fires else since - terms.offset - 1
    shown = preview(written, after, 8_000 if written.every == "11s" else 500, terms).fires
    minutes = [0] * ((until - since) // MINUTE)
    for at in (parse_instant(fire.at, "") for fire in shown):
        if since <= at < until:
            minutes[(at - since) // MINUTE] += 1
    return minutes


def test_the_forecast_of_mixed_schedules_equals_the_sum_of_their_previews(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        holiday = CalendarRange(format_instant(NOON + 2 * HOUR), format_instant(NOON + 4 * HOUR))
        await CalendarStore(engine.database).put(TENANT, "holiday", [holiday])
        closed = {"calendars": ["holiday"]}
        jobs = [
            await engine.define(what)
            for what in (
                *[schedule(cron="*/10 * * * *") for _ in range(7)],
                *[schedule(cron="0 3 * * *", time_zone="Europe/Berlin", jitter="20m") for _ in range(5)],
                schedule(every="7m", exclude=closed),
                schedule(every="11s", exclude=closed),
                schedule(every="1h", exclude={**closed, "policy": "hold"}),
                schedule(cron="0 9 * * *", exclude={"dates": ["2031-05-06"]}),
                schedule(every="6h", max_fires=3),
            )
        ]
        await whole_cycle(engine, await forecaster_of(engine))
        store = ForecastStore(engine.database)
        wanted = [
            sum(of) for of in zip(*[await oracle(engine, job, NOON, NOON + DAY) for job in jobs], strict=True)
        ]
        found = await store.load(TENANT, NOON, DAY // MINUTE, None)
        assert found.minutes == [pytest.approx(fires) for fires in wanted]
        assert sum(wanted) > 8_000
        assert (await store.load(TENANT, NOON, 1440, "other")).minutes == [0.0] * 1440
        age = await store.age()
        assert (age.computed_at, age.whole) == (NOON, True)
        largest = (await store.groups(TENANT, None))[0]
        assert (largest.number, largest.schedule.cron) == (7, "*/10 * * * *")

    play(url, NOON, story)


def test_it_is_written_anew_only_where_jobs_have_changed_and_forgets_those_that_are_gone(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        store, forecaster = ForecastStore(engine.database), await forecaster_of(engine)
        jobs = [await engine.define(schedule(cron="30 * * * *")) for _ in range(20)]
        await whole_cycle(engine, forecaster)
        rows = "SELECT shard, day, xmin::text AS written FROM forecasts ORDER BY 1, 2"
        before = {tuple(row) for row in await engine.database.fetch(rows)}
        assert len(before) > 8
        await engine.time.advance_to(NOON + HOUR)
        await whole_cycle(engine, forecaster)
        assert {tuple(row) for row in await engine.database.fetch(rows)} == before
        assert (await store.age()).computed_at == NOON + HOUR
        await engine.cancelling.cancel(TENANT, jobs[0], "gone")
        await whole_cycle(engine, forecaster)
        after = {tuple(row) for row in await engine.database.fetch(rows)}
        assert len({row[0] for row in before - after}) == 1
        load = await store.load(TENANT, NOON + 2 * HOUR, 60, None)
        assert sum(load.minutes) == 19

    play(url, NOON, story)


def test_days_that_are_over_go_and_new_ones_come(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        forecaster = await forecaster_of(engine)
        await engine.define(schedule(every="1h"))
        await whole_cycle(engine, forecaster)
        days = "SELECT count(*) AS number, min(day)::text AS first FROM forecasts"
        assert tuple(await engine.database.one(days)) == (parts.DAYS, "2031-05-05")
        await engine.time.advance_to(NOON + 3 * DAY)
        await whole_cycle(engine, forecaster)
        assert tuple(await engine.database.one(days)) == (parts.DAYS, "2031-05-08")

    play(url, NOON, story)


def test_a_node_that_lost_its_lease_writes_nothing(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        await engine.define(schedule(every="1h"))
        forecaster = await forecaster_of(engine)
        await engine.database.execute("UPDATE shards SET epoch = epoch + 1")
        await whole_cycle(engine, forecaster)
        assert await engine.count("forecasts") == await engine.count("forecast_shards") == 0
        age = await ForecastStore(engine.database).age()
        assert (age.computed_at, age.whole) == (None, False)

    play(url, NOON, story)


def test_a_shard_that_has_more_than_can_be_summed_up_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        for number in range(64):
            await engine.define(schedule(every=f"{number + 60}s"))
        await whole_cycle(engine, await forecaster_of(engine))
        assert not (await ForecastStore(engine.database).age()).whole

    monkeypatch.setattr(parts, "_BUDGET", 100)
    play(url, NOON, story)


@pytest.mark.parametrize("step", ["groups", "write"])
def test_a_defect_that_one_shard_shows_costs_no_other_its_forecast(
    url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        for _ in range(20):
            await engine.define(schedule(cron="30 * * * *"))
        telemetry = Telemetry()
        forecaster = await forecaster_of(engine, telemetry)
        shards = {row["shard"] for row in await engine.database.fetch("SELECT DISTINCT shard FROM jobs")}
        strange, right = min(shards), getattr(forecaster._store, step)

        async def failing(of: Any, *more: Any) -> Any:
            if strange in (of if step == "groups" else [of.shard]):
                raise ZeroDivisionError
            return await right(of, *more)

        with monkeypatch.context() as patch:
            patch.setattr(forecaster._store, step, failing)
            await whole_cycle(engine, forecaster)
        written = "SELECT DISTINCT shard FROM forecasts"
        assert {row["shard"] for row in await engine.database.fetch(written)} == shards - {strange}
        labels = {"part": "forecaster", "kind": "defect"}
        assert telemetry.registry.get_sample_value("tocsin_part_errors_total", labels) == 1
        await whole_cycle(engine, forecaster)
        assert {row["shard"] for row in await engine.database.fetch(written)} == shards

    play(url, NOON, story)


def test_shards_whose_look_the_database_did_not_answer_are_looked_at_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        await engine.define(schedule(every="1h"))
        forecaster = await forecaster_of(engine)
        with monkeypatch.context() as patch:
            patch.setattr(forecaster._store, "groups", unanswered)
            with pytest.raises(Unavailable):
                await forecaster.run_once(engine.time.now())
        while (await forecaster.run_once(engine.time.now())).done:
            forecaster._resting_until = 0
        assert (await ForecastStore(engine.database).age()).whole

    play(url, NOON, story)


async def unanswered(_: Any) -> Any:
    raise Unavailable("the database does not answer")


def test_it_rests_between_steps_and_between_cycles_whoever_wakes_it(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.away = {"planner", "claimer"}
        forecaster, now = await forecaster_of(engine), engine.time.now()
        forecaster._clock = Ticking()  # type: ignore[assignment]
        report = await forecaster.run_once(now)
        assert (report.done, report.again_at) == (32, now + 20 * SECOND)
        forecaster.jobs_changed()
        assert (await forecaster.run_once(now + SECOND)).done == 0
        at = now
        for _ in range(7):
            at += 20 * SECOND
            report = await forecaster.run_once(at)
        assert (report.done, report.again_at) == (32, at + 800 * SECOND)
        assert (await forecaster.run_once(at + 10 * SECOND)).done == 0

    play(url, NOON, story)


class Ticking:
    """A clock on which everything takes a second."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now
