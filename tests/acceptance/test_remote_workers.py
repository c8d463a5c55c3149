"""The worker protocol, in process: what a remote worker is told, and what becomes of what it tells."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as found:
        yield found
    cluster.drop(url)


class Remote:
    """A remote worker that does one thing at a time."""

    def __init__(self, api: InProcessApi, *tasks: str, tenant: str = "default", **more: Any) -> None:
        self.api = api
        self.key = api.new_key("worker", "read", "write", tenant=tenant)
        self.seq = 0
        new = {"name": "test", "tasks": [{"name": task} for task in tasks], "capacity": 10, **more}
        answer = api.post("/v1/workers", new, key=self.key)
        assert answer.status == 201, answer
        self.id = answer.json()["worker"]

    def enqueue(self, task: str, payload: Any = None, **job: Any) -> dict[str, Any]:
        target = {"kind": "task", "task": task, "payload": payload}
        answer = self.api.post("/v1/jobs", {"schedule": {"in": 0}, "target": target, **job}, key=self.key)
        assert answer.status == 201, answer
        made: dict[str, Any] = answer.json()
        return made

    def say(self, what: str, **body: Any) -> dict[str, Any]:
        answer = self.api.post(f"/v1/workers/{self.id}/{what}", body, key=self.key)
        assert answer.status == 200, answer
        said: dict[str, Any] = answer.json()
        return said

    def claim(self, want: int = 10, wait_ms: int = 2000, **more: Any) -> dict[str, Any]:
        self.seq += 1
        return self.say("claim", **({"seq": self.seq, "want": want, "wait_ms": wait_ms} | more))

    def one(self) -> dict[str, Any]:
        (claim,) = self.claim()["claims"]
        found: dict[str, Any] = claim
        return found

    def settle(self, claim: dict[str, Any], verdict: str, **more: Any) -> list[Any]:
        settlement = {"id": claim["id"], "token": claim["token"], "verdict": verdict, **more}
        settled: list[Any] = self.say("settle", settle=[settlement])["settled"]
        return settled

    def execution(self, claim: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = self.api.get(f"/v1/executions/{claim['id']}", key=self.key).json()
        return shown


def held(claim: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": claim["id"], "token": claim["token"], **more}


def test_a_task_is_handed_out_run_and_its_result_kept(api: InProcessApi) -> None:
    worker = Remote(api, "shop.add")
    worker.enqueue("shop.add", {"numbers": [1, 2.5, None, "ü"]}, timeout="5m")
    claim = worker.one()
    assert (claim["task"], claim["payload"]) == ("shop.add", {"numbers": [1, 2.5, None, "ü"]})
    assert (claim["attempt"], claim["timeout_ms"], claim["queue"]) == (1, 300_000, "default")
    assert claim["idempotency_key"] == claim["id"]
    running = worker.execution(claim)
    assert (running["state"], running["attempts"][0]["worker"]) == ("running", worker.id)
    assert worker.settle(claim, "succeeded", result={"sum": 2**63, "nul": "a\x00b"}) == []
    done = worker.execution(claim)
    assert done["state"] == "succeeded"
    assert done["attempts"][0]["result"] == {"sum": 2**63, "nul": "a\\x00b"}
    assert done["attempts"][0]["worker"] == worker.id


def test_a_worker_gets_only_its_tasks_and_queues_of_its_own_tenant(api: InProcessApi) -> None:
    stranger = Remote(api, "shop.secret", tenant="stranger")
    other_queue = Remote(api, "shop.secret", queues=["elsewhere"])
    other_task = Remote(api, "shop.public")
    worker = Remote(api, "shop.secret")
    worker.enqueue("shop.secret")
    for nobody in (stranger, other_queue, other_task):
        assert nobody.claim(wait_ms=100)["claims"] == []
    claim = worker.one()
    assert stranger.settle(claim, "succeeded") == [{"id": claim["id"], "status": "lost"}]
    assert stranger.say("heartbeat", held=[held(claim)])["lost"] == [claim["id"]]
    assert stranger.say("release", claims=[held(claim)]) == {"released": 0}
    assert api.post(f"/v1/workers/{worker.id}/claim", {"seq": 1, "want": 1}, key=stranger.key).status == 404
    assert worker.settle(claim, "succeeded") == []


@pytest.mark.parametrize(
    ("verdict", "more", "state", "reason"),
    [
        ("rejected", {"error": {"kind": "ValueError", "message": "no such customer"}}, "dead", "ValueError: no such customer"),
        ("cancelled", {}, "cancelled", None),
        ("skipped", {"reason": "empty"}, "skipped", "empty"),
    ],
)  # fmt: skip
def test_an_attempt_ends_as_its_worker_says(
    api: InProcessApi, verdict: str, more: dict[str, Any], state: str, reason: str | None
) -> None:
    worker = Remote(api, f"end.{verdict}")
    worker.enqueue(f"end.{verdict}")
    claim = worker.one()
    assert worker.settle(claim, verdict, **more) == []
    ended = worker.execution(claim)
    assert (ended["state"], ended["attempts"][0]["verdict"]) == (state, verdict)
    assert reason is None or ended["reason"] == reason


def test_a_failed_attempt_is_tried_again_under_the_same_key(api: InProcessApi) -> None:
    worker = Remote(api, "flaky")
    worker.enqueue("flaky", retry={"initial_backoff": 0, "max_backoff": 0})
    first = worker.one()
    error = {"kind": "ConnectionError", "message": "refused", "trace": "Traceback …"}
    assert worker.settle(first, "failed", error=error) == []
    second = worker.one()
    assert (second["id"], second["attempt"]) == (first["id"], 2)
    assert second["token"] != first["token"]
    assert second["idempotency_key"] == first["idempotency_key"]
    assert worker.settle(first, "succeeded") == [{"id": first["id"], "status": "lost"}]
    assert worker.settle(second, "succeeded") == []
    done = worker.execution(first)
    assert [attempt["verdict"] for attempt in done["attempts"]] == ["failed", "succeeded"]
    assert done["attempts"][0]["error"] == "ConnectionError: refused"
    assert done["attempts"][0]["detail"] == {"kind": "ConnectionError", "trace": "Traceback …"}
    assert done["attempts"][0]["worker"] == worker.id


def test_a_retry_waits_as_long_as_the_worker_asks(api: InProcessApi) -> None:
    worker = Remote(api, "later")
    worker.enqueue("later", retry={"initial_backoff": 0, "max_backoff": 0})
    claim = worker.one()
    worker.settle(claim, "failed", error={"kind": "Busy"}, retry_after_ms=3_600_000)
    again = worker.execution(claim)
    assert (again["state"], again["attempt"]) == ("queued", 2)
    assert again["run_at"] > again["fire_at"][:10]
    assert worker.claim(wait_ms=100)["claims"] == []


def test_what_a_task_puts_off_counts_no_attempt(api: InProcessApi) -> None:
    worker = Remote(api, "waits")
    worker.enqueue("waits")
    claim = worker.one()
    assert worker.settle(claim, "postponed", retry_after_ms=1, reason="waiting for the file") == []
    again = worker.one()
    assert (again["id"], again["attempt"]) == (claim["id"], 1)
    worker.settle(again, "postponed", retry_after_ms=60_000)
    told = api.get(f"/v1/executions/{claim['id']}/explain", key=worker.key).json()
    assert told["steps"][-1]["kind"] == "task"


def test_what_was_not_begun_goes_back_as_if_it_had_not_been_claimed(api: InProcessApi) -> None:
    worker = Remote(api, "unbegun")
    worker.enqueue("unbegun")
    claim = worker.one()
    assert worker.say("release", claims=[held(claim)]) == {"released": 1}
    assert worker.say("release", claims=[held(claim)]) == {"released": 0}
    again = worker.one()
    assert (again["id"], again["attempt"]) == (claim["id"], 1)


def test_a_settlement_told_twice_is_written_once(api: InProcessApi) -> None:
    worker = Remote(api, "twice")
    worker.enqueue("twice")
    claim = worker.one()
    assert worker.settle(claim, "succeeded", result=1) == []
    assert worker.settle(claim, "succeeded", result=2) == []
    assert worker.execution(claim)["attempts"][0]["result"] == 1


def test_a_claim_asked_for_twice_is_given_once_and_answered_twice(api: InProcessApi) -> None:
    worker = Remote(api, "repeat")
    for _ in range(3):
        worker.enqueue("repeat")
    first = worker.claim(want=2)
    worker.seq -= 1
    again = worker.claim(want=2)
    assert [claim["token"] for claim in again["claims"]] == [claim["token"] for claim in first["claims"]]
    assert len(worker.claim(want=2)["claims"]) == 1


def test_settlements_go_with_the_next_claim(api: InProcessApi) -> None:
    worker = Remote(api, "batch")
    for _ in range(5):
        worker.enqueue("batch")
    claims = worker.claim()["claims"]
    assert len(claims) == 5
    settle = [held(claim, verdict="succeeded") for claim in claims]
    settle.append({"id": claims[0]["id"], "token": "1", "verdict": "succeeded"})
    answer = worker.claim(want=0, wait_ms=0, settle=settle)
    assert answer["settled"] == [{"id": claims[0]["id"], "status": "lost"}]
    assert {worker.execution(claim)["state"] for claim in claims} == {"succeeded"}


def test_a_heartbeat_keeps_claims_tells_progress_and_hears_of_stops(api: InProcessApi) -> None:
    worker = Remote(api, "long")
    worker.enqueue("long", timeout="1h")
    claim = worker.one()
    beat = worker.say(
        "heartbeat", held=[held(claim, progress={"share": 0.4, "note": "rendering"})], running=1
    )
    assert (beat["lost"], beat["stop"], beat["drain"]) == ([], [], False)
    assert worker.execution(claim)["progress"] == {"share": 0.4, "note": "rendering"}
    cancelled = api.post(f"/v1/executions/{claim['id']}/cancel", {"reason": "enough"}, key=worker.key).json()
    assert cancelled["answer"] == "cancel_requested"
    (stop,) = worker.say("heartbeat", held=[held(claim)])["stop"]
    assert stop["id"] == claim["id"]
    worker.settle(claim, "cancelled")
    assert (worker.execution(claim)["state"], worker.execution(claim)["reason"]) == ("cancelled", "enough")
    assert worker.say("heartbeat", held=[held(claim)])["lost"] == [claim["id"]]


def test_what_a_task_logs_is_kept_once_up_to_its_bounds(api: InProcessApi) -> None:
    worker = Remote(api, "chatty")
    worker.enqueue("chatty")
    claim = worker.one()

    def line(seq: int, message: str = "said") -> dict[str, Any]:
        return {"seq": seq, "at": "2030-01-01T00:00:00Z", "message": message, "fields": {"n": seq}}

    worker.say("heartbeat", held=[held(claim, logs=[line(1), line(2)])])
    worker.say("heartbeat", held=[held(claim, logs=[line(2), line(3, "nul \x00")])])
    worker.settle(claim, "succeeded", logs=[line(number) for number in range(4, 1001)])
    path, lines = f"/v1/executions/{claim['id']}/logs", []
    page = api.get(path, key=worker.key, limit=500).json()
    while page["items"]:
        lines += page["items"]
        if page["next_cursor"] is None:
            break
        page = api.get(path, key=worker.key, limit=500, cursor=page["next_cursor"]).json()
    assert [one["seq"] for one in lines] == list(range(1, 1001))
    assert lines[2]["message"] == "nul \\x00"
    assert "dropped" in lines[-1]["message"]
    assert lines[0]["fields"] == {"n": 1}
    refused = api.post(
        f"/v1/workers/{worker.id}/heartbeat", {"held": [held(claim, logs=[{"seq": 1}])]}, key=worker.key
    )
    assert refused.status == 422


def test_a_result_that_is_too_large_is_refused_and_harms_no_other(api: InProcessApi) -> None:
    worker = Remote(api, "large")
    worker.enqueue("large")
    worker.enqueue("large")
    one, other = worker.claim()["claims"]
    settle = [
        held(one, verdict="succeeded", result="x" * 300_000),
        held(other, verdict="succeeded", result="small"),
    ]
    (refused,) = worker.say("settle", settle=settle)["settled"]
    assert (refused["id"], refused["status"]) == (one["id"], "refused")
    assert "300,002 bytes" in refused["problem"]
    assert worker.execution(other)["state"] == "succeeded"
    assert worker.execution(one)["state"] == "running"
    body = json.dumps({"settle": [held(one, verdict="succeeded", result="x" * 10_000_000)]}).encode()
    assert api.call("POST", f"/v1/workers/{worker.id}/settle", body, key=worker.key).status == 413


def test_a_limit_of_one_holds_over_workers(api: InProcessApi) -> None:
    first, second = Remote(api, "single"), Remote(api, "single")
    for _ in range(2):
        first.enqueue("single", limit={"key": "one-at-a-time", "max_parallel": 1})
    claim = first.one()
    assert second.claim(wait_ms=100)["claims"] == []
    assert first.settle(claim, "succeeded") == []
    following = second.claim(wait_ms=10_000)["claims"]
    assert len(following) == 1
    assert following[0]["id"] != claim["id"]


def test_a_worker_that_people_drain_is_told_and_gets_no_more(api: InProcessApi) -> None:
    worker = Remote(api, "drained")
    assert worker.claim(wait_ms=0)["drain"] is False
    shown = api.post(f"/v1/workers/{worker.id}/drain", key=worker.key).json()
    assert (shown["state"], shown["tasks"]) == ("draining", ["drained"])
    worker.api.gateway._look_at_states()  # the notice, which nothing hears in this process
    assert worker.claim(wait_ms=10_000)["drain"] is True
    worker.enqueue("drained")
    assert worker.claim(wait_ms=0)["claims"] == []
    api.delete(f"/v1/workers/{worker.id}", key=worker.key)
    assert api.post(f"/v1/workers/{worker.id}/heartbeat", {"held": []}, key=worker.key).status == 404
    listed = api.get("/v1/workers", key=worker.key, all="true").json()["items"]
    assert [one["state"] for one in listed if one["id"] == worker.id] == ["gone"]


def test_explain_says_who_serves_a_task_and_who_did(api: InProcessApi) -> None:
    worker = Remote(api, "served", app="shop", revision="411")
    worker.enqueue("served", queue="default")
    (execution,) = api.get("/v1/executions", key=worker.key, state="queued", limit=1).json()["items"]
    path = f"/v1/executions/{execution['id']}/explain"
    assert api.get(path, key=worker.key).json()["steps"][-1]["kind"] == "ready"
    api.delete(f"/v1/workers/{worker.id}", key=worker.key)
    told = api.get(path, key=worker.key).json()["steps"][-1]
    assert told["kind"] == "unserved"
    assert "no live worker serves the task served" in told["words"]
    assert "test shop 411" in told["words"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"tasks": []}, "tasks"),
        ({"tasks": [{"name": "a b"}]}, "tasks.name"),
        ({"protocol": 2}, "protocol"),
        ({"capacity": 0}, "capacity"),
        ({"lease": "1s"}, "lease"),
        ({"queues": []}, "queues"),
        ({"queues": ["Mail"]}, "queues"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_by_field(
    api: InProcessApi, change: dict[str, Any], field: str
) -> None:
    new = {"name": "test", "tasks": [{"name": "a"}]} | change
    refused = api.post("/v1/workers", new, key=api.new_key("worker"))
    assert refused.status == 422
    assert refused.problem()["field"] == field


@pytest.mark.parametrize(
    ("call", "body", "field"),
    [
        ("claim", {"seq": 2**53 + 1, "want": 1}, "seq"),
        ("claim", {"seq": 1, "want": 1001}, "want"),
        ("claim", {"seq": 1, "want": 0, "settle": [{"id": "", "token": "", "verdict": "failed", "retry_after_ms": 2**63}]},
         "settle.retry_after_ms"),
        ("settle", {"settle": [{"id": "", "token": "", "verdict": "failed", "retry_after_ms": -1}]}, "settle.retry_after_ms"),
        ("heartbeat", {"held": [], "running": 2**31}, "running"),
        ("heartbeat", {"held": [{"id": "", "token": "", "logs": [{"seq": 0, "at": "2030-01-01T00:00:00Z", "message": ""}]}]},
         "held.logs.seq"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_kept_are_refused_before_anything_is_done(
    api: InProcessApi, call: str, body: dict[str, Any], field: str
) -> None:
    worker = Remote(api, "numbers")
    refused = api.post(f"/v1/workers/{worker.id}/{call}", body, key=worker.key)
    assert (refused.status, refused.problem()["field"]) == (422, field)


def test_what_names_no_claim_and_waits_without_end_harm_no_other(api: InProcessApi) -> None:
    worker = Remote(api, "endless")
    worker.enqueue("endless")
    worker.enqueue("endless")
    late, soon = worker.claim()["claims"]
    settle = [
        {"id": "", "token": "x", "verdict": "succeeded"},
        held(late, verdict="failed", retry_after_ms=2**53),
        held(soon, verdict="succeeded"),
    ]
    (refused,) = worker.say("settle", settle=settle)["settled"]
    assert (refused["id"], refused["status"]) == ("", "refused")
    assert worker.execution(soon)["state"] == "succeeded"
    assert (worker.execution(late)["state"], worker.execution(late)["attempt"]) == ("queued", 2)


def test_a_client_waits_for_the_end_of_an_execution(api: InProcessApi) -> None:
    worker = Remote(api, "awaited")
    worker.enqueue("awaited")
    claim = worker.one()
    path = f"/v1/executions/{claim['id']}"
    assert api.get(path, key=worker.key, wait="100ms").json()["state"] == "running"
    worker.settle(claim, "succeeded", result=[1])
    assert api.get(path, key=worker.key, wait="30s").json()["attempts"][0]["result"] == [1]
    assert api.get(path, key=worker.key, wait="31s").status == 422
