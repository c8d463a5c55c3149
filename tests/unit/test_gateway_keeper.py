"""What a gateway was asked to look at is looked at, also if the database is away for a moment."""

import asyncio
from typing import Any

import pytest

from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.worker.remote.held import HeldClaims
from tocsin.worker.remote.keeper import Keeper


class Session:
    worker_id = 1
    draining = False

    def __init__(self) -> None:
        self.woken = 0

    def gone(self, _: int) -> bool:
        return False

    def wake(self) -> None:
        self.woken += 1


class Sessions(list[Session]):
    def take_unnoted(self) -> list[Any]:
        return []


class Database:
    """All that a keeper asks of it. The first look at states has no answer."""

    def __init__(self) -> None:
        self.answers: list[dict[int, str] | None] = [{1: "active"}, None, {1: "draining"}]

    async def states(self, _: list[int]) -> dict[int, str]:
        answer = self.answers.pop(0)
        if answer is None:
            raise Unavailable("away")
        return answer

    async def note_routes(self, *_: object) -> None: ...

    async def still_held(self, _: object) -> tuple[list[Any], list[Any]]:
        return [], []


def test_a_worker_that_was_asked_to_drain_hears_it_although_one_look_failed() -> None:
    session, database = Session(), Database()
    anything: Any = database
    keeper = Keeper(Sessions([session]), HeldClaims(), anything, anything, anything, anything, 1)  # type: ignore[arg-type]

    async def story() -> None:
        await keeper.run_once(100 * SECOND)
        keeper.look_at_states()
        with pytest.raises(Unavailable):
            await keeper.run_once(100 * SECOND + 1)
        await keeper.run_once(100 * SECOND + 2)

    asyncio.run(story())
    assert (session.draining, session.woken) == (True, 1)
