"""`unique` and `debounce`: one one-off is live under a key at a time, also when many ask for it at once."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from tests.support.api import Answer, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.store import unique_keys

LATER = {"schedule": {"in": "1h"}}


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def body(**job: Any) -> dict[str, Any]:
    target = {"kind": "task", "task": job.pop("task", "shop.index"), "payload": job.pop("payload", None)}
    return {"target": target} | LATER | job


def enqueue(api: InProcessApi, **job: Any) -> tuple[int, dict[str, Any]]:
    answer = api.post("/v1/jobs", body(**job))
    return answer.status, answer.json()


def start(api: InProcessApi, key: str) -> None:
    """Let the job under a key run, as a worker would."""
    api.fetch(
        "UPDATE executions SET claim_token = 1, node_id = 1, deadline_at = tocsin_now() + interval '1 h',"
        " started_at = tocsin_now() WHERE unique_key = $1",
        key,
    )


def test_while_one_is_live_it_is_the_answer_and_then_the_key_is_free(api: InProcessApi) -> None:
    status, first = enqueue(api, unique="order:17", payload=1)
    assert (status, first["outcome"]) == (201, "created")
    status, again = enqueue(api, unique="order:17", payload=2)
    assert (status, again["outcome"], again["id"]) == (200, "existed", first["id"])
    assert (again["target"]["payload"], again["due_at"]) == (1, first["due_at"])
    assert enqueue(api, unique="order:17", task="shop.other")[1]["outcome"] == "created"
    assert enqueue(api, unique="order:18")[1]["outcome"] == "created"
    api.post(f"/v1/jobs/{first['id']}/cancel")
    status, after = enqueue(api, unique="order:17")
    assert (status, after["outcome"]) == (201, "created")
    assert after["id"] != first["id"]


@pytest.mark.parametrize("word", ["unique", "debounce"])
def test_of_many_at_once_one_creates_a_job(api: InProcessApi, word: str) -> None:
    async def all_at_once() -> list[Answer]:
        asked = json.dumps(body() | {word: f"crowd of {word}"}).encode()
        return await asyncio.gather(*(api.ask("POST", "/v1/jobs", asked) for _ in range(12)))

    answers = [answer.json() for answer in api.run(all_at_once())]
    outcomes = sorted(answer["outcome"] for answer in answers)
    assert outcomes == ["created"] + ["existed" if word == "unique" else "moved"] * 11
    assert len({answer["id"] for answer in answers}) == 1
    assert len(api.fetch("SELECT FROM executions WHERE unique_key = $1", f"crowd of {word}")) == 1


def test_debounce_moves_on_what_has_not_started_and_the_last_payload_wins(api: InProcessApi) -> None:
    _, first = enqueue(api, debounce="doc:42", payload={"n": 1}, schedule={"in": "10m"})
    status, second = enqueue(api, debounce="doc:42", payload={"n": 2}, schedule={"in": "20m"})
    assert (status, second["outcome"], second["id"]) == (200, "moved", first["id"])
    assert second["due_at"] > first["due_at"]
    assert second["target"]["payload"] == {"n": 2}
    (execution,) = api.executions(first)
    assert (execution["fire_at"], execution["due_at"]) == (first["next_fire_at"], second["due_at"])
    noted = api.get("/v1/audit", object=first["id"]).json()["items"]
    assert noted[0]["after"] == {"pushed_back_to": second["due_at"]}


def test_debounce_takes_back_what_a_worker_claimed_ahead(api: InProcessApi) -> None:
    _, job = enqueue(api, debounce="ahead")
    api.fetch(
        "UPDATE executions SET claim_token = 5, node_id = 1, deadline_at = tocsin_now() + interval '1 h'"
        " WHERE unique_key = 'ahead'"
    )
    assert enqueue(api, debounce="ahead")[1]["outcome"] == "moved"
    (row,) = api.fetch("SELECT claim_token, node_id, deadline_at FROM executions WHERE unique_key = 'ahead'")
    assert tuple(row) == (None, None, None)
    assert api.executions(job)[0]["state"] == "queued"


def test_debounce_moves_by_max_wait_in_all(api: InProcessApi) -> None:
    given = {"debounce": "bounded", "max_wait": "30m", "schedule": {"in": "20m"}}
    _, first = enqueue(api, **given)
    api.fetch("UPDATE jobs SET created_at = created_at - interval '25 m' WHERE name IS NULL")
    _, moved = enqueue(api, **given)
    (row,) = api.fetch(
        "SELECT due_at - tocsin_now() < interval '6 m' AS soon FROM executions WHERE unique_key = 'bounded'"
    )
    assert row["soon"]
    assert moved["due_at"] < first["due_at"]


def test_what_runs_already_gives_its_key_to_a_new_one(api: InProcessApi) -> None:
    _, first = enqueue(api, debounce="running")
    start(api, "running")
    status, second = enqueue(api, debounce="running", payload="last")
    assert (status, second["outcome"]) == (201, "created")
    assert second["id"] != first["id"]
    assert enqueue(api, unique="running")[1]["id"] == second["id"]


def test_a_repeated_request_gets_its_first_answer(api: InProcessApi) -> None:
    asked = json.dumps(body(debounce="once", schedule={"in": "10m"})).encode()
    headers = [(b"idempotency-key", b"the same")]
    first = api.call("POST", "/v1/jobs", asked, headers=headers)
    again = api.call("POST", "/v1/jobs", asked, headers=headers)
    assert (first.json()["outcome"], again.json()) == ("created", first.json())
    assert again.headers["idempotent-replayed"] == "true"

    async def at_once() -> list[Answer]:
        fresh = [(b"idempotency-key", b"another")]
        return await asyncio.gather(*(api.ask("POST", "/v1/jobs", asked, headers=fresh) for _ in range(6)))

    answers = api.run(at_once())
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert answers[0].json()["outcome"] == "moved"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"unique": "a", "debounce": "a"}, "unique"),
        ({"unique": ""}, "unique"),
        ({"debounce": "a\nb"}, "debounce"),
        ({"unique": "a", "schedule": {"every": "1h"}}, "unique"),
        ({"unique": "a", "max_wait": "1h"}, "max_wait"),
        ({"max_wait": "1h"}, "max_wait"),
        ({"debounce": "a", "max_wait": "1m"}, "max_wait"),
        ({"debounce": "a", "max_wait": "soon"}, "max_wait"),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(
    api: InProcessApi, given: dict[str, Any], field: str
) -> None:
    assert api.post("/v1/jobs", body(**given)).problem()["field"] == field


def test_a_batch_has_no_keys(api: InProcessApi) -> None:
    answer = api.post("/v1/jobs:batch", [body(unique="a"), body()]).json()
    assert (answer["created"], answer["items"][0]["problem"]["field"]) == (1, "unique")


def test_a_key_of_a_transaction_that_stays_open_is_not_waited_for_without_end(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unique_keys, "PATIENCE", "50ms")

    async def story() -> tuple[Answer, Answer]:
        asked = json.dumps(body() | {"unique": "open"}).encode()
        application = await asyncpg.connect(api._url)
        try:
            async with application.transaction():
                await application.execute(
                    "INSERT INTO tocsin.executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route,"
                    " unique_key) VALUES (0, gen_random_uuid(), now(), 1, 'default', 5, now(), now(), 'task:shop.index', 'open')"
                )
                refused = await api.ask("POST", "/v1/jobs", asked)
                await application.execute("DELETE FROM tocsin.executions WHERE unique_key = 'open'")
        finally:
            await application.close()
        return refused, await api.ask("POST", "/v1/jobs", asked)

    refused, created = api.run(story())
    assert refused.status == 503
    assert "has this key" in refused.json()["detail"]
    assert created.status == 201
