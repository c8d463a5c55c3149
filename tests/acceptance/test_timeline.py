"""Past and coming on one axis, days with 23 and 25 hours, and lists that say how a job has fared lately."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.support.api import Answer, InProcessApi, in_process_api
from tocsin.domain.errors import Unavailable
from tocsin.domain.forecast import Load
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.scheduler.forecaster import Forecaster
from tocsin.scheduler.leaser import Leases
from tocsin.store import timeline as store
from tocsin.store.foreseeing import Foreseeing
from tocsin.store.leases import LeaseStore

RAN = """
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at, finished_at,
                         attempt, reason, fire_until, fire_count)
    SELECT 0, j.id, $2::timestamptz, j.tenant_id, j.queue, 5, $5, $3, $2, $2,
           CASE WHEN $3 NOT IN ('skipped', 'expired') THEN $2::timestamptz + interval '2 ms' END,
           $2::timestamptz + interval '5 ms', 1, $4, $6::timestamptz, $7
    FROM jobs j WHERE j.name = $1"""


@pytest.fixture
def api(url: str) -> Iterator[InProcessApi]:
    with in_process_api(url) as api:
        yield api


def now_of(api: InProcessApi) -> datetime:
    return datetime.fromisoformat(api.get("/v1/stats/summary").json()["now"])


def text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def ran(api: InProcessApi, name: str, at: datetime | str, state: str = "succeeded", reason: str | None = None, *, cause: str = "schedule",
        until: datetime | str | None = None, count: int = 1) -> None:  # fmt: skip
    moments = [datetime.fromisoformat(m) if isinstance(m, str) else m for m in (at, until) if m is not None]
    api.fetch(RAN, name, stamp(moments[0]), state, reason, cause, stamp(moments[1]) if until else None, count)


def stamp(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def test_a_lane_has_what_was_and_what_is_expected_in_order(api: InProcessApi) -> None:
    api.create(schedule={"every": "10m"}, name="one")
    now = now_of(api)
    ran(api, "one", now - timedelta(minutes=20))
    ran(api, "one", now - timedelta(minutes=10), "skipped", "overlap")
    answer = api.get("/v1/timeline", to=text(now + timedelta(hours=1))).json()
    (lane,) = answer["lanes"]
    assert [fire["state"] for fire in lane["fires"]] == ["succeeded", "skipped", *["expected"] * 6]
    assert lane["fires"][0]["late_ms"] == 2.0
    assert lane["fires"][0]["run_ms"] == 3.0
    assert lane["fires"][1]["reason"] == "overlap"
    assert [fire["at"] for fire in lane["fires"]] == sorted(fire["at"] for fire in lane["fires"])


def test_a_lane_with_many_fires_becomes_bands_whose_counts_are_all_of_them(api: InProcessApi) -> None:
    api.create(schedule={"every": "5s"}, name="dense")
    api.create(schedule={"every": "1h"}, name="sparse")
    now = now_of(api)
    for n in range(130):
        ran(api, "dense", now - timedelta(seconds=5 * n + 1), "dead" if n == 3 else "succeeded")
    answer = api.get(
        "/v1/timeline", **{"from": text(now - timedelta(hours=1)), "to": text(now + timedelta(hours=1))}
    ).json()
    sparse, dense = sorted(answer["lanes"], key=lambda lane: str(lane["name"]), reverse=True)
    assert (sparse["name"], sparse["bands"]) == ("sparse", None)
    assert dense["fires"] is None
    counts: dict[str, int] = {}
    for band in dense["bands"]:
        for state, number in band["counts"].items():
            counts[state] = counts.get(state, 0) + number
    assert counts["succeeded"] == 129
    assert counts["dead"] == 1
    assert 718 <= counts["expected"] <= 721


def test_a_band_that_was_not_read_to_its_beginning_says_from_where(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_MOST_IN_BANDS", 50)
    api.create(schedule={"every": "5s"}, name="dense")
    now = now_of(api)
    for n in range(130):
        ran(api, "dense", now - timedelta(seconds=5 * n + 1))
    (lane,) = api.get("/v1/timeline").json()["lanes"]
    assert datetime.fromisoformat(lane["covers_from"]) > now - timedelta(seconds=255)


def test_lanes_are_pages_of_the_jobs_listing(api: InProcessApi) -> None:
    for number in range(5):
        api.create(schedule={"every": "1h"}, name=f"job-{number}")
    first = api.get("/v1/timeline", limit=3, sort="name").json()
    rest = api.get("/v1/timeline", limit=3, sort="name", cursor=first["next_cursor"]).json()
    assert [lane["name"] for lane in [*first["lanes"], *rest["lanes"]]] == [f"job-{n}" for n in range(5)]
    assert rest["next_cursor"] is None
    assert api.get("/v1/timeline", cursor=first["next_cursor"]).status == 422  # of another order
    assert api.get("/v1/timeline", limit=51).status == 422
    assert (
        api.get("/v1/timeline", **{"from": "2030-01-01T00:00:00Z", "to": "2029-01-01T00:00:00Z"}).status
        == 422
    )


def test_a_calendar_has_five_kinds_of_marks_with_counts_and_reasons(api: InProcessApi) -> None:
    job = api.create(schedule={"cron": "0 12 * * *", "time_zone": "Europe/Berlin"}, name="daily")
    ran(api, "daily", "2026-05-01T10:00:00+00:00")
    ran(api, "daily", "2026-05-02T10:00:00+00:00", "skipped", "overlap")
    ran(
        api,
        "daily",
        "2026-05-03T10:00:00+00:00",
        "skipped",
        "paused",
        until="2026-05-05T10:00:00+00:00",
        count=3,
    )
    ran(api, "daily", "2026-05-06T10:00:00+00:00", "dead", "refused")
    ran(api, "daily", "2026-05-07T10:00:00+00:00", cause="backfill")
    asked = {"from": "2026-05-01", "to": "2026-05-08"}
    answer = api.get(f"/v1/jobs/{job['id']}/calendar", **asked).json()
    days = {day["date"]: day for day in answer["days"]}
    assert answer["zone"] == "Europe/Berlin"
    assert days["2026-05-01"]["ran"] == 1
    assert days["2026-05-02"]["skipped"] == {"overlap": 1}
    assert [days[f"2026-05-0{n}"]["skipped"] for n in (3, 4, 5)] == [{"paused": 1}] * 3
    assert days["2026-05-06"]["dead"] == 1
    assert (days["2026-05-07"]["ran"], days["2026-05-07"]["backfilled"]) == (1, 1)
    assert days["2026-05-08"]["ran"] == 0


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)])
def test_a_day_on_which_the_clock_changes_has_23_or_25_hours(api: InProcessApi, day: str, hours: int) -> None:
    job = api.create(schedule={"cron": "0 12 * * *", "time_zone": "Europe/Berlin"}, name="daily")
    ran(api, "daily", f"{day}T22:30:00+00:00")  # the last hour, or the next day's first in summer
    asked = {"from": day, "to": day}
    (found,) = api.get(f"/v1/jobs/{job['id']}/calendar", **asked).json()["days"]
    assert (found["hour_count"], len(found["hours"])) == (hours, hours)
    instants = [datetime.fromisoformat(hour["at"]) for hour in found["hours"]]
    assert {later - earlier for earlier, later in pairwise(instants)} == {timedelta(hours=1)}
    assert sum(hour["ran"] for hour in found["hours"]) == found["ran"] == (0 if hours == 23 else 1)
    if hours == 25:
        assert found["hours"][24]["ran"] == 1


def test_a_calendar_expects_what_the_schedule_names(api: InProcessApi) -> None:
    job = api.create(schedule={"cron": "0 6,18 * * *"}, name="twice")
    tomorrow = (now_of(api) + timedelta(days=1)).date()
    asked = {
        "from": tomorrow.isoformat(),
        "to": (tomorrow + timedelta(days=1)).isoformat(),
        "zone": "Asia/Kolkata",
    }
    days = api.get(f"/v1/jobs/{job['id']}/calendar", **asked).json()["days"]
    assert [day["expected"] for day in days] == [2, 2]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-13-01"}, "to"),
        ({"from": "2026-05-02", "to": "2026-05-01"}, "from"),
        ({"from": "2020-01-01", "to": "2026-01-01"}, "from"),
        ({"zone": "Mars/Base"}, None),
        ({"from": "0001-01-01", "to": "0001-01-02"}, "from"),
    ],
)
def test_a_calendar_of_no_days_or_too_many_is_refused(
    api: InProcessApi, asked: dict[str, str], field: str | None
) -> None:
    job = api.create(schedule={"every": "1h"})
    answer = api.get(f"/v1/jobs/{job['id']}/calendar", **asked)
    assert answer.status == 422
    assert field is None or answer.json()["field"] == field


def names(answer: Any) -> list[str]:
    return [item["name"] for item in answer.json()["items"]]


def test_jobs_are_listed_by_name_or_next_fire_page_after_page(api: InProcessApi) -> None:
    for name, every in (("b", "3h"), ("c", "1h"), ("a", "2h")):
        api.create(schedule={"every": every, "starts_at": "2040-01-01T00:00:00Z"}, name=name)
    api.fetch(
        "UPDATE jobs SET next_fire_at = next_fire_at + (CASE name WHEN 'b' THEN 3 WHEN 'c' THEN 1 ELSE 2 END) * interval '1 h'"
    )
    for sort, order in (("created", "acb"), ("name", "abc"), ("next_fire", "cab")):
        seen, cursor = "", None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            page = api.get("/v1/jobs", sort=sort, limit=1, **more)
            seen += "".join(names(page))
            cursor = page.json()["next_cursor"]
            if cursor is None:
                break
        assert seen == order, sort


def test_jobs_that_nobody_planned_are_found_and_counted(api: InProcessApi) -> None:
    api.create(schedule={"every": "1h"}, name="well")
    api.create(schedule={"every": "1h"}, name="forgotten")
    api.fetch("UPDATE jobs SET next_fire_at = tocsin_now() - interval '5 min' WHERE name = 'forgotten'")
    assert names(api.get("/v1/jobs", overdue="true")) == ["forgotten"]
    assert api.get("/v1/jobs/count", overdue="true").json() == {"count": 1, "capped": False}
    assert api.get("/v1/jobs/count").json() == {"count": 2, "capped": False}
    assert api.get("/v1/jobs/count", cap=1).json() == {"count": 1, "capped": True}
    assert api.get("/v1/jobs/count", cap=0).status == 422


def test_a_job_says_how_it_has_fared_lately(api: InProcessApi) -> None:
    job = api.create(schedule={"every": "1h"}, name="shaky")
    now = now_of(api)
    for hours, state in enumerate(("skipped", "dead", "dead", "succeeded", "dead")):
        ran(api, "shaky", now - timedelta(hours=hours + 1), state, f"{state} {hours}")
    shown = api.get(f"/v1/jobs/{job['id']}", **{"with": "recent"}).json()
    assert (shown["last_state"], shown["last_error"], shown["consecutive_failures"]) == ("dead", "dead 1", 2)
    assert datetime.fromisoformat(shown["last_fire_at"]) == now - timedelta(hours=2)
    (listed,) = api.get("/v1/jobs", **{"with": "recent"}).json()["items"]
    assert listed == shown
    assert "last_state" not in api.get(f"/v1/jobs/{job['id']}").json()


def test_executions_are_found_by_name_tag_node_cause_and_kind_of_error(api: InProcessApi) -> None:
    api.create(schedule={"every": "1h"}, name="Nightly import", tags=["etl"])
    api.create(schedule={"every": "1h"}, name="other")
    now = now_of(api)
    ran(api, "Nightly import", now - timedelta(hours=1), "dead", "refused")
    ran(api, "other", now - timedelta(hours=2), cause="manual")
    api.fetch("UPDATE history SET error_fingerprint = 'f1', node_id = 42 WHERE state = 'dead'")
    for asked, number in (
        ({"job_name": "IGHTLY"}, 1), ({"job_name": "nothing"}, 0), ({"tag": "etl"}, 1), ({"tag": "etl,other"}, 0),
        ({"node": "42"}, 1), ({"node": "43"}, 0), ({"cause": "manual"}, 1), ({"cause": "rerun"}, 0),
        ({"fingerprint": "f1"}, 1), ({"fingerprint": "f2"}, 0), ({"error": "REFUSED"}, 1), ({}, 2),
    ):  # fmt: skip
        assert len(api.get("/v1/executions", **asked).json()["items"]) == number, asked
        assert api.get("/v1/executions/count", **asked).json() == {"count": number, "capped": False}, asked
    assert api.get("/v1/executions", node="vm-1").json()["field"] == "node"
    assert api.get("/v1/executions", cause="fate").json()["field"] == "cause"


def test_executions_are_found_by_when_they_ended(api: InProcessApi) -> None:
    api.create(schedule={"every": "1h"}, name="one")
    api.create(schedule={"in": "1h"})  # live: it has not ended
    now = now_of(api)
    for hours in (1, 2, 3):
        ran(api, "one", now - timedelta(hours=hours))
    between = text(now - timedelta(minutes=150)), text(now - timedelta(minutes=90))
    for asked, number in (
        ({}, 4), ({"finished_from": between[0]}, 2), ({"finished_to": between[1]}, 2),
        ({"finished_from": between[0], "finished_to": between[1]}, 1), ({"finished_to": between[1], "state": "queued"}, 0),
    ):  # fmt: skip
        assert len(api.get("/v1/executions", **asked).json()["items"]) == number, asked
        assert api.get("/v1/executions/count", **asked).json()["count"] == number, asked
    assert api.get("/v1/executions", finished_from="noon").json()["field"] == "finished_from"


def test_what_no_index_knows_is_searched_for_in_the_last_week_unless_a_range_is_given(
    api: InProcessApi,
) -> None:
    api.create(schedule={"every": "1h"}, name="old")
    ran(api, "old", now_of(api) - timedelta(days=10), "dead", "refused")
    assert api.get("/v1/executions", error="refused").json()["items"] == []
    assert (
        len(api.get("/v1/executions", error="refused", fire_from="2020-01-01T00:00:00Z").json()["items"]) == 1
    )


def test_a_name_that_too_many_jobs_have_is_refused_instead_of_answered_in_part(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.api.executions._MOST_JOBS", 1)
    for name in ("one", "two"):
        api.create(schedule={"every": "1h"}, name=f"import {name}")
    answer = api.get("/v1/executions", job_name="import")
    assert (answer.status, answer.json()["field"]) == (422, "job_name")


def test_a_timeline_or_count_holds_nothing_of_another_tenant(api: InProcessApi) -> None:
    stranger = api.new_key("read", tenant="stranger")
    job = api.create(schedule={"every": "1h"}, name="own", tags=["t"])
    ran(api, "own", now_of(api) - timedelta(hours=1))
    assert api.get("/v1/timeline", key=stranger).json()["lanes"] == []
    assert api.get(f"/v1/jobs/{job['id']}/calendar", key=stranger).status == 404
    for path in ("/v1/jobs/count", "/v1/executions/count"):
        assert api.get(path, key=stranger).json()["count"] == 0
    for asked in ({"job_name": "own"}, {"tag": "t"}):
        assert api.get("/v1/executions", key=stranger, **asked).json()["items"] == []


def test_the_forecast_knows_the_peak_and_creation_says_that_it_is_joined(api: InProcessApi) -> None:
    for number in range(12):
        api.create(schedule={"cron": "0 3 * * *"}, name=f"nightly-{number}")
    api.create(schedule={"at": text(now_of(api) + timedelta(hours=5))})
    unlooked = api.get("/v1/forecast").json()
    assert (sum(unlooked["expected"]), unlooked["capped"], unlooked["computed_at"]) == (0, True, None)
    foresee(api)
    answer = api.get("/v1/forecast").json()
    assert not answer["capped"]
    assert answer["age_s"] is not None
    assert sum(answer["expected"]) == 12
    assert sum(answer["one_offs"]) == 1
    (peak,) = answer["peaks"]
    assert (peak["fires"], peak["jobs"][0]["jobs"]) == (12, 12)
    assert peak["at"].endswith("T03:00:00Z")
    assert peak["at"] not in answer["free"]
    earlier = api.get("/v1/forecast", **{"from": text(now_of(api) - timedelta(hours=1))}).json()
    assert min(earlier["free"]) >= text(now_of(api)), "what is over is not free"
    fitted = api.post("/v1/forecast:fit", {"schedule": "0 3 * * *"}).json()
    assert (fitted["joins"], fitted["joins_peak"], fitted["at"]) == (12, True, peak["at"])
    assert fitted["free_slots"][0].endswith(("T03:01:00Z", "T03:00:00Z"))
    api.create(schedule="0 3 * * *", name="another")
    foresee(api)
    coarse = api.get("/v1/forecast", step="1h", queue="default").json()
    assert (coarse["step_s"], max(coarse["expected"])) == (3600, 13)
    assert sum(api.get("/v1/forecast", queue="other").json()["expected"]) == 0
    for asked in ({"step": "1s"}, {"from": "2020-01-01T00:00:00Z"}, {"to": "2020-01-01T00:00:00Z"}):
        assert api.get("/v1/forecast", **asked).status == 422


def put(api: InProcessApi, name: str, **body: Any) -> Answer:
    job = json.dumps({"target": {"kind": "noop"}} | body).encode()
    return api.call("PUT", f"/v1/jobs/by-name/{name}", job)


def test_a_recurring_job_created_alone_is_told_that_it_joins_a_peak_though_nobody_looked_before(
    url: str,
) -> None:
    with in_process_api(url) as api:
        for number in range(12):
            api.create(schedule={"cron": "0 3 * * *"}, name=f"nightly-{number}")
        foresee(api)
    with in_process_api(url) as api:  # another process
        note = api.create(schedule="0 3 * * *", name="another")["note"]
        assert note.startswith("it joins a peak of 12 fires at ")
        assert "T03:00:00Z; " in note
        made = put(api, "one-more", schedule="0 * * * *")
        assert (made.status, made.json()["note"]) == (201, note), "the highest peak that it fires in"
        assert api.create(schedule="30 4 * * *", name="alone")["note"] is None
        assert api.create(schedule={"in": "1h"})["note"] is None
        stranger = api.new_key("write", tenant="stranger")
        body = {"target": {"kind": "noop"}, "schedule": "0 3 * * *", "name": "of another tenant"}
        assert api.post("/v1/jobs", body, key=stranger).json()["note"] is None


def test_creations_share_a_look_at_the_forecast_and_none_waits_for_one_that_does_not_come(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, answered = 0, asyncio.Event()

    async def hang(*_: Any) -> Load:
        nonlocal looks
        looks += 1
        await answered.wait()
        return Load(0, [])

    monkeypatch.setattr(api.context.forecasts, "load", hang)
    for number in range(20):
        assert api.create(schedule="0 3 * * *", name=f"job {number}")["note"] is None
    assert looks == 1

    async def answer() -> None:
        answered.set()

    api.run(answer())


def test_a_creation_does_not_fail_with_its_look_at_the_forecast(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> Any:
        raise Unavailable("the database is away")

    monkeypatch.setattr(api.context.forecasts, "load", away)
    assert api.create(schedule="0 3 * * *", name="created")["note"] is None


def foresee(api: InProcessApi) -> None:
    """What schedulers do in the background."""

    async def look() -> None:
        leasing, leases = LeaseStore(api.database, 10.0), Leases(api.context.clock, 10.0)
        node = await leasing.register("scheduler", ("scheduler",), "1")
        leases.renewed(await leasing.take(node, DEFAULT_SHARDS), api.context.clock.monotonic())
        forecaster = Forecaster(
            Foreseeing(api.database, node), leases, api.context.clock, api.context.telemetry
        )
        for _ in range(8):
            forecaster._resting_until = 0
            await forecaster.run_once(api.context.clock.now())
        await leasing.give(node, list(range(DEFAULT_SHARDS)))

    api.run(look())
    api.context.fresh._kept.clear()


def test_executions_are_found_by_any_state_that_they_ended_in(api: InProcessApi) -> None:
    api.create(schedule={"every": "1h"}, name="one")
    now = now_of(api)
    for state in ("cancelled", "expired", "succeeded"):
        ran(api, "one", now - timedelta(hours=1), state)
    for state in ("cancelled", "expired", "succeeded"):
        assert [item["state"] for item in api.get("/v1/executions", state=state).json()["items"]] == [state]
