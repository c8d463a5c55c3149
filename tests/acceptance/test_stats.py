"""The numbers that the overview shows: right, of one tenant only, and bounded where there is much."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tocsin.api.endpoint import NOBODY, Call
from tocsin.api.events import _still_may
from tocsin.api.pulse import Listener, Pulse
from tocsin.api.request import Request
from tocsin.store import stats as store

HISTORY = """
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at, finished_at,
                         attempt, attempts, outcome, reason, error_fingerprint)
    SELECT 0, $1, now - n * interval '1 s', t.id, 'default', 5, 'schedule', $3, now - n * interval '1 s', now - n * interval '1 s',
           CASE WHEN $3 NOT IN ('skipped', 'expired') THEN now - n * interval '1 s' + $4::float8 * interval '1 ms' END,
           now - n * interval '1 s' + interval '1 s', 1, NULL, $6::jsonb, $5, $7
    FROM tenants t, generate_series(1, $8::integer) AS n, tocsin_now() AS now WHERE t.name = $2"""


@pytest.fixture
def api(url: str) -> Iterator[InProcessApi]:
    with in_process_api(url) as api:
        yield api


def uuid_of(api: InProcessApi, job: dict[str, Any]) -> Any:
    return api.fetch("SELECT id FROM jobs ORDER BY created_at DESC LIMIT 1")[0]["id"]


def ended(api: InProcessApi, state: str, number: int, *, tenant: str = "default", late_ms: float = 2, reason: str | None = None,
          outcome: str | None = None, fingerprint: str | None = None, job: Any = None) -> None:  # fmt: skip
    job = job or uuid_of(api, api.create(schedule={"every": "1h"}, name=f"{tenant} {state} {reason}"))
    api.fetch(HISTORY, job, tenant, state, late_ms, reason, outcome, fingerprint, number)


def test_the_summary_counts_how_executions_of_the_last_hour_ended_and_how_late_they_were(
    api: InProcessApi,
) -> None:
    ended(api, "succeeded", 98, late_ms=2)
    ended(api, "dead", 2, late_ms=5000, reason="refused", fingerprint="f")
    ended(api, "skipped", 3, reason="overlap")
    summary = api.get("/v1/stats/summary").json()
    assert summary["ended"] == {"succeeded": 98, "dead": 2, "skipped": 3, "cancelled": 0, "expired": 0}
    assert summary["late"] == {"p50_ms": 2.0, "p99_ms": 5000.0, "on_time": 0.98}
    assert summary["window_s"] == 3600
    assert summary["dead_24h"] == {"count": 2, "capped": False}
    assert [(need["kind"], need["count"]) for need in summary["needs_you"]] == [("dead", 2), ("late", 2)]


def test_the_summary_says_what_waits_and_since_when(api: InProcessApi) -> None:
    api.create(schedule={"at": "2020-01-01T00:00:00Z"})  # due at once, and no engine is there
    api.create(schedule={"in": "1h"})
    api.fetch("UPDATE executions SET run_at = run_at - interval '1 min' WHERE run_at <= tocsin_now()")
    due = api.get("/v1/stats/summary").json()["due"]
    assert (due["count"], due["capped"]) == (1, False)
    assert due["oldest_ms"] >= 60_000


def test_nobody_is_told_that_nothing_needs_them_while_a_job_does_not_fire(api: InProcessApi) -> None:
    api.create(schedule={"every": "1h"}, name="forgotten")
    api.fetch("UPDATE jobs SET next_fire_at = tocsin_now() - interval '5 min'")
    (need,) = api.get("/v1/stats/summary").json()["needs_you"]
    assert need["kind"] == "overdue"
    assert "forgotten" in need["text"]


def test_a_summary_holds_nothing_of_another_tenant(api: InProcessApi) -> None:
    stranger = api.new_key("read", tenant="stranger")
    ended(api, "dead", 5, reason="refused", fingerprint="f")
    api.create(schedule={"at": "2020-01-01T00:00:00Z"})
    summary = api.get("/v1/stats/summary", key=stranger).json()
    assert sum(summary["ended"].values()) == summary["due"]["count"] == summary["dead_24h"]["count"] == 0
    assert summary["needs_you"] == []
    for path in ("/v1/upcoming", "/v1/dead-letters/groups", "/v1/stats/series"):
        assert api.get(path, key=stranger).json()["items"] == []


def test_where_more_ended_than_is_counted_the_window_says_how_far_it_reaches(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_MOST_ENDED", 60)
    ended(api, "succeeded", 600)
    summary = api.get("/v1/stats/summary").json()
    assert summary["ended"]["succeeded"] == 60
    assert 55 <= summary["window_s"] <= 65


def test_a_series_has_a_bucket_per_step_in_which_something_ended(api: InProcessApi) -> None:
    ended(api, "succeeded", 120, late_ms=3)
    series = api.get("/v1/stats/series").json()
    assert series["step_s"] == 10
    assert sum(bucket["succeeded"] for bucket in series["items"]) == 120
    assert all(bucket["p99_ms"] == 3.0 for bucket in series["items"])
    assert len(series["items"]) in (12, 13)


def test_a_series_says_from_where_on_it_is_whole(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MOST_IN_SERIES", 50)
    ended(api, "succeeded", 500)
    series = api.get("/v1/stats/series").json()
    assert sum(bucket["succeeded"] for bucket in series["items"]) == 50
    now = api.get("/v1/stats/summary").json()["now"]
    assert datetime.fromisoformat(now) - datetime.fromisoformat(series["covers_from"]) < timedelta(minutes=2)
    whole = api.get(
        "/v1/stats/series", **{"from": "2020-01-01T00:00:00Z", "to": "2020-01-01T01:00:00Z"}
    ).json()
    assert whole["covers_from"] == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "bounds",
    [("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"), ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")],
)
def test_a_series_over_no_time_or_too_much_is_refused(api: InProcessApi, bounds: tuple[str, str]) -> None:
    answer = api.get("/v1/stats/series", **{"from": bounds[0], "to": bounds[1]})
    assert answer.problem()["field"] == "from"


def test_dead_letters_with_different_statuses_are_different_kinds(api: InProcessApi) -> None:
    for status, number in ((503, 3), (404, 2)):
        ended(
            api,
            "dead",
            number,
            reason=f"the target answered {status}",
            outcome=f'{{"verdict": "failed", "detail": {{"status": {status}}}}}',
            fingerprint="same",
        )
    groups = api.get("/v1/dead-letters/groups").json()
    assert [(group["status"], group["count"], group["jobs"]) for group in groups["items"]] == [
        ("503", 3, 1),
        ("404", 2, 1),
    ]
    assert api.get(f"/v1/executions/{groups['items'][0]['sample']}").status == 200


def test_upcoming_fires_are_the_planned_ones_and_the_first_of_each_job(api: InProcessApi) -> None:
    soon = api.create(schedule={"in": "30s"}, name="soon")
    hourly = api.create(schedule={"every": "1h"}, name="hourly")
    items = api.get("/v1/upcoming").json()["items"]
    assert [(item["name"], item["execution"] is not None) for item in items] == [
        ("soon", True),
        ("hourly", False),
    ]
    assert items[0]["job_id"] == soon["id"]
    assert items[1]["at"] == hourly["next_fire_at"]


def test_a_page_of_jobs_comes_with_its_last_outcomes_and_words_if_asked(api: InProcessApi) -> None:
    job = api.create(schedule={"every": "1h"}, name="hourly")
    ended(api, "succeeded", 30, job=uuid_of(api, job))
    api.create(schedule={"cron": "0 9 * * *"}, name="new")
    new, hourly = api.get("/v1/jobs", **{"with": "recent"}).json()["items"]
    assert (new["recent"], new["schedule_words"]) == ([], "at 09:00 every day (UTC)")
    assert len(hourly["recent"]) == 20
    assert hourly["recent"][0]["fire_at"] > hourly["recent"][1]["fire_at"]
    assert hourly["recent"][0]["late_ms"] == 2.0
    assert "recent" not in api.get("/v1/jobs").json()["items"][0]


def test_executions_are_shown_under_their_jobs_names(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"}, name="named")
    api.create(schedule={"in": "1h"})
    assert {item["job_name"] for item in api.get("/v1/executions").json()["items"]} == {"named", None}
    assert api.execution(job)["job_name"] == "named"


def test_a_pulse_tells_each_listener_of_its_tenant_once(api: InProcessApi) -> None:
    api.new_key("read", tenant="stranger")
    (tenant,) = api.fetch("SELECT id FROM tenants WHERE name = 'default'")
    (other,) = api.fetch("SELECT id FROM tenants WHERE name = 'stranger'")
    job = uuid_of(api, api.create(schedule={"every": "1h"}, name="told"))
    pulse = Pulse(api.context.stats, api.context.clock)

    async def beat() -> tuple[dict[int, list[Any]], dict[int, list[Any]]]:
        pulse._listeners = {Listener(tenant["id"]), Listener(other["id"])}
        first = await pulse._news(await api.context.leases.now())
        second = await pulse._news(await api.context.leases.now())
        return first, second

    ended(api, "succeeded", 1, job=job)
    first, second = api.run(beat())
    assert [row["name"] for row in first[tenant["id"]]] == ["told"]
    assert other["id"] not in first
    assert second == {}


def test_a_slow_listener_costs_a_bounded_number_of_pulses(api: InProcessApi) -> None:
    listener = Listener(1)
    for number in range(100):
        listener.tell((number, []))
    assert listener.beats.qsize() == 5
    assert listener.beats.get_nowait() == (95, [])


def test_streams_end_when_the_process_stops_and_nobody_listens_then(api: InProcessApi) -> None:
    pulse = Pulse(api.context.stats, api.context.clock)

    async def stop() -> list[Any]:
        listener = pulse.listen(1)
        pulse.stop()
        late = pulse.listen(1)
        return [await listener.beats.get(), await late.beats.get()]

    assert api.run(stop()) == [None, None]


def test_a_stream_ends_when_its_key_is_revoked(api: InProcessApi) -> None:
    key = api.new_key("read", tenant="streaming")
    may = lambda: api.run(_still_may(call_of(api, key)))  # noqa: E731
    assert may()
    api.fetch("UPDATE api_keys SET revoked_at = tocsin_now() WHERE id = $1", key.split("_")[1])
    api.context.authenticator.forget()
    assert not may()


def call_of(api: InProcessApi, key: str) -> Any:
    scope = {
        "method": "GET",
        "scheme": "http",
        "path": "/v1/events",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {key}".encode())],
    }
    request = Request(scope, asyncio.Event().wait)
    return Call(api.context, NOBODY, {}, {}, request.headers, None, request)


def test_upcoming_fires_of_many_jobs_are_the_soonest(api: InProcessApi) -> None:
    api.fetch(
        "INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, queue, priority, schedule, target, policies, next_fire_at)"
        " SELECT 0, gen_random_uuid(), t.id, (random() * 63)::integer, 'recurring', 'job-' || n, 'default', 5, '{\"every\": \"1h\"}',"
        " '{\"kind\": \"noop\"}', '{}', tocsin_now() + n * interval '1 s' FROM generate_series(1, 2000) AS n, tenants t WHERE t.name = 'default'"
    )
    names = [item["name"] for item in api.get("/v1/upcoming", limit=100).json()["items"]]
    assert names == [f"job-{n}" for n in range(1, 101)]
