"""Whatever a target or a task says, its end is written down, and so are those of all others in the batch."""

from typing import Any

import pytest

from tests.simulation.workshop import Workshop, play
from tocsin.domain.errors import Unreadable
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.failpoints import Failpoints
from tocsin.telemetry import Telemetry
from tocsin.worker.settler import Settlement, Settler

HALF_A_PAIR = "no such file: b\udce9b\udce9.csv"
NUL = "-ERR \x00"
MUCH = 10**140_000
"""A number with more digits than the database has."""


async def settle(shop: Workshop, outcomes: list[Outcome], reason: str | None = None) -> Settler:
    """Write these ends in one batch."""
    await shop.many(len(outcomes))
    worker = shop.worker(1)
    settler = Settler(worker.settling, shop.time.clock, Telemetry(), Failpoints(), node_id=1)
    for claim, outcome in zip(await shop.claim(worker), outcomes, strict=True):
        settler.put(Settlement(claim, outcome, shop.time.now(), reason=reason))
    await settler.run_once(shop.time.now())
    return settler


@pytest.mark.parametrize("words", [HALF_A_PAIR, NUL])
@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.REJECTED])
def test_words_that_the_database_does_not_know_are_shown_as_one_would_write_them(
    url: str, words: str, verdict: Verdict
) -> None:
    async def story(shop: Workshop) -> None:
        settler = await settle(shop, [Outcome(verdict, words, {words: [words]})])
        assert settler.backlog == 0
        told = words.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
        [row] = await shop.plain.fetch(
            "SELECT reason, outcome ->> 'error' AS error FROM history"
            " UNION ALL SELECT NULL, attempts -> 0 ->> 'error' FROM executions"
        )
        assert row["error"] == told
        assert verdict is Verdict.FAILED or row["reason"] == told

    play(url, story)


@pytest.mark.parametrize(
    "strange",
    [Outcome(Verdict.SUCCEEDED, result=MUCH), Outcome(Verdict.REJECTED, "no", {"number": MUCH})],
    ids=["result", "detail"],
)
def test_an_end_that_cannot_be_stored_is_told_in_other_words_and_keeps_no_other_from_being_written(
    url: str, strange: Outcome
) -> None:
    async def story(shop: Workshop) -> None:
        plain = Outcome(Verdict.SUCCEEDED, detail={"status": 200})
        settler = await settle(shop, [plain] * 10 + [strange] + [plain] * 10)
        assert settler.backlog == 0
        rows: list[Any] = await shop.plain.fetch("SELECT state, outcome ->> 'detail' AS detail FROM history")
        told = [row for row in rows if "could not be stored" in row["detail"]]
        assert (len(rows), len(told)) == (21, 1)
        assert told[0]["state"] == ("succeeded" if strange.verdict is Verdict.SUCCEEDED else "dead")

    play(url, story)


def test_a_reason_that_cannot_be_stored_is_told_in_other_words(url: str) -> None:
    async def story(shop: Workshop) -> None:
        settler = await settle(shop, [Outcome(Verdict.SKIPPED, "nothing to do")], reason=NUL)
        assert settler.backlog == 0
        [row] = await shop.plain.fetch("SELECT state, reason FROM history")
        assert row["state"] == "skipped"
        assert "could not be stored" in row["reason"]

    play(url, story)


def test_an_end_is_written_although_its_job_cannot_be_paused_for_it(url: str) -> None:
    async def cannot(*_: object) -> bool:
        raise Unreadable("this version cannot use the schedule")

    async def story(shop: Workshop) -> None:
        await shop.once()
        worker = shop.worker(1)
        settler = Settler(
            worker.settling, shop.time.clock, Telemetry(), Failpoints(), node_id=1, pause_gone=cannot
        )
        [claim] = await shop.claim(worker)
        gone = Outcome(Verdict.REJECTED, "the target answered 410", gone=True)
        settler.put(Settlement(claim, gone, shop.time.now()))
        await settler.run_once(shop.time.now())
        [row] = await shop.plain.fetch("SELECT state, reason FROM history")
        assert tuple(row) == ("dead", "the target answered 410")

    play(url, story)
