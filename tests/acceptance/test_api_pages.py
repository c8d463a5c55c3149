"""Pages: complete, without repetition, in order, whatever is added meanwhile; and filters that mean what they
say."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.instant import parse_instant
from tocsin.store import execution_listing, job_listing
from tocsin.store.job_listing import JobListing

FINISHED = (
    "INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, finished_at,"
    " attempt, started_at, node_id, reason) SELECT 0, j.id, at, 1, j.queue, 5, 'schedule', $2, at, at,"
    " tocsin_now() - n / 2 * interval '1 s', 1, at, 1, 'because' FROM jobs j, generate_series(1, $3) AS n,"
    " LATERAL (SELECT j.created_at - n * interval '1 min' AS at) AS t WHERE j.name = $1"
)


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    """A database with a bit of everything; tests only add to it under names of their own."""
    url = cluster.new_database()
    with in_process_api(url) as api:
        for number in range(25):
            api.create(
                name=f"Report {number}" if number % 2 else f"Backup {number}",
                schedule={"every": "1h"} if number % 5 == 0 else {"in": "1h"},
                queue="heavy" if number % 3 == 0 else "default",
                tags=["even" if number % 2 == 0 else "odd", f"n{number}"],
                target={"kind": "noop"},
            )
        api.fetch(FINISHED, "Backup 0", "succeeded", 40)
        api.fetch(FINISHED, "Report 1", "dead", 30)
        yield api
    cluster.drop(url)


@pytest.fixture(params=[30_000, 3])
def walk(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many rows are looked at for a page: as many as ever, and far fewer than there are."""
    for module in (job_listing, execution_listing):
        monkeypatch.setattr(module, "WALK", request.param)
    number: int = request.param
    return number


def _ids(pages: Iterator[list[dict[str, Any]]]) -> list[str]:
    return [item["id"] for page in pages for item in page]


def test_what_is_over_is_listed_without_what_waits_the_latest_first(api: InProcessApi, walk: int) -> None:
    ended = [item for page in api.pages("/v1/executions", limit=7, over="true") for item in page]
    assert {item["state"] for item in ended} == {"succeeded", "dead"}
    assert len(ended) == 70
    assert [item["finished_at"] for item in ended] == sorted(
        (item["finished_at"] for item in ended), reverse=True
    )
    assert api.get("/v1/executions", over="true", state="queued").json()["items"] == []
    assert api.get("/v1/executions/count", over="true").json() == {"count": 70, "capped": False}
    assert api.get("/v1/executions", over="perhaps").status == 422


@pytest.mark.parametrize("limit", [1, 7, 25, 500])
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/executions", "/v1/dead-letters"])
def test_pages_of_any_size_hold_everything_once(api: InProcessApi, path: str, limit: int) -> None:
    whole = [item["id"] for item in api.get(path, limit=500).json()["items"]]
    assert len(whole) == len(set(whole)) >= 25
    paged = _ids(api.pages(path, limit=limit))
    assert paged == whole


@pytest.mark.parametrize("state", ["succeeded", "queued"])
def test_a_cursor_among_the_live_ones_leads_on_under_any_state(api: InProcessApi, state: str) -> None:
    page = api.get("/v1/executions", limit=1).json()
    assert page["items"][0]["finished_at"] is None
    found = api.get("/v1/executions", limit=500, state=state, cursor=page["next_cursor"])
    assert found.status == 200
    whole = api.get("/v1/executions", limit=500, state=state).json()["items"]
    expected = [item for item in whole if item["id"] != page["items"][0]["id"]]
    assert [item["id"] for item in found.json()["items"]] == [item["id"] for item in expected]


def test_jobs_come_newest_first(api: InProcessApi) -> None:
    created = [item["created_at"] for page in api.pages("/v1/jobs", limit=10) for item in page]
    assert created == sorted(created, reverse=True)


def test_executions_come_live_first_then_finished_latest_first(api: InProcessApi) -> None:
    items = [item for page in api.pages("/v1/executions", limit=9) for item in page]
    ends = [item["finished_at"] for item in items]
    live = ends.index(next(end for end in ends if end is not None))
    assert all(end is None for end in ends[:live])
    assert ends[live:] == sorted(ends[live:], reverse=True)
    assert len(items) == 20 + 70


def test_executions_of_a_job_come_latest_fire_first(api: InProcessApi) -> None:
    (job,) = api.get("/v1/jobs", name="backup 0").json()["items"]
    path = f"/v1/jobs/{job['id']}/executions"
    fires = [item["fire_at"] for page in api.pages(path, limit=7) for item in page]
    assert len(fires) == 40
    assert fires == sorted(fires, reverse=True)


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/executions"])
def test_what_was_there_at_the_first_page_is_listed_once_while_more_is_added(url: str, path: str) -> None:
    with in_process_api(url) as api:
        for number in range(20):
            api.create(schedule={"in": "1h"}, name=f"old {number}")
        api.fetch(FINISHED, "old 3", "succeeded", 20)
        before = [item["id"] for item in api.get(path, limit=500).json()["items"]]
        seen: list[str] = []
        for number, page in enumerate(api.pages(path, limit=6)):
            seen += [item["id"] for item in page]
            api.create(schedule={"in": "1h"}, name=f"new {number}")
            api.fetch(FINISHED, f"new {number}", "dead", 3)
        assert len(seen) == len(set(seen))
        assert set(before) <= set(seen)


