"""What a worker that stops does with outcomes that are not written down yet."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from tocsin.clock import DatabaseClock
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import new_job_id
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim, Finish
from tocsin.settings import Settings
from tocsin.signals import Signal
from tocsin.telemetry import Telemetry
from tocsin.worker.settler import Settlement
from tocsin.worker.worker import Worker


class Queue:
    """Its first write takes until the test says so, and some of the others fail."""

    def __init__(self, failing: set[int]) -> None:
        self.slots = SimpleNamespace(taken=Signal("slots_taken"), give_back_all=self._nothing)
        self.looking = self.claiming = self.starting = None
        self.settling = self
        self.written: set[int] = set()
        self.calls = 0
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._failing = failing

    async def finish(self, finishes: list[Finish]) -> list[Any]:
        if not finishes:
            return []
        self.calls += 1
        number = self.calls
        if number == 1:
            self.begun.set()
            await self.go_on.wait()
        await asyncio.sleep(0)
        if number in self._failing:
            raise Unavailable("the database did not answer")
        self.written.update(finish.claim.token for finish in finishes)
        return []

    async def _nothing(self) -> None:
        pass


def settlement(token: int) -> Settlement:
    claim = Claim(
        new_job_id(token), 1, 1, "default", 5, "noop", 1, 1, None, 1, 1, 1, 0, None, None, None, None, None,
        '{"kind":"noop"}', "{}", 1, token,
    )  # fmt: skip
    return Settlement(claim, Outcome(Verdict.SUCCEEDED, detail={"status": 200}), 1)


@pytest.mark.parametrize("failing", [{2}, {1, 2}])
def test_a_worker_that_stops_writes_down_what_came_while_a_batch_was_being_written(failing: set[int]) -> None:
    async def scenario() -> None:
        queue: Any = Queue(failing)
        misfires: Any = None
        parts = (DatabaseClock(), Settings(), Telemetry(), Failpoints())
        worker = Worker(queue, {}, *parts, node_id=1, misfires=misfires)
        settling = asyncio.create_task(worker._settling.run())
        worker.settler.put(settlement(1))
        await queue.begun.wait()
        worker.settler.put(settlement(2))
        draining = asyncio.create_task(worker.drain())
        for _ in range(20):
            await asyncio.sleep(0)
        queue.go_on.set()
        await draining
        await settling
        assert queue.written == {1, 2}
        assert worker.settler.backlog == 0

    with structlog.testing.capture_logs():
        asyncio.run(scenario())
