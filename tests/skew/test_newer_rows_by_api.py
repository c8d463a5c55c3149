"""A job that a newer version wrote, asked of this one: a sentence, never an error of ours; and it can still
be ended."""

import asyncio
import json

import pytest

import tocsin
from tests.skew import tomorrow
from tests.skew.tomorrow import UNKNOWN, UNKNOWN_SCHEDULES, UNKNOWN_TARGET
from tests.support.api import in_process_api
from tocsin.api.events import _events
from tocsin.api.pulse import Beat
from tocsin.db.pool import open_connection

JOB = {"schedule": {"every": "1h"}, "target": {"kind": "noop"}, "name": "hourly"}
CHANGES = [UNKNOWN_TARGET, UNKNOWN_SCHEDULES[0], UNKNOWN[3]]


def written_by_newer(url: str, change: str) -> None:
    async def write() -> None:
        connection = await open_connection(url, name="test")
        await connection.execute(f"UPDATE jobs SET {change}")
        await connection.close()

    asyncio.run(write())


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_that_cannot_be_read_is_refused_in_words_and_can_be_deleted(url: str, change: str) -> None:
    with in_process_api(url) as api:
        job = f"/v1/jobs/{api.create(**JOB)['id']}"
        written_by_newer(url, change)
        asked = [("GET", ""), ("GET", "/upcoming"), ("POST", "/pause"), ("POST", "/resume")]
        answers = [api.call(method, job + path) for method, path in asked]
        assert {answer.status for answer in answers} <= {409, 503}
        assert all("this version cannot" in answer.json()["detail"] for answer in answers)
        assert api.delete(job).status == 200


def test_an_operation_that_only_newer_versions_know_is_refused_in_words_and_its_list_is_not(url: str) -> None:
    with in_process_api(url) as api:
        api.create(**JOB)
        asked = {"do": "pause", "of": "jobs", "where": {}}
        made = api.post("/v1/operations", asked).json()["operation"]["id"]
        api.fetch("UPDATE operations SET action = 'polish', errors = '{\"worn out\": 3}'")
        one, many = api.get(f"/v1/operations/{made}"), api.get("/v1/operations")
        assert (one.status, "polish" in one.json()["detail"]) == (409, True)
        assert (many.status, [one["id"] for one in many.json()["broken"]]) == (200, [str(made)])
        row = api.fetch("SELECT o.*, 0 AS under_way FROM operations o")
        assert [kind for kind, _ in _events(Beat(0, [], row))] == ["pulse"]


def test_a_tenant_whose_limits_cannot_be_read_is_refused_in_words_and_others_are_served(url: str) -> None:
    with in_process_api(url) as api:
        strange, plain = (api.new_key("read", "write", tenant=name) for name in ("strange", "plain"))
        api.fetch("UPDATE tenants SET limits = '{\"pending_jobs\": {\"burst\": 3}}' WHERE name = 'strange'")
        as_strange = [(b"tocsin-tenant", b"strange")]
        for answer in (
            api.get("/v1/jobs", key=strange),
            api.post("/v1/jobs", JOB, key=strange),
            api.call("GET", "/v1/jobs", headers=as_strange),
            api.get("/v1/tenants/strange"),
        ):
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert f"a newer version than {tocsin.__version__} wrote" in answer.json()["detail"]
        assert api.get("/v1/jobs", key=plain).status == 200
        listed = api.get("/v1/tenants")
        assert {"default", "plain"} <= {one["name"] for one in listed.json()["items"]}
        body = json.dumps({"limits": {"pending_jobs": 5}}).encode()
        assert api.call("PATCH", "/v1/tenants/strange", body).status == 200
        assert api.get("/v1/jobs", key=strange).status == 200


@pytest.mark.parametrize("change", tomorrow.UNKNOWN_ENDS)
def test_an_execution_that_cannot_be_read_is_refused_in_words_and_its_lists_are_not(
    url: str, change: str
) -> None:
    with in_process_api(url) as api:
        job = f"/v1/jobs/{api.create(schedule={'every': '1h'}, target=JOB['target'])['id']}"
        execution = f"/v1/executions/{api.post(job + '/run').json()['id']}"
        asyncio.run(tomorrow.end_executions(url, change))
        for path in (execution, execution + "/explain"):
            answer = api.get(path)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert "a newer version wrote it" in answer.json()["detail"]
        assert api.get(job + "?with=recent").status == (503 if "state" in change else 200)
        for path in (job + "/executions", "/v1/executions", "/v1/dead-letters", "/v1/jobs?with=recent"):
            assert api.get(path).status == 200
        assert api.post(execution + "/cancel").status == 409, "it is over"


@pytest.mark.parametrize("change", tomorrow.NEW_WORDS_OF_ENDS)
def test_words_of_a_newer_version_about_an_execution_are_passed_on(url: str, change: str) -> None:
    with in_process_api(url) as api:
        job = f"/v1/jobs/{api.create(schedule={'every': '1h'}, target=JOB['target'])['id']}"
        execution = f"/v1/executions/{api.post(job + '/run').json()['id']}"
        asyncio.run(tomorrow.end_executions(url, change))
        told = api.get(execution + "/explain")
        assert (told.status, "tomorrow" in told.body.decode()) == (200, True)
