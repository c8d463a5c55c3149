"""The life of jobs over real processes: created by HTTP, run by an engine, told by history."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvloop

from tests.acceptance.hostile_server import (
    OK,
    HostileServer,
    Script,
    answering,
    endless,
    hostile_server,
    resetting,
    silent,
    trickling,
)
from tests.support.api import RealApi, fleet
from tests.support.postgres import Cluster
from tests.support.processes import free_port, wait_for

SOON = {"initial_backoff": "50ms", "max_backoff": "50ms", "jitter": 0}
FAILURE = b"HTTP/1.1 500 Oh No\r\nContent-Length: 4\r\n\r\noops"


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[RealApi]:
    url = cluster.new_database()
    with fleet(url) as api:
        yield api
    cluster.drop(url)


@contextlib.contextmanager
def target(*scripts: Script) -> Iterator[HostileServer]:
    """A server that plays scripts, on a thread of its own."""
    server, ready, stop = hostile_server(*scripts), threading.Event(), asyncio.Event()
    loop = uvloop.new_event_loop()

    async def play() -> None:
        async with server:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(play()))
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def _http(server: HostileServer, **fields: Any) -> dict[str, Any]:
    return {"kind": "http", "url": f"http://127.0.0.1:{server.port}/hook"} | fields


def _after(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize("way", ["now", "in", "at", "bare"])
def test_a_one_off_runs_once_at_its_instant_and_completes(api: RealApi, way: str) -> None:
    at = _after(0.4)
    schedule = {"now": {"now": True}, "in": {"in": "400ms"}, "at": {"at": at}, "bare": at}[way]
    job = api.create(schedule=schedule)
    execution = api.wait_for(job, "succeeded")
    assert execution["fire_at"] == job["next_fire_at"]
    assert execution["started_at"] >= execution["due_at"]
    assert 0 <= execution["lag_ms"] < 2000
    assert (execution["attempt"], len(execution["attempts"])) == (1, 1)
    assert execution["attempts"][0]["verdict"] == "succeeded"
    assert (api.job(job)["state"], api.job(job)["next_fire_at"]) == ("completed", None)
    assert len(api.executions(job)) == 1


@pytest.mark.parametrize("schedule", [{"every": "1s"}, {"cron": "* * * * * *"}], ids=["every", "cron"])
def test_a_recurring_job_runs_at_every_fire_time_until_it_is_cancelled(
    api: RealApi, schedule: dict[str, Any]
) -> None:
    job = api.create(schedule=schedule)
    wait_for(
        lambda: sum(e["state"] == "succeeded" for e in api.executions(job)) >= 3, 20, "it does not run thrice"
    )
    assert api.post(f"/v1/jobs/{job['id']}/cancel").json()["job"]["state"] == "cancelled"
    finished = [e for e in api.executions(job) if e["state"] == "succeeded"]
    fires = [datetime.fromisoformat(e["fire_at"]) for e in finished][::-1]
    assert all(fire.microsecond == 0 for fire in fires)
    assert {later - sooner for sooner, later in itertools.pairwise(fires)} == {timedelta(seconds=1)}
    assert all(e["state"] in ("succeeded", "cancelled") for e in api.executions(job))


def test_a_request_carries_what_the_job_says_and_who_sent_it(api: RealApi) -> None:
    with target(answering(OK)) as server:
        fields = {"method": "PUT", "headers": {"X-Team": "Zürich"}, "body": {"amount": 1}}
        job = api.create(schedule={"now": True}, target=_http(server, **fields))
        execution = api.wait_for(job, "succeeded")
    (request,) = server.requests
    assert request.line == "PUT /hook HTTP/1.1"
    assert request.body == b'{"amount":1}'
    assert request.headers["x-team"] == "Zürich"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == execution["id"]
    assert request.headers["tocsin-job"] == job["id"]
    assert request.headers["tocsin-fire-at"] == execution["fire_at"]
    assert request.headers["tocsin-attempt"] == "1"
    detail = execution["attempts"][0]["detail"]
    assert (detail["status"], detail["body"]) == (200, "ok")


def test_an_answer_of_4xx_ends_the_execution_at_once(api: RealApi) -> None:
    with target(answering(b"HTTP/1.1 404 Not Here\r\nContent-Length: 4\r\n\r\ngone")) as server:
        job = api.create(schedule={"now": True}, target=_http(server), retry=SOON)
        execution = api.wait_for(job, "dead")
    assert len(server.requests) == 1
    (attempt,) = execution["attempts"]
    assert (attempt["verdict"], attempt["detail"]["status"]) == ("rejected", 404)
    assert "404" in execution["reason"]


def test_an_answer_of_5xx_is_tried_again_under_the_same_key_until_the_attempts_are_spent(
    api: RealApi,
) -> None:
    with target(answering(FAILURE)) as server:
        job = api.create(schedule={"now": True}, target=_http(server), retry={"max_attempts": 3} | SOON)
        execution = api.wait_for(job, "dead")
    assert [attempt["number"] for attempt in execution["attempts"]] == [1, 2, 3]
    assert {attempt["verdict"] for attempt in execution["attempts"]} == {"failed"}
    assert {attempt["detail"]["body"] for attempt in execution["attempts"]} == {"oops"}
    assert [request.headers["tocsin-attempt"] for request in server.requests] == ["1", "2", "3"]
    assert {request.headers["idempotency-key"] for request in server.requests} == {execution["id"]}
    assert execution["id"] in [item["id"] for item in api.get("/v1/dead-letters").json()["items"]]


def test_a_target_that_recovers_ends_in_success(api: RealApi) -> None:
    with target(answering(FAILURE, FAILURE, OK)) as server:
        job = api.create(schedule={"now": True}, target=_http(server), retry=SOON)
        execution = api.wait_for(job, "succeeded")
    assert [attempt["verdict"] for attempt in execution["attempts"]] == ["failed", "failed", "succeeded"]
    assert execution["attempt"] == 3


def test_a_429_is_tried_again_when_the_target_asked_for_it(api: RealApi) -> None:
    busy = b"HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
    with target(answering(busy, OK)) as server:
        job = api.create(schedule={"now": True}, target=_http(server), retry=SOON)
        execution = api.wait_for(job, "succeeded")
    first, second = (datetime.fromisoformat(a["started_at"]) for a in execution["attempts"])
    # by the database's clock and by the worker's, which may be behind it by a round trip
    assert second - first > timedelta(milliseconds=900)


HOSTILE: dict[str, tuple[Script, str, str]] = {
    "hangs": (silent, "timed_out", "0.5 s"),
    "trickles": (trickling(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", 0.05), "timed_out", "0.5 s"),
    "resets": (resetting(b""), "failed", ""),
    "cuts the answer": (resetting(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"), "failed", ""),
    "is not HTTP": (answering(b"\x00\x01garbage\r\n\r\n" * 10), "failed", ""),
    "sends headers for ever": (endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100), "rejected", "head"),
    "redirects inwards": (
        answering(b"HTTP/1.1 302 Go\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"),
        "rejected",
        "302",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_a_target_does_is_an_outcome_in_history(api: RealApi, name: str) -> None:
    script, verdict, words = HOSTILE[name]
    with target(script) as server:
        job = api.create(
            schedule={"now": True}, target=_http(server, timeout="500ms"), retry={"max_attempts": 1}
        )
        execution = api.wait_for(job, "dead")
    (attempt,) = execution["attempts"]
    assert attempt["verdict"] == verdict, attempt
    assert words in attempt["error"]
    assert attempt["started_at"]
    assert attempt["finished_at"]


def test_a_refused_connection_is_an_outcome_and_is_tried_again(api: RealApi) -> None:
    nobody = {"kind": "http", "url": f"http://127.0.0.1:{free_port()}/"}
    job = api.create(schedule={"now": True}, target=nobody, retry={"max_attempts": 2} | SOON)
    execution = api.wait_for(job, "dead")
    assert [attempt["verdict"] for attempt in execution["attempts"]] == ["failed", "failed"]
    assert all(attempt["error"] for attempt in execution["attempts"])


def test_an_answer_of_ten_gigabytes_is_kept_to_its_beginning(api: RealApi) -> None:
    flood = endless(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", b"x" * 65536)
    with target(flood) as server:
        job = api.create(schedule={"now": True}, target=_http(server), retry={"max_attempts": 1})
        execution = api.wait_for(job, "succeeded")
        wait_for(lambda: not server.open_connections, 10, "the answer is read on")
    (attempt,) = execution["attempts"]
    assert attempt["detail"]["truncated"] is True
    assert len(attempt["detail"]["body"]) <= 64 * 1024


def test_bytes_that_no_database_stores_are_kept_readable(api: RealApi) -> None:
    body = b"\x00\xff\xed\xa0\x80 \x1b[31m \\u0000 ok"
    answer = b"HTTP/1.1 200 OK\r\nX-Odd: \xff\xfe\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with target(answering(answer)) as server:
        job = api.create(schedule={"now": True}, target=_http(server))
        execution = api.wait_for(job, "succeeded", "dead")
    assert execution["state"] == "succeeded"
    assert "ok" in execution["attempts"][0]["detail"]["body"]


def test_a_short_backoff_is_kept_and_not_rounded_up_to_a_polling_interval(api: RealApi) -> None:
    with target(answering(FAILURE)) as server:
        job = api.create(schedule={"now": True}, target=_http(server), retry={"max_attempts": 4} | SOON)
        execution = api.wait_for(job, "dead")
    starts = [datetime.fromisoformat(attempt["started_at"]) for attempt in execution["attempts"]]
    gaps = [later - sooner for sooner, later in itertools.pairwise(starts)]
    assert timedelta(milliseconds=50) <= min(gaps)
    assert max(gaps) < timedelta(milliseconds=500)


def test_a_running_execution_can_be_cancelled_and_says_so(api: RealApi) -> None:
    with target(silent) as server:
        job = api.create(schedule={"now": True}, target=_http(server, timeout="1m"))
        running = api.wait_for(job, "running")
        wait_for(lambda: server.connections, 10, "the target is not called")
        assert running["attempts"][0]["verdict"] is None
        asked = api.post(f"/v1/executions/{running['id']}/cancel", {"reason": "enough"})
        assert asked.status == 200
        assert (asked.json()["answer"], asked.json()["state"]) == ("cancel_requested", "running")
        execution = api.wait_for(job, "cancelled")
        assert execution["attempts"][0]["verdict"] == "cancelled"
        wait_for(lambda: not server.open_connections, 10, "the call goes on")
    assert api.job(job)["state"] == "completed"


def test_cancelling_a_job_stops_what_runs_and_calls_off_what_waits(api: RealApi) -> None:
    with target(silent) as server:
        job = api.create(schedule={"every": "1h"}, target=_http(server, timeout="1m"))
        api.post(f"/v1/jobs/{job['id']}/run")
        api.wait_for(job, "running")
        done = api.post(f"/v1/jobs/{job['id']}/cancel").json()
        assert done["asked_to_stop"] == 1
        wait_for(lambda: all(e["state"] == "cancelled" for e in api.executions(job)), 10, "executions go on")


def test_a_queued_execution_that_is_cancelled_never_hits_its_target(api: RealApi) -> None:
    with target(answering(OK)) as server:
        jobs = [api.create(schedule={"in": "5s"}, target=_http(server)) for _ in range(20)]
        for job in jobs:
            execution = api.execution(job)
            done = api.post(f"/v1/executions/{execution['id']}/cancel").json()
            assert (done["answer"], done["state"], done["final_state"]) == ("cancelled",) * 3
        last = api.create(schedule={"in": "5s"}, target=_http(server))
        api.wait_for(last, "succeeded")
    assert [request.headers["tocsin-job"] for request in server.requests] == [last["id"]]


def test_a_paused_job_does_not_fire_until_it_is_resumed(api: RealApi) -> None:
    job = api.create(schedule={"in": "500ms"})
    assert api.post(f"/v1/jobs/{job['id']}/pause").json()["held"] == 1
    later = api.create(schedule={"in": "800ms"})
    api.wait_for(later, "succeeded")
    assert api.executions(job) == []
    assert api.post(f"/v1/jobs/{job['id']}/resume").json()["fired"] == 1
    execution = api.wait_for(job, "succeeded")
    assert execution["fire_at"] == job["next_fire_at"]


def test_running_a_finished_one_off_again_makes_a_second_execution(api: RealApi) -> None:
    job = api.create(schedule={"now": True})
    api.wait_for(job, "succeeded")
    answer = api.post(f"/v1/jobs/{job['id']}/run")
    assert answer.status == 202
    wait_for(lambda: api.job(job)["state"] == "completed", 10, "the second run does not end")
    assert [e["cause"] for e in api.executions(job)] == ["manual", "schedule"]


def test_retrying_a_dead_execution_goes_on_counting_under_the_same_key(api: RealApi) -> None:
    with target(answering(FAILURE, FAILURE, FAILURE, OK)) as server:
        job = api.create(schedule={"now": True}, target=_http(server), retry={"max_attempts": 2} | SOON)
        dead = api.wait_for(job, "dead")
        assert api.post(f"/v1/executions/{dead['id']}/retry").status == 202
        execution = api.wait_for(job, "succeeded")
    assert execution["id"] == dead["id"]
    assert [attempt["number"] for attempt in execution["attempts"]] == [1, 2, 3, 4]
    assert execution["attempts"][:2] == dead["attempts"]
    assert {request.headers["idempotency-key"] for request in server.requests} == {dead["id"]}
    assert [request.headers["tocsin-attempt"] for request in server.requests] == ["1", "2", "3", "4"]
    assert dead["id"] not in [item["id"] for item in api.get("/v1/dead-letters").json()["items"]]


def test_a_succeeded_execution_is_neither_retried_nor_cancelled(api: RealApi) -> None:
    job = api.create(schedule={"now": True})
    execution = api.wait_for(job, "succeeded")
    for action in ("retry", "cancel"):
        answer = api.post(f"/v1/executions/{execution['id']}/{action}")
        assert answer.status == 409
        assert "succeeded" in answer.problem()["detail"]
    for action in ("cancel", "pause", "resume"):
        assert api.post(f"/v1/jobs/{job['id']}/{action}").status == 409
    assert api.execution(job) == execution


def test_a_job_that_completed_by_its_schedule_is_neither_paused_nor_cancelled(api: RealApi) -> None:
    job = api.create(schedule={"every": "1s", "max_fires": 1})
    api.wait_for(job, "succeeded")
    assert api.job(job)["state"] == "completed"
    for action in ("cancel", "pause", "resume"):
        answer = api.post(f"/v1/jobs/{job['id']}/{action}")
        assert (answer.status, "completed" in answer.problem()["detail"]) == (409, True)


def test_deleting_a_job_in_flight_keeps_what_happened(api: RealApi) -> None:
    with target(silent) as server:
        job = api.create(schedule={"now": True}, target=_http(server, timeout="1m"))
        api.wait_for(job, "running")
        assert api.delete(f"/v1/jobs/{job['id']}").json()["asked_to_stop"] == 1
        assert api.get(f"/v1/jobs/{job['id']}").status == 404
        execution = api.wait_for(job, "cancelled")
    assert execution["job_id"] == job["id"]


def test_the_latest_start_of_a_job_for_the_past_counts_from_its_creation(api: RealApi) -> None:
    job = api.create(schedule={"at": _after(-60)}, start_within="5s")
    assert api.wait_for(job, "succeeded", "expired")["state"] == "succeeded"


def test_the_fleet_is_seen_through_the_api(api: RealApi) -> None:
    nodes = api.get("/v1/nodes").json()["items"]
    assert {tuple(node["roles"]) for node in nodes} == {("api",), ("scheduler", "worker")}
    assert all(node["alive"] for node in nodes)
    (engine,) = [node for node in nodes if "scheduler" in node["roles"]]
    shards = api.get("/v1/shards").json()["items"]
    assert {shard["owner"] for shard in shards} == {engine["id"]}
    metrics = api.get("/metrics").body.decode()
    assert f'node="{engine["name"]}"' in metrics


def test_hundreds_of_jobs_at_once_each_run_exactly_once(api: RealApi) -> None:
    jobs = [api.create(schedule={"in": "300ms"}, queue="crowd") for _ in range(200)]
    wait_for(
        lambda: (
            len(api.get("/v1/executions", queue="crowd", state="succeeded", limit=500).json()["items"]) == 200
        ),
        20,
        f"not all of {len(jobs)} ran",
    )
    items = api.get("/v1/executions", queue="crowd", limit=500).json()["items"]
    assert {item["job_id"] for item in items} == {job["id"] for job in jobs}
    assert {item["attempt"] for item in items} == {1}
