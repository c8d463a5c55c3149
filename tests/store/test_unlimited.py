"""What an execution does not need it does not meet: one without a limit passes through no code of the
limits, from its claim to history."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tocsin
from tests.simulation.faults import spin
from tests.simulation.virtual_time import VirtualTimer
from tests.simulation.workshop import CLAIM_TTL, Workshop, play
from tests.support.queues import ROUTES
from tocsin.domain.instant import MINUTE, SECOND
from tocsin.domain.outcome import SUCCEEDED, Outcome, Postponed, Verdict
from tocsin.domain.policy import Limit, Policies, Retry
from tocsin.domain.target import HttpTarget
from tocsin.domain.waits import Reason
from tocsin.failpoints import Failpoints
from tocsin.settings import Settings
from tocsin.store.misfires import MisfireStore
from tocsin.targets.assignment import Assignment
from tocsin.targets.noop.caller import NoopCaller
from tocsin.telemetry import Telemetry
from tocsin.worker.worker import Worker

SOURCES = Path(tocsin.__file__).parent
LIMITS = [
    *(SOURCES / "queue/slots").glob("*.py"),
    *(SOURCES / f"queue/starting/{name}.py" for name in ("gate", "rates", "turns", "parking", "proof")),
    SOURCES / "worker/slot_returner.py",
]
WEBHOOK = HttpTarget("http://target.example/")
BEFORE_ANY_EXECUTION = {"Slots.has_idle", "SlotBook.idle_keys"}
"""What a claim asks before it is known what it takes."""


@contextmanager
def noted() -> Iterator[set[str]]:
    """The functions of limits, rates and turns that run meanwhile, properties and all."""
    files, ran = {str(path) for path in LIMITS}, set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename in files:
            ran.add(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield ran
    finally:
        sys.setprofile(before)


class Calls:
    """Calls that end each in another way."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome | Postponed] = [
            SUCCEEDED,
            Outcome(Verdict.REJECTED, "no"),
            Outcome(Verdict.FAILED, "not yet"),
            Postponed(SECOND, Reason.HOST_REST),
        ]

    def host(self, target: HttpTarget) -> None: ...

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome | Postponed:
        return self.outcomes.pop(0) if self.outcomes else SUCCEEDED


async def worker_of(shop: Workshop) -> Worker:
    node_id = await shop.leases.register("worker", ("worker",), "test")
    callers: Any = {"noop": NoopCaller(), "http": Calls()}
    worker = Worker(
        shop.worker(node_id, routes=ROUTES), callers, shop.time.clock, Settings(claim_ttl=CLAIM_TTL), Telemetry(),
        Failpoints(), node_id=node_id, misfires=MisfireStore(shop.database),
    )  # fmt: skip
    VirtualTimer(shop.time.clock, worker.runner)
    return worker


async def work(shop: Workshop, worker: Worker) -> None:
    """One round of everything that a worker does with executions."""
    worker.claimer.forget_look()
    for part in (worker.claimer, worker.starter, worker.heartbeat, worker.settler, worker.stragglers):
        await part.run_once(shop.time.now())
        await spin()


def test_an_execution_without_limits_and_overlap_policy_meets_no_code_of_either(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker, retried = await worker_of(shop), Policies(retry=Retry(max_attempts=2))
        with noted() as ran:
            await shop.once()
            for _ in range(4):
                await shop.once(target=WEBHOOK, policies=retried)
            await shop.once(SECOND, target=WEBHOOK)
            for _ in range(3):
                await work(shop, worker)
            assert (await shop.count("history"), len(worker.timetable)) == (3, 3)
            await shop.time.advance(2 * SECOND)
            for _ in range(3):
                await work(shop, worker)
            await shop.time.advance(MINUTE)
            for _ in range(3):
                await work(shop, worker)
        assert (await shop.count("history"), await shop.count("executions")) == (6, 0)
        assert ran - BEFORE_ANY_EXECUTION == set()

    play(url, story)


@pytest.mark.parametrize("met", ["Slots", "Turns"])
def test_one_with_a_limit_or_an_overlap_policy_does(url: str, met: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = await worker_of(shop)
        if met == "Slots":
            await shop.once(SECOND, policies=Policies(limit=Limit("k", 1)))
        else:
            await shop.once(SECOND)
            await shop.plain.execute("UPDATE executions SET overlap = 'skip'")
        with noted() as ran:
            for _ in range(2):
                await work(shop, worker)
            await shop.time.advance(SECOND)
            for _ in range(2):
                await work(shop, worker)
        assert await shop.count("history") == 1
        assert any(name.startswith(met) for name in ran - BEFORE_ANY_EXECUTION)

    play(url, story)
