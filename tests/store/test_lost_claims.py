"""The answer to a claim is lost: what it started is called all the same, once, and no attempt is counted that
never began."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
import uvloop

from tests.support.limits import LANE, add, answers_lost, held_slots, opened
from tests.support.limits import workers as nodes
from tests.support.queues import WholeQueue
from tocsin.clock import DatabaseClock
from tocsin.db.pool import Database
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit
from tocsin.failpoints import Failpoints
from tocsin.queue.allotment import Allotment
from tocsin.settings import Settings
from tocsin.store.misfires import MisfireStore
from tocsin.targets.noop.caller import NoopCaller
from tocsin.telemetry import Telemetry
from tocsin.worker.worker import Worker


class Bed:
    """A worker whose parts run when the test says so."""

    def __init__(self, database: Database, queue: WholeQueue) -> None:
        self.database, self.queue, self.clock = database, queue, DatabaseClock()
        parts = (self.clock, Settings(), Telemetry(), Failpoints())
        self.worker = Worker(
            queue, {"noop": NoopCaller()}, *parts, node_id=queue.node_id, misfires=MisfireStore(database)
        )

    async def claim(self, later: int = 0) -> None:
        self.worker.claimer.forget_look()
        await self.worker.claimer.run_once(self.clock.now() + later)

    async def settle(self) -> None:
        await self.worker.settler.run_once(self.clock.now())

    async def ended(self) -> list[tuple[str, int]]:
        rows = await self.database.fetch("SELECT state, attempt FROM history")
        return [(row["state"], row["attempt"]) for row in rows]

    async def live(self) -> list[Any]:
        return await self.database.fetch("SELECT * FROM executions")


@asynccontextmanager
async def bed(url: str, count: int, limit: Limit | None = None) -> AsyncIterator[Bed]:
    async with opened(url) as database:
        [queue] = await nodes(database, 1)
        await add(database, limit or Limit("unused", max_parallel=1), count)
        if limit is None:
            await database.execute("UPDATE executions SET limit_key = NULL")
            await database.execute("UPDATE jobs SET policies = '{}'")
        yield Bed(database, queue)


def play(url: str, story: Callable[[Bed], Any], count: int = 5, limit: Limit | None = None) -> None:
    async def scenario() -> None:
        async with bed(url, count, limit) as made:
            await story(made)

    with structlog.testing.capture_logs():
        uvloop.run(scenario())


async def lose_a_claim(made: Bed, patch: pytest.MonkeyPatch) -> None:
    with answers_lost(made.database, patch, "claim"), pytest.raises(Unavailable):
        await made.claim()
    assert all(row["started_at"] for row in await made.live()), "nothing was started"


def test_what_a_claim_without_an_answer_started_runs_once_and_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Bed) -> None:
        await lose_a_claim(made, monkeypatch)
        await made.claim()
        await made.settle()
        assert await made.ended() == [("succeeded", 1)] * 5
        assert await made.live() == []
        await made.claim(later=SECOND)
        assert made.worker.settler.backlog == 0

    play(url, story)


def test_the_answer_may_be_lost_again_while_it_is_asked_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Bed) -> None:
        await lose_a_claim(made, monkeypatch)
        for seconds, statement in ((1, "recall"), (3, "extend")):
            with answers_lost(made.database, monkeypatch, statement), pytest.raises(Unavailable):
                await made.claim(later=seconds * SECOND)
        await made.claim(later=8 * SECOND)
        await made.settle()
        assert await made.ended() == [("succeeded", 1)] * 5

    play(url, story)


def test_a_claim_that_is_committed_long_after_it_was_given_up_is_found(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Bed) -> None:
        claim, asked = made.queue.claiming.claim, []

        async def given_up(*arguments: Any) -> Any:
            asked.append(arguments)
            raise Unavailable("no answer in time")

        monkeypatch.setattr(made.queue.claiming, "claim", given_up)
        with pytest.raises(Unavailable):
            await made.claim()
        with pytest.raises(Unavailable):
            await made.claim(later=SECOND)
        monkeypatch.setattr(made.queue.claiming, "claim", claim)
        await claim(*asked[0])
        await made.claim(later=12 * SECOND)
        await made.settle()
        assert await made.ended() == [("succeeded", 1)] * 5

    play(url, story)


def test_a_worker_that_stops_meanwhile_gives_it_back_without_an_attempt(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Bed) -> None:
        await lose_a_claim(made, monkeypatch)
        await made.worker.drain()
        assert [(row["claim_token"], row["started_at"], row["attempt"]) for row in await made.live()] == [
            (None, None, 1)
        ] * 5

    play(url, story)


def test_a_worker_that_stops_gives_back_starts_without_an_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Bed) -> None:
        await made.database.execute("UPDATE executions SET run_at = tocsin_now() + interval '1 second'")
        await made.claim()
        with answers_lost(made.database, monkeypatch, "start"), pytest.raises(Unavailable):
            await made.worker.starter.run_once(made.clock.now() + 2 * SECOND)
        assert all(row["started_at"] for row in await made.live())
        await made.worker.drain()
        assert [(row["claim_token"], row["started_at"], row["attempt"]) for row in await made.live()] == [
            (None, None, 1)
        ] * 5

    play(url, story)


def test_what_was_asked_to_stop_meanwhile_is_not_called(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(made: Bed) -> None:
        await lose_a_claim(made, monkeypatch)
        await made.database.execute("UPDATE executions SET cancel_requested = true")
        await made.claim()
        await made.settle()
        assert await made.ended() == [("cancelled", 1)] * 5

    play(url, story)


def test_what_passed_its_deadline_meanwhile_is_left_to_the_reclaimer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Bed) -> None:
        await lose_a_claim(made, monkeypatch)
        await made.database.execute("UPDATE executions SET deadline_at = tocsin_now()")
        await made.claim()
        assert made.worker.settler.backlog == 0

    play(url, story)


def test_slots_that_were_offered_to_a_claim_without_an_answer_are_in_use_by_what_it_started(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Limit("few", max_parallel=4)

    async def story(made: Bed) -> None:
        now = made.clock.now()
        claims = await made.queue.claiming.claim([Allotment(LANE, 4)], now, 1, now)
        started = await made.queue.starting.start_gated(claims, now)
        assert await made.queue.settling.succeed(started, made.clock.now()) == []
        await add(made.database, limit, 2)
        await lose_a_claim(made, monkeypatch)
        await made.claim()
        busy = [claim.slot for claim in made.worker.settler.claims()]
        assert len(set(busy)) == 2
        assert None not in busy
        await made.settle()
        await made.queue.slots.adopt()
        assert len(made.queue.slots._book._idle[1, "few"]) == await held_slots(made.database, made.queue)
        assert made.queue.slots._book.tokens_in_doubt == []

    play(url, story, 4, limit)


def test_a_claim_that_was_never_made_is_asked_for_a_few_times_and_then_forgotten(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(made: Bed) -> None:
        async def given_up(*_: Any) -> Any:
            raise Unavailable("no answer in time")

        with monkeypatch.context() as patch:
            patch.setattr(made.queue.claiming, "claim", given_up)
            with pytest.raises(Unavailable):
                await made.claim()
        asked: list[Any] = []
        recall = made.queue.claiming.recall

        async def noted(tokens: Any) -> Any:
            asked.append(tokens)
            return await recall(tokens)

        monkeypatch.setattr(made.queue.claiming, "recall", noted)
        for second in range(120):
            await made.claim(later=second * SECOND)
        assert 2 <= len(asked) <= 12

    play(url, story, 1)
