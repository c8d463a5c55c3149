"""Operations over HTTP: what they would do is told first, bad ones are refused by field, and they are carried
out once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import Answer, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.target_kind import KINDS
from tocsin.failpoints import Failpoints
from tocsin.store.acting import Acting
from tocsin.store.gathering import Gathering

FUTURE = "2100-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def api(shared: InProcessApi) -> InProcessApi:
    for table in ("executions", "history", "operations", "jobs", "audit", "idempotency"):
        shared.fetch(f"DELETE FROM {table}")
    return shared


def ask(api: InProcessApi, do: str, of: str, **more: Any) -> Answer:
    return api.post("/v1/operations", {"do": do, "of": of, **more})


def carry_out(api: InProcessApi) -> None:
    """As a scheduler does it."""

    async def work() -> None:
        acting = Acting(api.database, 45.0, Failpoints())
        while (await acting.advance(api.context.clock.now()))[0]:
            pass

    api.run(work())


def recurring(api: InProcessApi, number: int, **fields: Any) -> list[dict[str, Any]]:
    return [api.create(schedule={"every": "1h"}, **fields) for _ in range(number)]


def test_a_dry_run_says_how_many_which_cannot_and_what_then_happens(api: InProcessApi) -> None:
    mail = recurring(api, 12, queue="mail", tags=["etl"])
    recurring(api, 2)
    api.post(f"/v1/jobs/{mail[0]['id']}/pause")
    where = {"queue": "mail", "tags": ["etl"]}
    said = ask(api, "pause", "jobs", where=where, dry_run=True)
    assert said.status == 200
    told = said.json()
    assert (told["operation"], told["count"], told["capped"], len(told["sample"])) == (None, 12, False, 10)
    assert told["cannot"] == [{"reason": "the job is paused", "count": 1}]
    assert told["sample"][0]["id"] == mail[-1]["id"]
    assert api.fetch("SELECT FROM operations") == []

    made = ask(api, "pause", "jobs", where=where, reason="vendor down")
    assert made.status == 202
    operation = made.json()["operation"]
    assert (operation["state"], operation["matched"], operation["where"]) == ("running", 12, where)
    carry_out(api)
    done = api.get(f"/v1/operations/{operation['id']}").json()
    assert (done["state"], done["done"], done["cannot"], done["left"]) == ("completed", 11, 1, 0)
    assert done["errors"][0]["sample"] == mail[0]["id"]
    assert [job["state_reason"] for job in map(api.job, mail)] == [None] + ["vendor down"] * 11
    assert [item["id"] for item in api.get("/v1/operations", state="completed").json()["items"]] == [
        operation["id"]
    ]


MANY = """
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, queue, priority, schedule, target, policies, next_fire_at)
    SELECT 0, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1, n % 64, 'recurring', 'default', 5,
           '{"every": "1h"}', '{"kind": "noop"}', '{}', tocsin_now() + interval '1 h' FROM generate_series(1, $1::integer) AS n"""


def test_an_operation_acts_on_however_many_match(api: InProcessApi) -> None:
    api.fetch(MANY, 200_007)
    told = ask(api, "pause", "jobs", where={}, dry_run=True).json()
    assert (told["count"], told["capped"]) == (100_000, True)
    made = ask(api, "pause", "jobs", where={"state": "active"}).json()
    assert (made["count"], made["capped"], made["operation"]["gathering"]) == (100_000, True, True)
    api.create(schedule={"every": "1h"})  # what comes later is not touched
    for _ in range(2):
        api.run(Gathering(api.database, Failpoints()).advance(api.context.clock.now()))
    found = api.get(f"/v1/operations/{made['operation']['id']}").json()
    assert (found["matched"], found["gathering"]) == (200_007, False)
    things = "SELECT unnest(job_ids) AS id FROM operation_batches"
    (row,) = api.fetch(f"SELECT count(*) AS number, count(DISTINCT id) AS apart FROM ({things}) AS g")
    assert row["number"] == row["apart"] == 200_007
    batch = "SELECT FROM operation_batches WHERE cardinality(job_ids) <> 500"
    assert len(api.fetch(batch)) == 1, "only the last batch may be short"


def test_jobs_are_found_by_every_kind_of_target(api: InProcessApi) -> None:
    recurring(api, 3, target={"kind": "task", "task": "shop.send"})
    found = {
        kind: ask(api, "pause", "jobs", where={"target": kind}, dry_run=True).json().get("count")
        for kind in KINDS
    }
    assert found == dict.fromkeys(KINDS, 0) | {"task": 3}


def test_the_audit_log_names_who_asked_at_its_beginning_its_end_and_for_each_job(api: InProcessApi) -> None:
    (job,) = recurring(api, 1)
    operation = ask(api, "pause", "jobs", ids=[job["id"]]).json()["operation"]["id"]
    carry_out(api)
    key = api.get("/v1/whoami").json()["key_id"]
    entries = api.get("/v1/audit", object=f"operation:{operation}").json()["items"]
    assert [(entry["action"], entry["actor"]) for entry in entries] == [
        ("operation.complete", "system"),
        ("operation.create", key),
    ]
    of_job = api.get("/v1/audit", object=job["id"], action="job.pause").json()["items"]
    assert [(entry["actor"], entry["after"]) for entry in of_job] == [(key, {"operation": operation})]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"do": "retry", "of": "jobs", "where": {}}, "do"),
        ({"do": "pause", "of": "jobs"}, "where"),
        ({"do": "pause", "of": "jobs", "where": {}, "ids": []}, "where"),
        ({"do": "pause", "of": "jobs", "ids": []}, "ids"),
        ({"do": "pause", "of": "jobs", "ids": ["nonsense"]}, "ids[0]"),
        ({"do": "pause", "of": "jobs", "where": {"error": "x"}}, "where.error"),
        ({"do": "pause", "of": "jobs", "where": {"state": "dead"}}, "where.state"),
        ({"do": "pause", "of": "jobs", "where": {"created_from": "soon"}}, "where.created_from"),
        ({"do": "retry", "of": "executions", "where": {"job": "x"}}, "where.job"),
        ({"do": "retry", "of": "executions", "where": {"min_lag": "x"}}, "where.min_lag"),
        ({"do": "retry", "of": "dead_letters", "where": {"state": "dead"}}, "where.state"),
        ({"do": "pause", "of": "jobs", "where": {}, "pace": "2h"}, "pace"),
        ({"do": "pause", "of": "jobs", "where": {}, "steps": [0]}, "steps"),
        ({"do": "pause", "of": "jobs", "where": {}, "steps": [1] * 11}, "steps"),
        ({"do": "pause", "of": "jobs", "where": {}, "stop_at": {"share": 0}}, "stop_at.share"),
        ({"do": "pause", "of": "jobs", "where": {}, "stop_at": {"share": 1, "of": 0}}, "stop_at.of"),
        ({"do": "pause", "of": "jobs", "where": {}, "reason": ""}, "reason"),
        ({"do": "polish", "of": "jobs", "where": {}}, "do"),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused_by_field(
    api: InProcessApi, body: Any, field: str
) -> None:
    recurring(api, 1)
    answer = api.post("/v1/operations", body)
    assert answer.status == 422
    assert answer.problem()["field"] == field
    assert api.fetch("SELECT FROM operations") == []


def test_a_repeated_request_with_a_key_makes_one_operation(api: InProcessApi) -> None:
    recurring(api, 1)
    body = json.dumps({"do": "run", "of": "jobs", "where": {}}).encode()
    headers = [(b"idempotency-key", b"once")]
    first, second = (api.call("POST", "/v1/operations", body, headers=headers) for _ in range(2))
    assert first.status == second.status == 202
    assert first.json()["operation"]["id"] == second.json()["operation"]["id"]
    assert second.headers["idempotent-replayed"] == "true"


def test_it_is_held_goes_on_and_is_stopped(api: InProcessApi) -> None:
    recurring(api, 3)
    path = f"/v1/operations/{ask(api, 'delete', 'jobs', where={}).json()['operation']['id']}"
    assert api.post(f"{path}/pause", {"reason": "wait"}).json()["state_reason"] == "wait"
    carry_out(api)
    assert len(api.get("/v1/jobs").json()["items"]) == 3
    assert api.post(f"{path}/pause").status == 409
    assert api.post(f"{path}/resume").json()["state"] == "running"
    assert api.post(f"{path}/cancel").json()["state"] == "cancelled"
    carry_out(api)
    assert api.post(f"{path}/resume").status == 409
    assert len(api.get("/v1/jobs").json()["items"]) == 3
    assert api.get("/v1/operations/99999999").status == 404


def test_named_executions_are_acted_on_and_those_that_are_not_there_are_counted(api: InProcessApi) -> None:
    jobs = [api.create(schedule={"at": FUTURE}) for _ in range(2)]
    ids = [api.executions(job)[0]["id"] for job in jobs]
    api.delete(f"/v1/jobs/{jobs[1]['id']}")
    said = ask(api, "cancel", "executions", ids=[*ids, ids[0]], dry_run=True).json()
    assert (said["count"], said["cannot"]) == (2, [{"reason": "the execution is cancelled", "count": 1}])
    operation = ask(api, "cancel", "executions", ids=ids).json()["operation"]["id"]
    carry_out(api)
    done = api.get(f"/v1/operations/{operation}").json()
    assert (done["matched"], done["done"], done["cannot"]) == (2, 1, 1)
    assert api.get(f"/v1/executions/{ids[0]}").json()["state"] == "cancelled"


def test_all_executions_in_every_state_can_be_selected_at_once(api: InProcessApi) -> None:
    live = api.create(schedule={"at": FUTURE}, queue="mail")
    over = api.create(schedule={"at": FUTURE}, queue="mail")
    api.post(f"/v1/executions/{api.executions(over)[0]['id']}/cancel")
    said = ask(
        api, "cancel", "executions", where={"queue": "mail", "fire_to": "2101-01-01T00:00:00Z"}, dry_run=True
    )
    assert said.json()["count"] == 2
    assert {thing["id"] for thing in said.json()["sample"]} == {
        api.executions(job)[0]["id"] for job in (live, over)
    }


def test_a_tenant_has_so_many_at_a_time(api: InProcessApi) -> None:
    recurring(api, 1)
    answers = [ask(api, "run", "jobs", where={}).status for _ in range(21)]
    assert answers == [202] * 20 + [409]
