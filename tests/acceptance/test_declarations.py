"""Jobs that an owner declares: created, changed and removed as a whole; two owners never change each other's
jobs, and an older revision never undoes a newer one."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import Answer, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tests.unit.test_sdk_schedules import shop

NIGHTLY = {"name": "nightly", "schedule": {"cron": "0 3 * * *"}, "target": {"kind": "noop"}}
HOURLY = {"name": "hourly", "schedule": {"cron": "0 * * * *"}, "target": {"kind": "noop"}}


@pytest.fixture
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def put(api: InProcessApi, owner: str, jobs: list[dict[str, Any]], **more: Any) -> Answer:
    body = json.dumps({"jobs": jobs} | more).encode()
    return api.call("PUT", f"/v1/declarations/{owner}", body)


def declare(api: InProcessApi, owner: str, *jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = put(api, owner, list(jobs), **more)
    assert answer.status == 200, answer
    declared: dict[str, Any] = answer.json()
    return declared


def actions(declared: dict[str, Any]) -> dict[str, str]:
    return {job["name"]: job["action"] for job in declared["jobs"]}


def by_name(api: InProcessApi, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/v1/jobs/by-name/{name}").json()
    return found


def test_what_is_declared_is_created_changed_removed_and_revived_with_its_history(api: InProcessApi) -> None:
    first = declare(api, "shop", NIGHTLY, HOURLY, revision=1)
    assert actions(first) == {"nightly": "created", "hourly": "created"}
    assert first["applied"]
    assert by_name(api, "nightly")["managed_by"] == "shop"
    spelled_out = NIGHTLY | {"retry": {"max_attempts": 5, "initial_backoff": "1s"}, "misfire": "fire_once"}
    assert declare(api, "shop", spelled_out, HOURLY, revision=1)["counts"] == {"unchanged": 2}
    assert declare(api, "shop", NIGHTLY, HOURLY, revision=1)["counts"] == {"unchanged": 2}

    at_four = NIGHTLY | {"schedule": {"cron": "0 4 * * *"}, "priority": 2}
    second = declare(api, "shop", at_four, revision=2, prune=True)
    assert actions(second) == {"nightly": "changed", "hourly": "removed"}
    changed, removed = second["jobs"]
    assert [field["field"] for field in changed["fields"]] == ["priority", "schedule"]
    assert changed["fires"]["moved"] >= 6
    assert removed["fires"]["lost"] == 7 * 24
    gone = api.job({"id": removed["id"]})
    assert (gone["state"], gone["state_reason"]) == ("cancelled", "not declared by shop@2")

    third = declare(api, "shop", at_four, HOURLY, revision=3)
    assert actions(third) == {"nightly": "unchanged", "hourly": "revived"}
    assert third["jobs"][1]["id"] == removed["id"]
    revived = by_name(api, "hourly")
    assert (revived["id"], revived["state"]) == (removed["id"], "active")
    assert revived["next_fire_at"] is not None
    noted = [entry["action"] for entry in api.get("/v1/audit").json()["items"]]
    assert noted.count("declaration.declare") == 3  # what changed nothing left nothing


def test_an_apps_schedules_are_taken_as_they_are(api: InProcessApi) -> None:
    jobs = [one.job for one in shop().schedules.values()]
    assert declare(api, "shop", *jobs, revision=1, prune=True)["counts"] == {"created": 2}
    assert declare(api, "shop", *jobs, revision=2, prune=True)["counts"] == {"unchanged": 2}


def test_a_dry_run_says_the_same_and_writes_nothing(api: InProcessApi) -> None:
    declare(api, "shop", NIGHTLY, HOURLY, revision=1)
    before = api.tables()
    at_four = NIGHTLY | {"schedule": {"cron": "0 4 * * *"}}
    planned = declare(api, "shop", at_four, revision=2, prune=True, dry_run=True)
    assert not planned["applied"]
    assert planned["revision"] == 1
    assert api.tables() == before
    done = declare(api, "shop", at_four, revision=2, prune=True)
    assert actions(planned) == actions(done)
    assert [job["fires"]["moved"] for job in planned["jobs"]] == [
        job["fires"]["moved"] for job in done["jobs"]
    ]


def test_a_job_of_another_owner_or_of_a_person_is_refused_and_nothing_is_written(api: InProcessApi) -> None:
    declare(api, "shop", NIGHTLY, revision=1)
    api.create(name="mine", schedule={"every": "1h"})
    before = api.tables()
    mine = HOURLY | {"name": "mine"}
    answer = declare(api, "billing", NIGHTLY, mine, HOURLY, revision=7)
    assert actions(answer) == {"nightly": "refused", "mine": "refused", "hourly": "created"}
    assert not answer["applied"]
    assert "shop" in answer["jobs"][0]["problem"]["detail"]
    assert "has no owner" in answer["jobs"][1]["problem"]["detail"]
    assert api.tables() == before

    adopted = declare(api, "billing", mine, revision=7, adopt=True)
    assert actions(adopted) == {"mine": "changed"}
    assert by_name(api, "mine")["managed_by"] == "billing"


def test_an_older_revision_changes_nothing(api: InProcessApi) -> None:
    declare(api, "shop", NIGHTLY, revision=412)
    old = declare(api, "shop", NIGHTLY | {"priority": 9}, HOURLY, revision=411, prune=True)
    assert (old["superseded"], old["applied"], old["revision"]) == (True, False, 412)
    assert by_name(api, "nightly")["priority"] == 5
    assert put(api, "shop", [NIGHTLY]).problem()["field"] == "revision"


def test_of_declarations_at_once_the_highest_revision_stands(api: InProcessApi) -> None:
    async def all_at_once() -> list[Answer]:
        def body(revision: int) -> bytes:
            job = NIGHTLY | {"description": str(revision)}
            return json.dumps({"jobs": [job, HOURLY | {"name": f"only-{revision}"}], "revision": revision,
                               "prune": True}).encode()  # fmt: skip

        calls = [api.ask("PUT", "/v1/declarations/shop", body(revision)) for revision in range(1, 9)]
        return await asyncio.gather(*calls)

    answers = api.run(all_at_once())
    assert {answer.status for answer in answers} <= {200, 409}
    assert answers[-1].json()["applied"]
    assert by_name(api, "nightly")["description"] == "8"
    live = api.fetch("SELECT name FROM jobs WHERE state = 'active'")
    assert {row["name"] for row in live} == {"nightly", "only-8"}


def test_a_schedule_that_has_come_to_its_end_stays_as_it_is(api: InProcessApi) -> None:
    past = NIGHTLY | {"schedule": {"cron": "0 3 * * *", "ends_at": "2020-01-01T00:00:00Z"}}
    assert actions(declare(api, "shop", past)) == {"nightly": "refused"}
    declare(api, "shop", past | {"schedule": {"cron": "0 3 * * *", "ends_at": "2099-01-01T00:00:00Z"}})
    api.fetch(
        "UPDATE jobs SET state = 'completed', next_fire_at = NULL, created_at = '2019-01-01',"
        " schedule = jsonb_set(schedule, '{ends_at}', '\"2020-01-01T00:00:00Z\"')"
    )
    assert actions(declare(api, "shop", past)) == {"nightly": "unchanged"}
    assert actions(declare(api, "shop", NIGHTLY)) == {"nightly": "revived"}


def test_people_pause_a_declared_job_and_do_not_change_it(api: InProcessApi) -> None:
    job = declare(api, "shop", NIGHTLY, revision=1)["jobs"][0]
    patch = api.call("PATCH", f"/v1/jobs/{job['id']}", b'{"priority": 1}')
    assert (patch.status, "shop" in patch.problem()["detail"]) == (409, True)
    put_it = api.call("PUT", "/v1/jobs/by-name/nightly", json.dumps(NIGHTLY | {"priority": 1}).encode())
    assert put_it.status == 409
    assert api.post(f"/v1/jobs/{job['id']}/pause").status == 200
    again = declare(api, "shop", NIGHTLY | {"priority": 3}, revision=2)
    assert again["jobs"][0]["paused"]
    shown = api.job(job)
    assert (shown["state"], shown["priority"]) == ("paused", 3)

    assert api.get("/v1/declarations").json()["items"][0] | {"declared_at": ""} == {
        "owner": "shop", "revision": 2, "jobs": 1, "declared_at": "",
    }  # fmt: skip
    assert api.delete("/v1/declarations/shop").json() == {"released": 1}
    assert api.delete("/v1/declarations/shop").status == 404
    assert api.call("PATCH", f"/v1/jobs/{job['id']}", b'{"priority": 1}').status == 200


def test_without_update_what_is_missing_is_created_and_differences_are_told(api: InProcessApi) -> None:
    declare(api, "shop", NIGHTLY)
    told = declare(api, "shop", NIGHTLY | {"priority": 1}, HOURLY, update=False)
    assert actions(told) == {"nightly": "differs", "hourly": "created"}
    assert by_name(api, "nightly")["priority"] == 5


def test_what_cannot_be_declared_says_which_job_and_why(api: InProcessApi) -> None:
    nameless = {key: value for key, value in NIGHTLY.items() if key != "name"}
    answer = declare(
        api, "shop", NIGHTLY, NIGHTLY, nameless, HOURLY | {"schedule": {"in": "1h"}},
        HOURLY | {"name": "never", "schedule": {"cron": "0 0 30 2 *"}},
    )  # fmt: skip
    assert answer["counts"] == {"refused": 5}
    assert [job["problem"]["field"] for job in answer["jobs"]][2:4] == ["jobs[2].name", "jobs[3].schedule"]
    assert put(api, "a/b", [NIGHTLY]).status == 404
    assert put(api, "-", [NIGHTLY]).problem()["field"] == "owner"
    assert api.fetch("SELECT FROM jobs") == []
