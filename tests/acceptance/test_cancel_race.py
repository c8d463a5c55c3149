"""Cancelling at the very instant of firing: whoever is told `cancelled` is told the truth."""

import asyncio
from pathlib import Path

from tests.acceptance.fleet import Fleet, run
from tests.acceptance.fleet_load import now
from tests.support.history import SECOND, Create

JOBS = 3000
SPREAD = 8 * SECOND
AROUND = 0.015  # seconds before and after the instant


def test_a_cancel_answered_cancelled_is_never_followed_by_a_call(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2, ttl=10.0, seed=60) as fleet:
            first = now() + 8 * SECOND  # after the last creation, however slow the machine
            instants = [first + fleet.rng.randrange(SPREAD) for _ in range(JOBS)]
            jobs = await fleet.load.one_offs(instants)
            assert now() < first, "creating took so long that no cancel can race"
            await asyncio.gather(*(cancel_at_its_instant(fleet, job) for job in jobs))
            verdict = await fleet.judge()
            # Each way of ending must have happened often, else nothing raced and the test proved nothing.
            too_late = verdict.counts.get("cancels too_late", 0) + verdict.counts.get("cancels asked_to_stop", 0)
            assert verdict.counts["cancels cancelled"] > JOBS // 50
            assert too_late > JOBS // 50
            assert verdict.counts["calls"] > JOBS // 50

    run(scenario())


async def cancel_at_its_instant(fleet: Fleet, job: Create) -> None:
    """Half of the cancels name the job, half the execution."""
    await asyncio.sleep((job.at or 0) / SECOND - now() / SECOND + fleet.rng.uniform(-AROUND, AROUND))
    cancel = fleet.load.cancel_job if fleet.rng.random() < 0.5 else fleet.load.cancel_execution
    await cancel(job)
