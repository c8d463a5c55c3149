"""A real fleet archives what is old, drops it, and goes on answering; people look at the files by the command
line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.api import ADMIN_KEY, RealApi, fleet, with_database
from tests.support.archive import fill_day
from tests.support.postgres import Cluster
from tests.support.processes import wait_for
from tocsin.archive import objects
from tocsin.cli.main import cli
from tocsin.clock import system_now
from tocsin.db.pool import Database
from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, format_instant

ROWS, NOTES = 120, 40
OLD = system_now() // DAY * DAY - 40 * DAY


class Shop:
    """A fleet whose old day left the database, and the terminal of somebody who operates it."""

    def __init__(self, api: RealApi, folder: Path, before: list[dict[str, Any]]) -> None:
        self.api = api
        self.folder = folder
        self.before = before

    def run(self, *words: str) -> Result:
        environment = {
            "TOCSIN_URL": self.api.url, "TOCSIN_API_KEY": ADMIN_KEY, "TOCSIN_DATA_DIR": None,
            "TOCSIN_ARCHIVE": str(self.folder),
        }  # fmt: skip
        result = CliRunner().invoke(cli, words, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result


@pytest.fixture(scope="module")
def shop(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Engines archive a day, and drop it when they are started again: retention looks once an hour."""
    url, folder = cluster.new_database(), tmp_path_factory.mktemp("archive")

    async def fill(database: Database) -> None:
        await fill_day(database, OLD, ROWS, NOTES)

    async def left(database: Database) -> int:
        row = await database.one("SELECT count(*) AS left FROM history WHERE finished_at < $1", OLD + DAY)
        return int(row["left"])

    with_database(url, fill)
    settings = {"archive": str(folder), "audit_days": "30"}
    with fleet(url, **settings) as api:
        before = api.get("/v1/executions", finished_from=format_instant(OLD), limit="500").json()["items"]
        assert len(before) == ROWS // 2
        assert not any(row["archived"] for row in before)
        wait_for(
            lambda: _verified(api) == {("history", ROWS), ("audit", NOTES)}, 60, "the day is not archived"
        )
    with fleet(url, **settings) as api:
        wait_for(lambda: with_database(url, left) == 0, 60, "the day is not dropped")
        yield Shop(api, folder, before)
    cluster.drop(url)


def _verified(api: RealApi) -> set[tuple[str, int]]:
    items = api.get("/v1/archives", to=format_instant(OLD + DAY)[:10]).json()["items"]
    return {(item["table"], item["rows"]) for item in items if item["state"] in ("verified", "dropped")}


def test_executions_of_a_day_that_was_dropped_are_answered_as_before(shop: Shop) -> None:
    now = shop.api.get("/v1/executions", finished_from=format_instant(OLD), limit="500").json()["items"]
    assert [row | {"archived": False} for row in now] == shop.before
    assert all(row["archived"] for row in now)
    assert shop.api.get(f"/v1/executions/{now[0]['id']}").json()["archived"]


def test_the_files_are_listed_and_verified(shop: Shop) -> None:
    listed = json.loads(shop.run("archive", "list", "--to", format_instant(OLD + DAY)[:10], "--json").output)[
        "items"
    ]
    assert {(item["table"], item["state"], item["rows"]) for item in listed} == {
        ("history", "dropped", ROWS), ("audit", "dropped", NOTES),
    }  # fmt: skip
    good = shop.run("archive", "verify")
    assert (good.exit_code, good.output) == (0, "2 files are what they were\n")


def test_a_file_that_decayed_is_found(shop: Shop) -> None:
    (file,) = shop.folder.glob("archive/v1/history/*/*.parquet")
    content = file.read_bytes()
    try:
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        for spoiled in (bytes(flipped), content[:100], b""):
            file.write_bytes(spoiled)
            found = shop.run("archive", "verify", "--table", "history")
            assert found.exit_code == 1
            assert "its bytes are not those that were written" in found.output
        file.unlink()
        assert "cannot be read" in shop.run("archive", "verify").output
    finally:
        file.write_bytes(content)


def test_history_is_exported_from_the_archive_as_from_the_database(shop: Shop) -> None:
    exported = shop.run("history", "export", "--from", format_instant(OLD))
    rows = [json.loads(line) for line in exported.output.splitlines()]
    assert [row | {"archived": False, "attempts": []} for row in rows] == shop.before


def test_the_archive_is_asked_in_sql(shop: Shop) -> None:
    words = "SELECT tenant_id, count(*) AS number, count(DISTINCT job_id) AS jobs FROM history GROUP BY ALL ORDER BY 1"
    answer = json.loads(shop.run("history", "query", words, "--json").output)
    assert [(row["tenant_id"], row["number"]) for row in answer["items"]] == [(1, ROWS // 2), (2, ROWS // 2)]
    assert "job.pause" in shop.run("history", "query", "SELECT DISTINCT action FROM audit").output


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/tocsin-escaped.csv'",
        "ATTACH '/tmp/tocsin-escaped.db' AS other",
        "SET enable_external_access = true",
        "SELECT nothing FROM history",
    ],
)
def test_a_statement_sees_the_archive_and_nothing_else(shop: Shop, sql: str) -> None:
    refused = shop.run("history", "query", sql)
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: ")
    assert not list(Path("/tmp").glob("tocsin-escaped.*"))


def test_without_the_libraries_a_process_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "duckdb" else name)
    with pytest.raises(Refused, match=r"has no duckdb: install tocsin\[archive\]") as refused:
        objects.check_extra()
    assert refused.value.field == "TOCSIN_ARCHIVE"
