"""Cancelling at the very instant of firing: whoever is told `cancelled` is told the truth."""

import asyncio
from pathlib import Path

from tests.acceptance.fleet import Fleet, run
from tests.acceptance.fleet_load import now
from tests.support.history import SECOND

JOBS = 3000
PER_SECOND = 350
AHEAD = 2 * SECOND
AROUND = 0.015  # seconds before and after the instant


def test_a_cancel_answered_cancelled_is_never_followed_by_a_call(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2, ttl=10.0, seed=60) as fleet:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(JOBS):
                    tasks.create_task(create_then_cancel_at_its_instant(fleet))
                    await asyncio.sleep(1 / PER_SECOND)
            verdict = await fleet.judge()
            # Each way of ending must have happened often, else nothing raced and the test proved nothing.
            counts = verdict.counts
            too_late = counts.get("cancels too_late", 0) + counts.get("cancels asked_to_stop", 0)
            assert counts["cancels cancelled"] > JOBS // 50
            assert too_late > JOBS // 50
            assert counts["calls"] > JOBS // 50

    run(scenario())


async def create_then_cancel_at_its_instant(fleet: Fleet) -> None:
    """Half of the cancels name the job, half the execution."""
    at = now() + AHEAD
    job = await fleet.load.one_off(at)
    await asyncio.sleep((at - now()) / SECOND + fleet.rng.uniform(-AROUND, AROUND))
    cancel = fleet.load.cancel_job if fleet.rng.random() < 0.5 else fleet.load.cancel_execution
    await cancel(job)
