"""Workers of this version and of the next over one queue: each execution runs once, wherever it can be
read."""

import asyncio

from tests.simulation.workshop import Workshop, play
from tests.skew import tomorrow
from tests.skew.test_newer_rows import counted, work, worker_of
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Policies
from tocsin.telemetry import Telemetry


def test_new_kinds_run_on_new_workers_and_everything_else_on_either(url: str) -> None:
    async def story(shop: Workshop) -> None:
        strange = [await shop.once() for _ in range(3)]
        for key in strange:
            await tomorrow.teleport(shop.plain, key.job_id)
        await shop.many(20)
        telemetry = Telemetry()
        await work(shop, worker_of(shop, telemetry))
        assert (await shop.count("history"), counted(telemetry, "execution")) == (20, 0), (
            "what this version cannot run costs it nothing"
        )
        await shop.many(20)
        await shop.time.advance(2 * SECOND)
        teleporter = tomorrow.Teleporter()
        with tomorrow.rules():
            newer = worker_of(shop, node_id=2, callers={"teleport": teleporter})
            await work(shop, newer)
            await asyncio.sleep(0)
            await work(shop, newer)
        assert sorted(call.key for call in teleporter.called) == sorted(strange)
        assert {call.attempt for call in teleporter.called} == {1}, (
            "waiting for newer workers spends no attempt"
        )
        assert (await shop.count("history"), await shop.count("executions")) == (43, 0)

    play(url, story)


def test_the_next_version_reads_what_this_one_wrote_and_this_one_goes_on_after_it(url: str) -> None:
    """An upgrade that is taken back: what the next version put off or ran keeps to the rules of this one."""

    async def story(shop: Workshop) -> None:
        ours = await shop.once(policies=Policies(timeout="5s", start_within="1h"))
        theirs = await shop.once()
        await tomorrow.write(shop.plain, theirs.job_id, """policies = '{"gravity": 9.81}'""")
        with tomorrow.rules():
            newer = worker_of(shop, node_id=2)
            await work(shop, newer)
        states = [[row["state"] for row in await shop.past(key)] for key in (ours, theirs)]
        assert states == [["succeeded"], ["succeeded"]]
        left = await shop.once()
        await tomorrow.write(shop.plain, left.job_id, """policies = '{"gravity": 9.81}'""")
        await work(shop, worker_of(shop))
        assert (await shop.live(left))["waits_for"] == "version"
        await tomorrow.write(shop.plain, left.job_id, "policies = '{}'")
        await shop.time.advance(2 * SECOND)
        await work(shop, worker_of(shop))
        assert [row["state"] for row in await shop.past(left)] == ["succeeded"]

    play(url, story)
