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
from tocsin.archive.work import Place
from tocsin.domain.instant import DAY, MINUTE, format_instant
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
