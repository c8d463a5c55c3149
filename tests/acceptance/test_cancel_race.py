"""Cancelling at the very instant of firing: whoever is told `cancelled` is told the truth."""

import asyncio
from pathlib import Path

from tests.acceptance.fleet import Fleet, run
from tests.acceptance.fleet_load import now
from tests.support.history import SECOND

JOBS = 2500
AT_ONCE = 350
AHEAD = 1.5
AROUND = 0.01
STEP = 0.002


class Race:
    """Sends each cancel so that it arrives when its execution starts.

    When that is depends on how busy the machine is, so the aim follows the results: a cancel that won makes the
    next ones later, one that lost makes them earlier. Both keep happening, whatever the load.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._aim = 0.0
        self._places = asyncio.Semaphore(AT_ONCE)

    async def one_job(self) -> None:
        async with self._places:
            fleet, at = self._fleet, now() + round(AHEAD * SECOND)
            job = await fleet.load.one_off(at)
            shift = self._aim + fleet.rng.uniform(-AROUND, AROUND)
            await asyncio.sleep((at - now()) / SECOND + shift)
            by_job = fleet.rng.random() < 0.5
            cancel = await (fleet.load.cancel_job if by_job else fleet.load.cancel_execution)(job)
            self._aim += STEP if cancel.answer == "cancelled" else -STEP


def test_a_cancel_answered_cancelled_is_never_followed_by_a_call(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2, ttl=10.0, seed=60) as fleet:
            race = Race(fleet)
            await asyncio.gather(*(race.one_job() for _ in range(JOBS)))
            verdict = await fleet.judge()
            # Each way of ending must have happened often, else nothing raced and the test proved nothing.
            counts = verdict.counts
            too_late = counts.get("cancels too_late", 0) + counts.get("cancels asked_to_stop", 0)
            assert counts["cancels cancelled"] > JOBS // 10
            assert too_late > JOBS // 10

    run(scenario())
