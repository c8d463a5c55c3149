"""One row that cannot be shown fails no list: it is named, beside everything that can be shown."""

import asyncio
import json
from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tocsin.db.pool import open_connection
from tocsin.domain.ids import ExecutionKey, execution_text, parse_job_text
from tocsin.domain.instant import SECOND, parse_instant

NOOP: dict[str, Any] = {"kind": "noop"}
LAST_SECONDS = {"every": "1s", "starts_at": "9999-12-31T23:59:58Z"}


def _spoil(url: str, statement: str, *args: Any) -> None:
    """Write what no version of ours would."""

    async def write() -> None:
        connection = await open_connection(url, name="test vandal")
        try:
            await connection.execute(statement, *args)
        finally:
            await connection.close()

    asyncio.run(write())


def _listed(api: InProcessApi, path: str) -> tuple[list[Any], list[str]]:
    """The items of a list, and the ids of what it cannot show."""
    answer = api.get(path)
    assert answer.status == 200, answer.body
    return answer.json()["items"], [broken["id"] for broken in answer.json().get("broken", [])]


def test_an_interval_ends_with_the_last_instant_that_can_be_written(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule=LAST_SECONDS)
        assert len(api.get(f"/v1/jobs/{job['id']}/upcoming").json()["fires"]) == 2
        skip = f"/v1/jobs/{job['id']}/skip-next"
        assert [api.post(skip).status for _ in range(3)] == [200, 200, 409]
        assert [item["id"] for item in _listed(api, "/v1/jobs")[0]] == [job["id"]]
        assert api.job(job)["state"] == "completed"


@pytest.mark.parametrize(
    "damage",
    [
        "next_fire_at = '10000-01-01'",
        """schedule = '{"fortnightly": 1}'""",
        'target = \'{"kind": "pigeon"}\'',
    ],
)
def test_a_job_that_cannot_be_shown_is_named_beside_the_others_and_can_be_deleted(
    url: str, damage: str
) -> None:
    with in_process_api(url) as api:
        good, bad = (api.create(schedule={"every": "1h"}) for _ in range(2))
        _spoil(url, f"UPDATE jobs SET {damage} WHERE id = $1", parse_job_text(bad["id"]))
        items, broken = _listed(api, "/v1/jobs")
        assert ([item["id"] for item in items], broken) == ([good["id"]], [bad["id"]])
        assert api.call("DELETE", f"/v1/jobs/{bad['id']}").status == 200
        assert _listed(api, "/v1/jobs")[1] == []


def test_an_execution_that_cannot_be_shown_is_named_beside_the_others_on_every_page(url: str) -> None:
    with in_process_api(url) as api:
        jobs = [api.create(schedule={"in": "1h"}) for _ in range(3)]
        spoilt = parse_job_text(jobs[1]["id"])
        _spoil(url, "UPDATE executions SET fire_at = '10000-01-01' WHERE job_id = $1", spoilt)
        items, broken = _listed(api, "/v1/executions")
        assert [item["job_id"] for item in items] == [jobs[2]["id"], jobs[0]["id"]]
        assert broken == [
            execution_text(ExecutionKey(spoilt, parse_instant("9999-12-31T23:59:59Z", "") + SECOND))
        ]
        assert [len(page) for page in api.pages("/v1/executions", limit=1)] == [1, 0, 1, 0]
        assert _listed(api, f"/v1/jobs/{jobs[1]['id']}/executions")[0] == []


@pytest.mark.parametrize(
    ("path", "damage"),
    [
        ("/v1/calendars", "UPDATE calendars SET ranges = '[\"never\"]'"),
        ("/v1/keys", "UPDATE api_keys SET created_at = '10000-01-01' WHERE name = 'spoilt'"),
        ("/v1/tenants", "UPDATE tenants SET limits = '{\"pending_jobs\": \"few\"}' WHERE name = 'acme'"),
        ("/v1/audit", "UPDATE audit SET at = '10000-01-01' WHERE action = 'tenant.create'"),
    ],
)
def test_other_lists_name_what_they_cannot_show(url: str, path: str, damage: str) -> None:
    with in_process_api(url) as api:
        ranges = [{"from": "2030-01-01T00:00:00Z", "to": "2030-01-02T00:00:00Z"}]
        body = json.dumps({"ranges": ranges}).encode()
        assert api.call("PUT", "/v1/calendars/holidays", body).status == 200
        assert api.post("/v1/tenants", {"name": "acme"}).status == 201
        assert api.post("/v1/keys", {"name": "spoilt", "scopes": ["read"]}).status == 201
        before = len(_listed(api, path)[0])
        _spoil(url, damage)
        items, broken = _listed(api, path)
        assert (len(items), len(broken)) == (before - 1, 1)


def test_a_backfill_that_cannot_be_shown_is_named(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        asked = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
        made = api.post(f"/v1/jobs/{job['id']}/backfills", asked).json()["backfill"]
        _spoil(url, "UPDATE backfills SET range_to = '10000-01-01'")
        assert _listed(api, f"/v1/jobs/{job['id']}/backfills") == ([], [str(made["id"])])
