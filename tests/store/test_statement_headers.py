"""The comment at the top of a statement is true: its callers use it, its indexes exist, and nothing is left
unsaid."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.support.statement_headers import SOURCE, callers, read_header
from tocsin.db.pool import open_database

FILES = sorted(file for file in SOURCE.rglob("*.sql") if file.parent.name != "migrations")
LONGEST = 110
MOST_NUMBERED = 7
"""Parameters that a statement may tell apart by their numbers."""


@pytest.fixture(scope="module")
def used_by() -> dict[str, set[str]]:
    return callers()


def test_statements_lie_in_folders_of_their_own_beside_the_code_that_runs_them() -> None:
    folders = {file.parent.relative_to(SOURCE) for file in FILES}
    assert {folder.name for folder in folders} == {"sql"}
    assert {folder.parts[0] for folder in folders} == {"db", "queue", "store"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_header_says_what_it_does_who_calls_it_what_it_locks_by_which_index_and_what_zero_rows_mean(
    file: Path,
) -> None:
    header = read_header(file.read_text())
    assert header.prose
    assert header.missing == []
    assert [
        line for line in file.read_text().splitlines() if line.startswith("--") and len(line) > LONGEST
    ] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_callers_of_a_header_are_all_that_use_the_statement(
    file: Path, used_by: dict[str, set[str]]
) -> None:
    assert read_header(file.read_text()).callers == used_by.get(file.stem, set())


def test_wide_statements_have_named_parameters() -> None:
    wide = {
        file.relative_to(SOURCE).as_posix()
        for file in (*FILES, *SOURCE.rglob("*.py"))
        if max(map(int, re.findall(r"\$(\d+)", file.read_text())), default=0) > MOST_NUMBERED
    }
    assert wide == set()


def test_the_indexes_of_the_headers_exist(url: str) -> None:
    async def existing() -> set[str]:
        database = await open_database(url, name="headers", size=1)
        rows = await database.fetch("SELECT indexname FROM pg_indexes WHERE schemaname = 'tocsin'")
        await database.close()
        return {row["indexname"] for row in rows}

    there = asyncio.run(existing())
    named = {file.stem: read_header(file.read_text()).indexes for file in FILES}
    assert sum(map(len, named.values())) > 50
    assert {name: indexes - there for name, indexes in named.items() if indexes - there} == {}


def test_a_header_that_names_another_caller_or_leaves_something_out_is_found() -> None:
    header = read_header(
        "-- Counts.\n-- Caller: Store.count, store.count_all.\n-- Index: a_pkey, by_b, one range. Few.\nSELECT 1"
    )
    assert (header.prose, header.callers) == ("Counts.", {"Store.count", "store.count_all"})
    assert header.indexes == {"a_pkey", "by_b"}
    assert header.missing == ["Locks", "Zero rows"]
    assert read_header("-- Not a statement: columns.\n-- Caller: a.b.\nSELECT").missing == []