def test_an_execution_that_finishes_between_two_pages_is_not_missed(url: str) -> None:
    with in_process_api(url) as api:
        for _ in range(12):
            api.create(schedule={"in": "1h"})
        before = set(_ids(api.pages("/v1/executions", limit=500)))
        seen: list[str] = []
        for page in api.pages("/v1/executions", limit=5):
            seen += [item["id"] for item in page]
            left = sorted(before - set(seen))
            for execution_id in left[:2]:
                api.post(f"/v1/executions/{execution_id}/cancel")
        assert before <= set(seen)


def test_a_cursor_survives_the_deletion_of_the_job_it_points_at(url: str) -> None:
    with in_process_api(url) as api:
        jobs = [api.create(schedule={"in": "1h"})["id"] for _ in range(6)]
        page = api.get("/v1/jobs", limit=3).json()
        assert [item["id"] for item in page["items"]] == jobs[:2:-1]
        api.delete(f"/v1/jobs/{jobs[3]}")
        following = api.get("/v1/jobs", limit=3, cursor=page["next_cursor"]).json()
        assert [item["id"] for item in following["items"]] == jobs[2::-1]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"kind": "recurring"}, 5),
        ({"kind": "once"}, 20),
        ({"state": "active"}, 25),
        ({"state": "paused"}, 0),
        ({"queue": "heavy"}, 9),
        ({"queue": "none"}, 0),
        ({"tag": "odd"}, 12),
        ({"tag": "n7"}, 1),
        ({"name": "report"}, 12),
        ({"name": "REPORT 1"}, 6),
        ({"name": "%"}, 0),
        ({"name": "_"}, 0),
        ({"name": "backup", "kind": "recurring", "queue": "heavy"}, 1),
        ({"name": "ba"}, 13),
        ({"queue": "default"}, 16),
        ({"sort": "name", "tag": "even"}, 3),
        ({"sort": "next_fire", "name": "1"}, 2),
        ({"target": "http"}, 0),
        ({"next_fire_to": "2020-01-01T00:00:00Z"}, 0),
    ],
)
@pytest.mark.usefixtures("walk")
def test_a_filter_narrows_the_jobs_to_what_it_says(
    api: InProcessApi, query: dict[str, str], count: int
) -> None:
    ids = _ids(api.pages("/v1/jobs", limit=4, **query))
    assert len(ids) == len(set(ids)) == count
    assert "sort" in query or ids == sorted(ids, reverse=True)


def test_a_name_that_its_index_cannot_find_in_a_moment_is_found_walk_by_walk(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_slow(*_: Any) -> None:
        return None

    monkeypatch.setattr(job_listing, "WALK", 3)
    monkeypatch.setattr(JobListing, "_search", too_slow)
    pages = list(api.pages("/v1/jobs", limit=4, name="backup 0"))
    assert len(pages) > 8
    assert [len(page) for page in pages if page] == [1]


@pytest.mark.usefixtures("walk")
def test_of_a_range_of_fire_times_those_that_ended_long_after_it_come_last(api: InProcessApi) -> None:
    whole = [item for page in api.pages("/v1/executions", limit=500, state="dead") for item in page]
    fires = sorted(item["fire_at"] for item in whole)
    bounds = {"fire_from": fires[5], "fire_to": fires[20]}
    items = [item for page in api.pages("/v1/executions", limit=4, state="dead", **bounds) for item in page]
    assert sorted(item["fire_at"] for item in items) == fires[5:20]
    api.fetch(
        "UPDATE history SET finished_at = fire_at WHERE state = 'dead' AND fire_at = $1", _instant(fires[7])
    )
    items = [item for page in api.pages("/v1/executions", limit=4, state="dead", **bounds) for item in page]
    assert items[0]["fire_at"] == fires[7]
    assert sorted(item["fire_at"] for item in items) == fires[5:20]


def _instant(text: str) -> int:
    return parse_instant(text, "")


@pytest.mark.parametrize(
    ("path", "query", "count"),
    [
        ("/v1/executions", {"state": "queued"}, 20),
        ("/v1/executions", {"state": "running"}, 0),
        ("/v1/executions", {"state": "succeeded"}, 40),
        ("/v1/executions", {"state": "dead"}, 30),
        ("/v1/executions", {"state": "succeeded", "queue": "default"}, 0),
        ("/v1/executions", {"queue": "heavy"}, 7 + 40),
        ("/v1/dead-letters", {}, 30),
        ("/v1/dead-letters", {"queue": "heavy"}, 0),
        ("/v1/executions", {"error": "BECAUSE"}, 70),
        ("/v1/executions", {"error": "nothing like it"}, 0),
        ("/v1/executions", {"min_lag": "1s"}, 0),
        ("/v1/executions", {"cause": "backfill"}, 0),
        ("/v1/executions", {"job_name": "report 1"}, 30 + 5),
    ],
)
@pytest.mark.usefixtures("walk")
def test_a_filter_narrows_the_executions_to_what_it_says(
    api: InProcessApi, path: str, query: dict[str, str], count: int
) -> None:
    items = [item for page in api.pages(path, limit=11, **query) for item in page]
    assert len(items) == count
    for item in items:
        assert item["state"] == query.get("state", item["state"])
        assert item["queue"] == query.get("queue", item["queue"])


def test_dead_letters_come_with_their_reason_and_attempts(api: InProcessApi) -> None:
    for item in api.get("/v1/dead-letters").json()["items"]:
        assert (item["state"], item["reason"], len(item["attempts"])) == ("dead", "because", 1)
