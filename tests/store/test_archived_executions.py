"""What was archived is answered as before, row by row, to its own tenant, in pages that mix it with what is
still in the database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.archive import NOW, Days, inline
from tests.support.postgres import Cluster
from tocsin.api.app import Application
from tocsin.archive.process import in_a_process
from tocsin.archive.work import Place
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import ExecutionKey, execution_text, parse_job_text
from tocsin.domain.instant import DAY, MINUTE, format_instant
from tocsin.store import archived_executions
from tocsin.store.archived_executions import ArchivedExecutions
from tocsin.store.execution_listing import ExecutionListing

THREE_DAYS_AGO = NOW // DAY * DAY - 3 * DAY
SOME = format_instant(THREE_DAYS_AGO + 3 * MINUTE)
LATER = format_instant(THREE_DAYS_AGO + DAY + 4 * MINUTE)
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"over": "true", "limit": "9"},
    {"limit": "500"},
    {"state": "dead", "limit": "20"},
    {"state": "succeeded", "queue": "mail", "limit": "20"},
    {"finished_from": SOME, "finished_to": LATER, "limit": "20"},
    {"fire_from": SOME, "fire_to": LATER, "limit": "50"},
    {"fire_to": LATER, "limit": "30"},
    {"fire_from": SOME, "error": "QUOTED"},
    {"fire_from": SOME, "error": "zürich"},
    {"fire_from": SOME, "node": "2", "min_lag": "100ms", "cause": "schedule"},
    {"fingerprint": "print0", "limit": "10"},
)
PIECE = 25


class Company:
    """An API with an archive, what it answered before anything was archived, and what it answers now."""

    def __init__(self, api: InProcessApi, folder: Path) -> None:
        self.api = api
        self.folder = folder
        place = Place(str(folder))
        self.days = Days(api.database, api._url, place, piece=PIECE)
        self.archived = ArchivedExecutions(api.walled, place, inline)
        listing = ExecutionListing(api.walled, self.archived)
        api.context = msgspec.structs.replace(api.context, archived=self.archived, execution_listing=listing)
        api.app = Application(api.context)
        self.keys = {"default": api.new_key("read"), "other": api.new_key("read", "write", tenant="other")}

    def all(self, tenant: str, query: dict[str, str]) -> list[dict[str, Any]]:
        """Every row of a listing, over its pages."""
        key, rows, cursor = self.keys[tenant], list[dict[str, Any]](), {}
        for _ in range(1000):
            answer = self.api.get("/v1/executions", key=key, **query, **cursor)
            assert answer.status == 200, answer
            page = answer.json()
            rows += page["items"]
            if page["next_cursor"] is None:
                return rows
            cursor = {"cursor": page["next_cursor"]}
        raise AssertionError("the pages do not end")


@pytest.fixture(scope="module")
def company(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """Three days of two tenants: one will be archived whole, one in part, one stays."""
    with in_process_api(cluster.new_database()) as api:
        company = Company(api, tmp_path_factory.mktemp("archive"))
        api.run(company.days.fill(3, 70))
        api.run(company.days.fill(2, 50))
        api.run(company.days.fill(1, 30))
        api.fetch(
            "UPDATE history SET tenant_id = (SELECT id FROM tenants WHERE name = 'other') WHERE tenant_id = 2"
        )
        yield company


@pytest.fixture(scope="module")
def before(company: Company) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """What every query answered while everything was in the database; then two days are archived."""
    answers = {
        (tenant, number): company.all(tenant, query)
        for tenant in ("default", "other")
        for number, query in enumerate(QUERIES)
    }
    company.api.run(company.days.tidy(days=1))
    left = company.api.fetch("SELECT count(*) AS rows FROM history")[0]["rows"]
    assert left == 30
    return answers


@pytest.mark.parametrize("tenant", ["default", "other"])
@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_a_listing_over_archived_and_other_days_is_what_it_was(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]], tenant: str, number: int
) -> None:
    now = company.all(tenant, QUERIES[number])
    assert before["default", number] or before["other", number]
    assert [row | {"archived": False} for row in now] == before[tenant, number]
    day_after = format_instant(THREE_DAYS_AGO + 2 * DAY)
    assert all(row["archived"] is (row["finished_at"] < day_after) for row in now)


def test_one_execution_is_found_explained_and_not_changed(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]]
) -> None:
    old = next(row for row in before["other", 0] if row["finished_at"] < SOME and row["state"] == "dead")
    shown = company.api.get(f"/v1/executions/{old['id']}", key=company.keys["other"])
    assert shown.status == 200
    expected = old | {"archived": True, "attempts": shown.json()["attempts"]}
    assert shown.json() == expected
    assert company.api.get(f"/v1/executions/{old['id']}/explain", key=company.keys["other"]).json()[
        "explanation"
    ]
    assert (
        company.api.get(f"/v1/executions/{old['id']}/logs", key=company.keys["other"]).json()["items"] == []
    )
    for action in ("retry", "cancel"):
        refused = company.api.post(f"/v1/executions/{old['id']}/{action}", key=company.keys["other"])
        assert refused.status == 409
        assert "archived" in refused.problem()["detail"]


def test_the_result_of_a_task_comes_with_its_last_attempt(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]]
) -> None:
    rows = [row for row in before["default", 4] if row["finished_at"] < SOME]
    shown = company.api.get(f"/v1/executions/{rows[0]['id']}", key=company.keys["default"]).json()
    assert isinstance(shown["attempts"][-1]["result"], int)


def test_nobody_sees_what_another_tenant_archived(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]]
) -> None:
    others = next(row for row in before["other", 0] if row["finished_at"] < SOME)
    assert company.api.get(f"/v1/executions/{others['id']}", key=company.keys["default"]).status == 404
    query = {"job": others["job_id"], "finished_from": format_instant(THREE_DAYS_AGO)}
    assert [row for row in company.all("default", query) if row["id"] == others["id"]] == []


def test_what_is_in_no_file_is_not_found(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]]
) -> None:
    job = parse_job_text(before["default", 0][0]["job_id"])
    unknown = execution_text(ExecutionKey(job, THREE_DAYS_AGO + 1))
    assert company.api.get(f"/v1/executions/{unknown}", key=company.keys["default"]).status == 404


def test_a_page_without_a_range_does_not_wait_for_the_archive(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: Any) -> Any:
        raise Unavailable("the archive cannot be used now")

    monkeypatch.setattr(company.archived, "_run", gone)
    first = company.api.get("/v1/executions", key=company.keys["default"], limit="500")
    assert first.status == 200
    page = first.json()
    assert [row | {"archived": False} for row in page["items"]] == before["default", 0][: len(page["items"])]
    assert page["items"]
    more = company.api.get("/v1/executions", key=company.keys["default"], cursor=page["next_cursor"])
    assert more.status == 503
    ranged = company.api.get("/v1/executions", key=company.keys["default"], finished_from=SOME, limit="500")
    assert [row["id"] for row in ranged.json()["items"]] == [row["id"] for row in page["items"]]


def test_a_look_that_has_no_time_left_goes_on_with_the_next_page(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archived_executions, "_BUDGET", 0.0)
    for number in (2, 5):
        assert [row | {"archived": False} for row in company.all("other", QUERIES[number])] == before[
            "other", number
        ]


def test_processes_answer_as_well(
    company: Company, before: dict[tuple[str, int], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(company.archived, "_run", in_a_process)
    assert [row | {"archived": False} for row in company.all("default", QUERIES[5])] == before["default", 5]


def test_a_forgotten_job_keeps_its_name(cluster: Cluster, tmp_path: Path) -> None:
    with in_process_api(cluster.new_database()) as api:
        company = Company(api, tmp_path)
        job = api.create(name="nightly report", schedule={"every": "1h"})
        api.run(company.days.fill(2, 3))
        api.fetch("UPDATE history SET job_id = $1, tenant_id = 1", parse_job_text(job["id"]))
        api.run(company.days.archive())
        api.fetch("DELETE FROM jobs")
        api.run(company.days.tidy())
        rows = company.all("default", {"finished_from": format_instant(NOW - 5 * DAY)})
        assert {(row["job_id"], row["job_name"]) for row in rows} == {(job["id"], "nightly report")}
