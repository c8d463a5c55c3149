"""The pure parts of `tocsin bench`: what its figures are made from."""

import asyncio
from typing import Any, cast

import pytest

from tocsin.cli.bench_api import Api
from tocsin.cli.bench_history import Stuck, finished
from tocsin.cli.bench_measures import percentile

NOON = "2030-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("count", "percent", "value"),
    [
        (1, 50, 1),
        (1, 99, 1),
        (2, 50, 1),
        (3, 50, 2),
        (100, 50, 50),
        (100, 99, 99),
        (200, 99, 198),
        (10, 99, 10),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(count: int, percent: int, value: float) -> None:
    assert percentile(list(range(1, count + 1)), percent) == value


class History:
    """A listing that tells more with every look. Pages have two items, and a look is what begins without a
    cursor."""

    def __init__(self, *looks: str) -> None:
        self.looks = [list(look) for look in looks]
        self.pages = 0

    async def get(self, *path: str, **query: Any) -> Any:
        if path == ("jobs", "z", "executions"):
            return {"items": [{"id": "exec_z"}]}
        if path == ("executions", "exec_z", "explain"):
            return {"explanation": ["It waits.", "Nobody knows why."]}
        assert path == ("executions",)
        assert (query["fire_from"], query["fire_to"]) == (NOON, "2030-01-01T12:00:00.000001Z")
        self.pages += 1
        if query["cursor"] is None and len(self.looks) > 1 and self.pages > 1:
            self.looks.pop(0)
        begin = query["cursor"] or 0
        items = self.looks[0][begin : begin + 2]
        return {
            "items": [{"job_id": one, "started_at": NOON, "finished_at": NOON, "lag_ms": ord(one)} for one in items],
            "next_cursor": begin + 2 if begin + 2 < len(self.looks[0]) else None,
        }  # fmt: skip


def lags(history: History, wanted: str, monkeypatch: pytest.MonkeyPatch, patience: float = 9) -> str:
    """Whose lag was read, in the order of reading."""

    async def at_once(_: float) -> None:
        pass

    monkeypatch.setattr("tocsin.cli.bench_history.asyncio.sleep", at_once)
    at = 1_893_499_200_000_000
    found = asyncio.run(finished(cast("Api", history), set(wanted), (at, at), patience=patience))
    return "".join(chr(int(one.lag_ms)) for one in found)


def test_only_the_newest_pages_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History("dcba", "hgfedcba")
    assert lags(history, "abcdefgh", monkeypatch) == "dcbahgfe"
    assert history.pages == 2 + 2


def test_executions_of_others_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lags(History("xb", "yyxxab"), "ab", monkeypatch) == "ba"


def test_what_is_written_late_is_found_behind_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    # The third look ends at its first page, in vain; the one after it goes through all.
    history = History("fedcb", "gfedcb", "gfedcba")
    assert lags(history, "abcdefg", monkeypatch) == "fedcbga"


def test_when_nothing_goes_on_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stuck) as raised:
        lags(History("ab"), "abz", monkeypatch, patience=-1)
    assert raised.value.message == (
        "1 of 3 executions did not end, and nothing went on for -1 s. It waits. Nobody knows why."
    )
