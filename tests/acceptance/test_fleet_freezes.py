"""A node that was frozen past its ttl wakes up believing that it still owns things. It must not get away with
it."""

import asyncio
from pathlib import Path

from tests.acceptance.fleet import SHARDS, Fleet, run, until
from tests.acceptance.fleet_load import now
from tests.support.history import SECOND


def test_a_node_frozen_past_its_ttl_is_refused_is_counted_and_rejoins(url: str, tmp_path: Path) -> None:
    """Its planner is caught between the decision and the write, its worker in the middle of calls."""

    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=3, seed=30) as fleet:
            zombie = fleet.nodes[0]
            zombie.kill()
            zombie.start(TOCSIN_FAILPOINTS="planner.before_write=pause:1")
            node_id = await fleet.node_id(zombie)
            await fleet.load.everies(60, until=now() + 12 * SECOND, longest=1)
            async with fleet.under_load(per_second=60):
                for _ in range(5):  # once is nearly always enough; a freeze may miss the moment
                    await fleet.holds_shards(node_id)
                    # One after the other, so that each node gets some; and long enough that the next attempt
                    # is still under way when the zombie settles the first.
                    slow = [await fleet.load.one_off(now(), "/slow/3") for _ in range(20)]
                    await until(lambda: fleet.sink.has_all(slow), 30, "the slow calls do not begin")  # noqa: B023
                    await fleet.freeze(zombie, fleet.ttl + 2)
                    await fleet.holds_shards(node_id)  # it rejoined
                    if await refused_writes(fleet, "plan") and await refused_writes(fleet, "worker"):
                        break
                assert await refused_writes(fleet, "plan"), "no stale plan was refused"
                assert await refused_writes(fleet, "worker"), "no stale settlement was refused"
            verdict = await fleet.judge()
            assert verdict.counts["attempts lost"] > 0

    run(scenario())


def test_a_node_frozen_for_less_than_its_ttl_keeps_everything(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2, ttl=6.0, seed=31) as fleet:
            node = fleet.nodes[0]
            node_id, other_id = [await fleet.node_id(one) for one in fleet.nodes]
            for each in (node_id, other_id):  # else the one that came first may still have to give some away
                await fleet.holds_shards(each, at_least=SHARDS // 2)
            held = (await fleet.shards_of())[node_id]
            async with fleet.under_load(per_second=60):
                await until(lambda: fleet.calls_under_way() > 3, 30, "no calls are under way")
                await fleet.freeze(node, 2.0)
            verdict = await fleet.judge()
            assert (await fleet.shards_of())[node_id] == held
            assert verdict.counts["attempts lost"] == 0

    run(scenario())


def test_a_node_that_was_forgotten_while_it_was_frozen_rejoins(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2) as fleet:
            node = fleet.nodes[0]
            node_id = await fleet.node_id(node)
            await fleet.holds_shards(node_id)
            node.freeze()
            # What retention does to nodes that have been away for many ttls.
            await fleet.query("DELETE FROM nodes WHERE id = $1", node_id)
            await until(lambda: not_leasing(fleet, node_id), 30, "its leases do not expire")
            node.thaw()
            await fleet.holds_shards(node_id)
            await fleet.all_leased()

    run(scenario())


async def not_leasing(fleet: Fleet, node_id: int) -> bool:
    return node_id not in await fleet.shards_of()


async def refused_writes(fleet: Fleet, part: str) -> float:
    """How many stale writes /metrics shows, of the planner or of a worker."""
    await asyncio.sleep(fleet.ttl / 3)  # counters travel with the next heartbeat
    kinds = ("plan",) if part == "plan" else ("settle", "heartbeat")
    return sum([await fleet.metric("tocsin_stale_writes_total", kind=kind) for kind in kinds])
