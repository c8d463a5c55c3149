"""Cancelling at the very instant of firing: the answer `cancelled` is the truth.

`TEST_CANCELS=10000` makes it more.
"""

import asyncio
import os
import time
from pathlib import Path

from tests.acceptance.fleet import Fleet, run
from tests.acceptance.fleet_load import now
from tests.support.history import SECOND

JOBS = int(os.environ.get("TEST_CANCELS", "2000"))
# Calls that last a while are the ones that a cancel can stop.
PATHS = ("/ok", "/slow/0.05")
AT_ONCE = 250
AROUND = 0.01
STEP = 0.002


class Race:
    """Sends each cancel so that it arrives when its execution starts.

    When that is depends on how busy the machine is, so the aim follows the results: a cancel that won makes
    the next ones later, one that lost makes them earlier. Jobs are created so far ahead that there is time to
    cancel them. Both outcomes keep happening, whatever the load.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._ahead = 1.0
        self._aim = 0.0
        self._places = asyncio.Semaphore(AT_ONCE)

    async def one_job(self) -> None:
        async with self._places:
            load, rng = self._fleet.load, self._fleet.rng
            asked = time.monotonic()
            at = now() + round(self._ahead * SECOND)
            job = await load.one_off(at, rng.choice(PATHS))
            self._ahead = max(1.0, 0.9 * self._ahead, 3 * (time.monotonic() - asked) - self._aim)
            await asyncio.sleep((at - now()) / SECOND + self._aim + rng.uniform(-AROUND, AROUND))
            cancel = await (load.cancel_job if rng.random() < 0.5 else load.cancel_execution)(job)
            self._aim += STEP if cancel.answer == "cancelled" else -STEP


def test_a_cancel_answered_cancelled_is_never_followed_by_a_call(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2, ttl=10.0, seed=60) as fleet:
            race = Race(fleet)
            await asyncio.gather(*(race.one_job() for _ in range(JOBS)))
            verdict = await fleet.judge()
            # Each way of ending must have happened often, else nothing raced and the test proved nothing.
            counts = verdict.counts
            print(f"{JOBS} cancels around the instant: {counts}")
            too_late = counts.get("cancels too_late", 0) + counts.get("cancels asked_to_stop", 0)
            assert counts["cancels cancelled"] > JOBS // 20
            assert too_late > JOBS // 20

    run(scenario())
