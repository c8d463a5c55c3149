"""The table of executions stands still for a few seconds, again and again: afterwards no job that takes turns
is silent."""

import asyncio
import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.acceptance.fleet import Fleet, run
from tests.acceptance.fleet_load import now, together
from tocsin.db.pool import open_connection
from tocsin.domain.instant import SECOND

STALLS = int(os.environ.get("TOCSIN_STALLS", "2"))
JOBS = 30
LONGEST_CALL = 0.7
STALL = 4.0
BETWEEN = 4.0 if STALLS < 5 else 11.0  # in which also jobs with the longest calls catch up
LONGEST_SILENCE = 2 * SECOND

Stall = tuple[int, int]


async def stall(url: str, seconds: float) -> Stall:
    """Nobody reads or writes an execution meanwhile."""
    connection = await open_connection(url, name="test stall")
    async with connection.transaction():
        await connection.execute("LOCK TABLE executions")
        began = now()
        await asyncio.sleep(seconds)
    await connection.close()
    return began, now()


def silence(before: int, after: int, stalls: list[Stall]) -> int:
    """How long nothing came between two calls although it could have."""
    excused = sum(max(0, min(after, end) - max(before, began)) for began, end in stalls)
    return after - before - excused


@pytest.mark.timeout(300 + STALLS * (STALL + BETWEEN))
def test_after_a_stall_of_the_database_no_job_that_takes_turns_is_silent(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2, ttl=10, horizon="45") as fleet:
            ends = now() + round((STALLS * (STALL + BETWEEN) + 2) * SECOND)
            paths = [f"/slow/{place * LONGEST_CALL / JOBS:.3f}" for place in range(JOBS)]
            jobs = await together(fleet.load.every(1, ends, path, overlap="queue") for path in paths)
            await asyncio.sleep(2)
            stalls = []
            for _ in range(STALLS):
                stalls.append(await stall(url, STALL))
                await asyncio.sleep(BETWEEN)
            silences = {}
            for job in jobs:
                calls = sorted(hit.received_at for hit in fleet.sink.of_job(job.job_id))
                assert len(calls) > STALLS * (STALL + BETWEEN) / 2
                silences[job.job_id] = max(silence(*pair, stalls) for pair in pairwise(calls))
            longest = [round(span / SECOND, 2) for span in sorted(silences.values())[-5:]]
            print(f"{STALLS} stalls, longest silences: {longest} s")
            await fleet.judge()
            assert max(silences.values()) <= LONGEST_SILENCE

    run(scenario())
