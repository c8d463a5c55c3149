"""A claim lives as long as its worker has it in hand, wherever in the worker it is at the moment."""

import asyncio
from collections.abc import Sequence

from tests.simulation.faults import spin
from tests.simulation.outage import Engine, play, schedule
from tests.simulation.virtual_time import START
from tocsin.domain.instant import SECOND, format_instant
from tocsin.domain.policy import Policies
from tocsin.queue.claims import Claim


def test_a_claim_is_kept_alive_while_its_start_is_being_asked_for(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(at=format_instant(START + SECOND)))
        worker, queue = engine.worker, engine.worker.starter._starting
        answered, start = asyncio.Event(), queue.start

        async def start_slowly(claims: Sequence[Claim], *, again: bool) -> list[Claim]:
            await answered.wait()
            return await start(claims, again=again)

        await worker.claimer.run_once(engine.time.now())
        queue.start = start_slowly
        await engine.time.advance(SECOND)
        starting = asyncio.create_task(worker.starter.run_once(engine.time.now()))
        await spin()
        for _ in range(3):  # longer in all than a claim lives
            await engine.time.advance(round(engine.settings.claim_ttl * 0.6 * SECOND))
            await worker.heartbeat.run_once(engine.time.now())
            assert (await engine.reclaimer.run_once(engine.time.now())).done == 0
        answered.set()
        await starting
        await engine.run_until_done()
        assert engine.calls.made == [(job_id, START + SECOND, 1)]

    play(url, START, story)


def test_a_worker_that_stood_still_after_a_start_ahead_does_not_call_past_the_latest_start(url: str) -> None:
    async def story(engine: Engine) -> None:
        fire_at = START + SECOND
        late = await engine.define(schedule(at=format_instant(fire_at)), Policies(start_within="2s"))
        free = await engine.define(schedule(at=format_instant(fire_at)))
        await engine.worker.claimer.run_once(engine.time.now())
        await engine.run_until(fire_at - 1)
        assert await engine.count("executions", "started_at IS NOT NULL") == 2
        await engine.time.advance(5 * SECOND)  # less than a claim lives
        await engine.run_until_done()
        assert engine.calls.made == [(free, fire_at, 1)]
        [expired] = await engine.ledger(late, [fire_at])
        assert (expired.state, expired.attempt, expired.started_at) == ("expired", 1, None)

    play(url, START, story, claim_ahead=2.0)
