"""A herd of slow calls on workers without enough places: while calls end and others start, heartbeats extend
all that run and wait, and no statement waits for another in a circle.

`TEST_HERD=3000` makes it as large as the one in which statements deadlocked that took their rows in orders of
their own.
"""

import os
from pathlib import Path

from tests.acceptance.fleet import Fleet, query, run
from tests.acceptance.fleet_load import now, together
from tests.support.history import SECOND

HERD = int(os.environ.get("TEST_HERD", "600"))
NODES = 2
ROUNDS = 5
LONGEST_CALL = 2.0
CLAIM_TTL = 4.0  # most of the herd waits longer for a place: it would be lost if nobody extended its claims


def test_a_herd_of_slow_calls_is_started_beside_heartbeats_without_a_deadlock(
    url: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        places = str(HERD // NODES // ROUNDS)
        room = {"concurrency": places, "host_concurrency": places, "claim_ttl": str(CLAIM_TTL)}
        async with Fleet(url, tmp_path, nodes=NODES, ttl=10.0, **room) as fleet:
            at = now() + max(5, HERD // 100) * SECOND
            lengths = [LONGEST_CALL * (1 + place / HERD) / 2 for place in range(HERD)]
            await together(fleet.load.one_off(at, f"/slow/{seconds:.3f}") for seconds in lengths)
            verdict = await fleet.judge()
            assert verdict.counts["executions succeeded"] == HERD
            assert (verdict.counts["attempts lost"], verdict.counts["calls repeated"]) == (0, 0)
        # Every backend has reported by now: it does so at the latest when it ends.
        [numbers] = await query(
            url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        assert numbers["deadlocks"] == 0

    run(scenario())
