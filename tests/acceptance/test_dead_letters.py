"""Dead letters: by kind of error, bounded, and off the list when somebody gives them up."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.ids import parse_job_text
from tocsin.domain.outcome import fingerprint
from tocsin.store import dead_letters


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def api(shared: InProcessApi) -> InProcessApi:
    for table in ("executions", "history", "jobs"):
        shared.fetch(f"DELETE FROM {table}")
    return shared


def die(
    api: InProcessApi, job: dict[str, Any], error: str, number: int = 1, *, minutes_ago: float = 0
) -> None:
    """Executions of a job that failed for good."""
    status = error.removeprefix("the target answered ")
    api.fetch(
        "INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at,"
        " finished_at, attempt, outcome, reason, error_fingerprint) SELECT j.cell, j.id, t.at + n * interval '1 us',"
        " j.tenant_id, j.queue, 5, 'schedule', 'dead', t.at, t.at, t.at, t.at + n * interval '1 us', 1, $5::jsonb, $2, $3"
        " FROM jobs j, generate_series(1, $4) AS n, (SELECT tocsin_now() - ($6 + 0.001) * interval '1 minute' AS at) AS t"
        " WHERE j.id = $1",
        parse_job_text(job["id"]),
        error,
        fingerprint(error),
        number,
        f'{{"verdict": "failed", "detail": {{"status": {status}}}}}'
        if status.isdigit()
        else '{"verdict": "failed"}',
        minutes_ago,
    )


def listed(api: InProcessApi, **query: Any) -> list[str]:
    return [item["reason"] for item in api.get("/v1/dead-letters", **query).json()["items"]]


def grouped(api: InProcessApi, **query: Any) -> dict[str, int]:
    answer = api.get("/v1/dead-letters/groups", **query).json()
    return {item["error"]: item["count"] for item in answer["items"]}


def test_kinds_of_errors_are_told_apart_by_status_and_not_by_numbers(api: InProcessApi) -> None:
    jobs = [api.create(schedule={"every": "1h"}) for _ in range(2)]
    die(api, jobs[0], "the target answered 503", 3)
    die(api, jobs[1], "the target answered 503", 1, minutes_ago=90)
    die(api, jobs[0], "the target answered 404", 2)
    die(api, jobs[0], "connection to 10.0.0.1:80 refused", minutes_ago=1)
    die(api, jobs[0], "connection to 10.0.0.2:81 refused")
    groups = api.get("/v1/dead-letters/groups").json()
    assert not groups["capped"]
    first, *others = groups["items"]
    assert (first["status"], first["count"], first["jobs"], first["last_hour"]) == ("503", 4, 2, 3)
    assert first["hourly"] == [0] * 22 + [1, 3]
    assert [(item["status"], item["count"]) for item in others] == [(None, 2), ("404", 2)] or [
        (item["status"], item["count"]) for item in others
    ] == [("404", 2), (None, 2)]
    sample = api.get(f"/v1/executions/{first['sample']}").json()
    assert (sample["reason"], sample["finished_at"]) == ("the target answered 503", first["last_at"])
    assert listed(api, fingerprint=first["fingerprint"]) == ["the target answered 503"] * 4


def test_groups_are_narrowed_by_time_and_queue(api: InProcessApi) -> None:
    mail, other = (api.create(schedule={"every": "1h"}, queue=queue) for queue in ("mail", "other"))
    die(api, mail, "a", minutes_ago=30)
    die(api, other, "b", minutes_ago=30)
    die(api, mail, "c", minutes_ago=3 * 24 * 60)
    assert grouped(api) == {"a": 1, "b": 1}
    assert grouped(api, queue="mail") == {"a": 1}
    assert grouped(api, **{"from": "2020-01-01T00:00:00Z"}) == {"a": 1, "b": 1, "c": 1}
    assert api.get("/v1/dead-letters/groups", **{"from": "2100-01-01T00:00:00Z"}).problem()["field"] == "from"


def test_only_the_newest_are_counted_and_the_answer_says_so(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MOST_READ", 3)
    monkeypatch.setattr("tocsin.api.dead_letters.MOST_READ", 3)
    job = api.create(schedule={"every": "1h"})
    die(api, job, "old", 5, minutes_ago=2)
    die(api, job, "new", 2, minutes_ago=1)
    groups = api.get("/v1/dead-letters/groups").json()
    assert groups["capped"]
    assert {item["error"]: (item["count"], item["capped"]) for item in groups["items"]} == {
        "new": (2, True),
        "old": (1, True),
    }


def test_a_discarded_one_is_off_the_list_and_stays_in_history_and_can_be_retried(api: InProcessApi) -> None:
    job = api.create(schedule={"every": "1h"})
    die(api, job, "a", 2)
    first, second = (item["id"] for item in api.get("/v1/dead-letters").json()["items"])
    api.fetch("DELETE FROM audit")
    gone = api.post(f"/v1/dead-letters/{first}/discard", {"reason": "refunded"})
    assert gone.status == 200
    assert gone.json()["state"] == "dead"
    assert gone.json()["discarded_at"] is not None
    assert [item["id"] for item in api.get("/v1/dead-letters").json()["items"]] == [second]
    assert grouped(api) == {"a": 1}
    assert len(api.get("/v1/executions", state="dead").json()["items"]) == 2
    (entry,) = api.get("/v1/audit", object=first).json()["items"]
    assert (entry["action"], entry["after"]) == (
        "dead_letter.discard",
        {"discarded": True, "reason": "refunded"},
    )
    assert api.post(f"/v1/dead-letters/{first}/discard").status == 409
    assert api.post(f"/v1/executions/{first}/retry").status == 202
    assert api.post(f"/v1/dead-letters/{first}/discard").status == 409
    assert api.get(f"/v1/executions/{first}").json()["discarded_at"] is None
