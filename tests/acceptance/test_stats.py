"""The numbers that the overview shows: right, of one tenant only, and bounded where there is much."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tocsin.api import pulse as pulse_module
from tocsin.api.endpoint import NOBODY, ApiCall
from tocsin.api.events import _still_may
from tocsin.api.pulse import Beat, Listener, Pulse
from tocsin.api.request import Request
from tocsin.clock import VirtualClock
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND, format_instant
from tocsin.store import series as series_store
from tocsin.store.leases import LeaseStore

HISTORY = """
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at, finished_at,
                         attempt, attempts, outcome, reason, error_fingerprint)
    SELECT 0, $1, now - n * interval '1 s', t.id, 'default', 5, 'schedule', $3, now - n * interval '1 s', now - n * interval '1 s',
           CASE WHEN $3 NOT IN ('skipped', 'expired') THEN now - n * interval '1 s' + $4::float8 * interval '1 ms' END,
           now - n * interval '1 s' + interval '1 s', 1, NULL, $6::jsonb, $5, $7
    FROM tenants t, generate_series(1, $8::integer) AS n, (SELECT tocsin_now() - interval '1 s' AS now) AS a_moment_ago WHERE t.name = $2"""


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
    assert summary["ended_1h"] == {"succeeded": 98, "dead": 2, "skipped": 3, "cancelled": 0, "expired": 0}
    assert 1 < summary["late_1h"]["p50_ms"] <= 2
    assert 2000 < summary["late_1h"]["p99_ms"] <= 5000
    assert summary["on_time_1h"] == 0.98
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


JOBS = """
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, queue, priority, schedule, target, policies, state, next_fire_at)
    SELECT 0, gen_random_uuid(), t.id, n % 64, 'recurring', 'default', 5, '{"every": "1h"}', '{"kind": "noop"}', '{}',
           CASE WHEN n <= $2 THEN 'active' ELSE 'paused' END, tocsin_now() + interval '1 h'
    FROM tenants t, generate_series(1, $2::integer + $3::integer) AS n WHERE t.name = $1"""


def test_paused_jobs_are_counted_beside_more_active_ones_than_a_summary_counts(api: InProcessApi) -> None:
    api.fetch(JOBS, "default", 2_500, 3)
    summary = api.get("/v1/stats/summary").json()
    assert summary["paused"]["jobs"] == {"count": 3, "capped": False}
    assert summary["recurring_jobs"] == {"count": 2_003, "capped": True}
    assert [need["text"] for need in summary["needs_you"]] == ["3 jobs are paused"]


def test_a_summary_says_so_where_it_did_not_count_all_paused_jobs(api: InProcessApi) -> None:
    api.fetch(JOBS, "default", 0, 2_500)
    summary = api.get("/v1/stats/summary").json()
    assert summary["paused"]["jobs"] == {"count": 2_000, "capped": True}
    assert [need["text"] for need in summary["needs_you"]] == ["2,000+ jobs are paused"]


def test_a_summary_holds_nothing_of_another_tenant(api: InProcessApi) -> None:
    stranger = api.new_key("read", tenant="stranger")
    ended(api, "dead", 5, reason="refused", fingerprint="f")
    api.create(schedule={"at": "2020-01-01T00:00:00Z"})
    summary = api.get("/v1/stats/summary", key=stranger).json()
    assert sum(summary["ended_1h"].values()) == summary["due"]["count"] == summary["dead_24h"]["count"] == 0
    assert summary["needs_you"] == []
    for path in ("/v1/upcoming", "/v1/dead-letters/groups"):
        assert api.get(path, key=stranger).json()["items"] == []
    assert api.get("/v1/stats/series", key=stranger).json()["series"] == []


TALLY = """
    INSERT INTO tallies (tenant_id, step_s, bucket, queue, state, node_id, count, lag, run)
    SELECT $1, $2::smallint, to_timestamp(floor(extract(epoch FROM tocsin_now()) / $2::smallint) * $2::smallint)
               - n * $2::smallint * interval '1 s', 'default', 'succeeded', 7, $3,
           '{0,10}', '{10}' FROM generate_series(0, $4) AS n"""


def test_where_much_ended_the_summary_and_the_series_come_from_tallies(api: InProcessApi) -> None:
    api.fetch(TALLY, 1, 60, 1000, 59)
    summary = api.get("/v1/stats/summary").json()
    assert summary["ended_1h"]["succeeded"] in (59_000, 60_000)
    assert summary["on_time_1h"] == 1.0
    series = api.get("/v1/stats/series").json()
    assert (series["step_s"], series["behind_s"]) == (60, 10)
    assert [line["key"] for line in series["series"]] == ["succeeded"]
    assert set(series["total"]["fires"]) <= {0, 1000}
    assert 1 < max(p99 or 0 for p99 in series["total"]["p99_ms"]) <= 2


def test_long_ranges_come_from_hours_and_a_step_may_be_asked_for(api: InProcessApi) -> None:
    api.fetch(TALLY, 1, 3600, 10_000, 240)
    now = datetime.fromisoformat(api.get("/v1/stats/summary").json()["now"])
    week = api.get(
        "/v1/stats/series", **{"from": (now - timedelta(days=7)).isoformat().replace("+00:00", "Z")}
    ).json()
    assert week["step_s"] == 3600
    assert sum(week["total"]["fires"]) >= 1_670_000
    assert api.get("/v1/stats/series", step="10m").json()["step_s"] == 600
    assert api.get("/v1/stats/series", step="1 light year").status == 422


def test_the_fleet_and_tenants_beside_each_other_are_for_operators(api: InProcessApi) -> None:
    stranger = api.new_key("read", tenant="stranger")
    api.fetch(TALLY, 0, 10, 3, 5)
    api.fetch(TALLY, 1, 60, 7, 5)
    assert sum(api.get("/v1/stats/series", of="fleet").json()["total"]["fires"]) == 18
    by_tenant = api.get("/v1/stats/series", group="tenant").json()["series"]
    assert [(line["key"], sum(line["fires"])) for line in by_tenant] == [("default", 42)]
    for asked in ({"of": "fleet"}, {"group": "tenant"}):
        assert api.get("/v1/stats/series", key=stranger, **asked).status == 403
    assert api.get("/v1/stats/lag", key=stranger, of="fleet").status == 403


def test_a_series_has_a_number_for_every_bucket_and_by_queue_too(api: InProcessApi) -> None:
    ended(api, "succeeded", 120, late_ms=3)
    ended(api, "dead", 10)
    series = api.get("/v1/stats/series").json()
    assert (series["step_s"], series["behind_s"]) == (10, 0)
    assert {line["key"]: sum(line["fires"]) for line in series["series"]} == {"dead": 10, "succeeded": 120}
    assert sum(series["total"]["fires"]) == 130
    assert all(len(line["fires"]) == len(line["p99_ms"]) == len(series["at"]) for line in series["series"])
    (queue,) = api.get("/v1/stats/series", group="queue").json()["series"]
    assert queue["key"] == "default"
    assert api.get("/v1/stats/series", queue="other").json()["series"] == []


def test_the_heat_map_counts_how_many_started_how_late(api: InProcessApi) -> None:
    ended(api, "succeeded", 30, late_ms=3)
    ended(api, "dead", 2, late_ms=90_000)
    found = api.get("/v1/stats/lag").json()
    columns = [sum(row[place] for row in found["counts"]) for place in range(len(found["bounds_ms"]) + 1)]
    assert columns[found["bounds_ms"].index(5)] == 30
    assert columns[found["bounds_ms"].index(300_000)] == 2
    assert len(found["counts"]) == len(found["at"])


def test_a_series_of_one_job_is_by_fire_times_and_says_from_where_on_it_is_whole(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = api.create(schedule={"every": "1h"}, name="one")
    ended(api, "succeeded", 50, job=uuid_of(api, job))
    ended(api, "succeeded", 70)
    assert sum(api.get("/v1/stats/series", job=job["id"]).json()["total"]["fires"]) == 50
    monkeypatch.setattr(series_store, "_MOST_OF_JOB", 20)
    part = api.get("/v1/stats/series", job=job["id"]).json()
    assert sum(part["total"]["fires"]) == 20
    assert part["covers_from"] > part["at"][0]


def test_an_hour_is_counted_again_once_it_is_over(api: InProcessApi) -> None:
    ended(api, "succeeded", 5)
    api.fetch("UPDATE history SET finished_at = finished_at - interval '2 hours'")
    (row,) = api.fetch("SELECT max(finished_at) AS at FROM history")
    for _ in range(2):
        assert api.post("/v1/tallies:rebuild", {"hour": format_instant(row["at"])}).status == 200
    counted = api.fetch("SELECT sum(count)::integer AS n FROM tallies WHERE step_s = 3600 AND tenant_id = 1")
    assert counted[0]["n"] == 5
    refused = api.post("/v1/tallies:rebuild", {"hour": api.get("/v1/stats/summary").json()["now"]})
    assert (refused.status, refused.json()["field"]) == (422, "hour")


@pytest.mark.parametrize(
    "bounds",
    [("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"), ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")],
)
def test_a_series_over_no_time_or_too_much_is_refused(api: InProcessApi, bounds: tuple[str, str]) -> None:
    answer = api.get("/v1/stats/series", **{"from": bounds[0], "to": bounds[1]})
    assert answer.problem()["field"] == "from"


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
    pulse = Pulse(api.context.stats, api.context.operations, api.context.leases, api.context.clock)

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


def test_a_pulse_tells_of_an_operation_to_its_tenant_alone_and_once(api: InProcessApi) -> None:
    stranger = api.new_key("write", tenant="stranger")
    tenants = {row["name"]: row["id"] for row in api.fetch("SELECT name, id FROM tenants")}
    own = api.post("/v1/operations", {"do": "pause", "of": "jobs", "where": {}}).json()["operation"]["id"]
    pulse = Pulse(api.context.stats, api.context.operations, api.context.leases, api.context.clock)

    async def beats() -> list[dict[int, list[int]]]:
        pulse._listeners = {Listener(tenants["default"]), Listener(tenants["stranger"])}
        found = [await pulse._operations_moved(await api.context.leases.now()) for _ in range(2)]
        return [{tenant: [row["id"] for row in rows] for tenant, rows in told.items()} for told in found]

    assert api.run(beats()) == [{tenants["default"]: [own]}, {}]
    body = {"do": "pause", "of": "jobs", "where": {}}
    theirs = api.post("/v1/operations", body, key=stranger).json()["operation"]["id"]
    assert api.run(beats()) == [{tenants["stranger"]: [theirs]}, {}]

    async def told_to_the_stranger() -> list[int]:
        pulse._listeners, pulse._moved = {Listener(tenants["stranger"])}, {}
        moved = await pulse._operations_moved(await api.context.leases.now())
        assert moved.keys() == {tenants["stranger"]}
        return [row["id"] for row in moved[tenants["stranger"]]]

    assert api.run(told_to_the_stranger()) == [theirs]


def test_a_defect_in_one_pulse_does_not_silence_those_who_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse_module, "_EVERY", 0.0)
    looks = iter([KeyError("a row of a newer version"), Unavailable("away"), []])

    class Stats:
        async def ended_since(self, *_: object) -> list[Any]:
            found = next(looks, [])
            if isinstance(found, Exception):
                raise found
            return found

        changed_since = fleet = ended_since

    async def story() -> Beat | None:
        stats: Any = Stats()
        pulse = Pulse(stats, stats, stats, VirtualClock(SECOND))
        listener = pulse.listen(1)
        beat = await listener.beats.get()
        pulse.stop()
        return beat

    assert asyncio.run(story()) == Beat(SECOND, [], [])


def test_a_slow_listener_costs_a_bounded_number_of_pulses(api: InProcessApi) -> None:
    listener = Listener(1)
    for number in range(100):
        listener.tell(Beat(number, [], []))
    assert listener.beats.qsize() == 5
    assert listener.beats.get_nowait() == Beat(95, [], [])


def test_changes_of_the_fleet_are_told_to_operators_alone_and_looked_for_only_while_one_listens(
    api: InProcessApi,
) -> None:
    pulse = Pulse(api.context.stats, api.context.operations, api.context.leases, api.context.clock)
    leases = LeaseStore(api.database, 10.0)
    node = api.run(leases.register("vm-1", ("scheduler",), "1"))

    async def heard() -> dict[bool, list[Any]]:
        listeners = {operator: pulse.listen(1, operator=operator) for operator in (True, False)}
        for listener in listeners.values():
            await listener.beats.get()
        await leases.take(node, 2)
        found = {who: [await one.beats.get() for _ in range(2)] for who, one in listeners.items()}
        pulse.stop()
        return {who: [beat.fleet for beat in beats if beat and beat.fleet] for who, beats in found.items()}

    told = api.run(heard())
    (news,) = told[True]
    assert told[False] == []
    assert {one.after for one in news.moved} == {node}
    assert len(news.moved) == 2
    assert news.names[node] == "vm-1"

    async def look_without_operators() -> Any:
        pulse._listeners = {Listener(1)}
        return await pulse._fleet_news(), pulse._fleet

    assert api.run(look_without_operators()) == (None, None)


def test_streams_end_when_the_process_stops_and_nobody_listens_then(api: InProcessApi) -> None:
    pulse = Pulse(api.context.stats, api.context.operations, api.context.leases, api.context.clock)

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
    return ApiCall(api.context, NOBODY, {}, {}, request.headers, None, request)


def test_upcoming_fires_of_many_jobs_are_the_soonest(api: InProcessApi) -> None:
    api.fetch(
        "INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, queue, priority, schedule, target, policies, next_fire_at)"
        " SELECT 0, gen_random_uuid(), t.id, (random() * 63)::integer, 'recurring', 'job-' || n, 'default', 5, '{\"every\": \"1h\"}',"
        " '{\"kind\": \"noop\"}', '{}', tocsin_now() + n * interval '1 s' FROM generate_series(1, 2000) AS n, tenants t WHERE t.name = 'default'"
    )
    names = [item["name"] for item in api.get("/v1/upcoming", limit=100).json()["items"]]
    assert names == [f"job-{n}" for n in range(1, 101)]


def test_a_paused_queue_needs_somebody(api: InProcessApi) -> None:
    for queue in ("mail.night", "default"):
        api.create(schedule={"in": "1h"}, queue=queue)
    assert api.post("/v1/queues/mail.night/pause", {"reason": "vendor down"}).status == 200
    told = api.get("/v1/stats/summary").json()
    (need,) = [need for need in told["needs_you"] if need["link"].startswith("/queues")]
    assert need["kind"] == "paused"
    assert need["text"].startswith("queue mail.night is paused by ")
    assert need["text"].endswith(": vendor down")
    assert need["link"] == "/queues/mail.night"
    assert need["since"] is not None
    assert told["paused"]["queues"] == 1
    stranger = api.get("/v1/stats/summary", key=api.new_key("read", tenant="stranger")).json()
    assert stranger["needs_you"] == []


def test_alerts_that_fire_and_keys_that_end_soon_need_somebody(api: InProcessApi) -> None:
    channel = b'{"kind": "webhook", "url": "https://ops.example.com/"}'
    assert api.call("PUT", "/v1/alert-channels/ops", channel).status == 200
    for name, scope in (("late", ""), ("churn", ', "scope": "fleet"')):
        watch = '{"kind": "%s"}' % ("lease_churn" if scope else "lag")
        body = f'{{"watch": {watch}, "channels": ["ops"]{scope}}}'
        assert api.call("PUT", f"/v1/alert-rules/{name}", body.encode()).status == 200
        api.fetch(
            "INSERT INTO alerts (tenant_id, rule, alert_group, state, since, seen_at, summary)"
            " SELECT id, $1, 'group', 'firing', tocsin_now() - length($1) * interval '1 min', tocsin_now(), 'trouble'"
            " FROM tenants WHERE name = 'default'",
            name,
        )
    for name, life in (("soon", "2d"), ("later", "30d"), ("never", None)):
        api.post("/v1/keys", {"name": name, "scopes": ["read"], "expires_in": life})
    told = api.get("/v1/stats/summary").json()["needs_you"]
    assert [(need["kind"], need["text"], need["count"]) for need in told] == [
        ("alert", "churn: trouble, and 1 more", 2),
        ("key", "the key soon ends soon", 1),
    ]
    assert told[0]["link"] == "/alerts?state=firing"
    reader = api.get("/v1/stats/summary", key=api.new_key("read")).json()["needs_you"]
    assert [need["text"] for need in reader] == ["late: trouble"], "the fleet's and keys are for operators"
    stranger = api.get("/v1/stats/summary", key=api.new_key("read", tenant="stranger")).json()
    assert stranger["needs_you"] == []


def test_what_is_due_is_counted_on_every_route_and_is_not_to_come(api: InProcessApi) -> None:
    for target in ({"kind": "noop"}, {"kind": "http", "url": "https://example.com/"}):
        api.create(schedule={"in": "1h"}, target=target, name=target["kind"])
        api.create(schedule={"now": True}, target=target)
    assert api.get("/v1/stats/summary").json()["due"]["count"] == 2
    assert sorted(item["name"] for item in api.get("/v1/upcoming").json()["items"]) == ["http", "noop"]
    assert sum(api.get("/v1/forecast").json()["one_offs"]) == 2
