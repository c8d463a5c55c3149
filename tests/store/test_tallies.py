"""Tallies agree with history, whoever counted, and are kept no longer than they are for."""

from typing import Any

from tests.simulation.workshop import Workshop, play
from tocsin.db.pool import Database
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.tally import BINS, BOUNDS_MS
from tocsin.scheduler.tally_keeper import TallyKeeper
from tocsin.store.forgetting import ForgettingStore
from tocsin.store.tallies import Tally, TallyStore
from tocsin.worker.tallies import Tallies


class AllShards:
    def trusted(self) -> set[int]:
        return {0}


async def end(shop: Workshop, tallies: Tallies, **states: int) -> None:
    """Run executions to these ends, as a worker does."""
    worker = shop.worker(1)
    for state, number in states.items():
        await shop.many(number)
        await shop.time.advance(3_000)
        claims = await shop.claim(worker)
        assert len(claims) == number
        if state == "succeeded":
            await worker.settling.succeed(claims, shop.time.now())
            tallies.succeeded(claims, [shop.time.now()] * len(claims))
        else:
            await worker.settling.finish([shop.finish(claim, State(state)) for claim in claims])


async def told(database: Database, step: int, tenant: int = 1) -> dict[str, Any]:
    rows = await database.fetch(
        "SELECT state, sum(count)::integer AS count, sum((SELECT sum(n) FROM unnest(lag) AS n))::integer AS lags"
        " FROM tallies WHERE step_s = $1 AND tenant_id = $2 GROUP BY 1",
        step,
        tenant,
    )
    return {row["state"]: (row["count"], row["lags"]) for row in rows}


def test_workers_and_the_keeper_together_count_what_history_has(url: str) -> None:
    async def story(shop: Workshop) -> None:
        tallies = Tallies(TallyStore(shop.database, 7), shop.time.clock)
        keeper = TallyKeeper(TallyStore(shop.database), AllShards())  # type: ignore[arg-type]
        await end(shop, tallies, succeeded=5, dead=2, cancelled=1)
        await shop.time.advance(1_000)
        for _ in range(2):  # again changes nothing
            await tallies.run_once(shop.time.now())
            await keeper.run_once(shop.time.now())
        whole = {"succeeded": (5, 5), "dead": (2, 2), "cancelled": (1, 1)}
        assert await told(shop.plain, 60) == whole
        assert await told(shop.plain, 10, tenant=0) == whole
        await shop.time.advance(2 * MINUTE)
        await keeper.run_once(shop.time.now())
        assert await told(shop.plain, 3600) == await told(shop.plain, 3600, tenant=0) == whole

    play(url, story)


def test_a_rebuild_counts_the_same_from_history_alone(url: str) -> None:
    async def story(shop: Workshop) -> None:
        tallies = Tallies(TallyStore(shop.database, 7), shop.time.clock)
        await end(shop, tallies, succeeded=3, dead=1)
        await tallies.run_once(shop.time.now())
        at = shop.time.now()
        for _ in range(2):
            await TallyStore(shop.database).rebuild(at)
            for step, tenant in ((60, 1), (3600, 1), (10, 0), (3600, 0)):
                assert await told(shop.plain, step, tenant) == {"succeeded": (3, 3), "dead": (1, 1)}

    play(url, story)


def test_the_database_has_the_same_bounds(url: str) -> None:
    async def story(shop: Workshop) -> None:
        spans = [float(bound) for bound in (*BOUNDS_MS, BOUNDS_MS[-1] + 1)]
        row = await shop.plain.one("SELECT tally_bins($1::float8[]) AS bins", spans)
        assert row["bins"] == [1] * BINS

    play(url, story)


def test_tallies_are_swept_when_they_are_older_than_they_are_kept(url: str) -> None:
    async def story(shop: Workshop) -> None:
        now = shop.time.now()

        def one(step: int, age: int) -> Tally:
            bucket: Instant = (now - age) // step * step
            return Tally(1, step, bucket, "default", "succeeded", 1, [1], [1])

        kept = [one(10 * SECOND, 23 * HOUR), one(MINUTE, 47 * HOUR), one(HOUR, 29 * DAY)]
        gone = [one(10 * SECOND, 25 * HOUR), one(MINUTE, 49 * HOUR), one(HOUR, 31 * DAY)]
        await TallyStore(shop.database, 7).write([*kept, *gone])
        assert await ForgettingStore(shop.database, 30, 365).sweep("tallies", 0, now, None) == 3
        rows = await shop.plain.fetch("SELECT bucket FROM tallies")
        assert {row["bucket"] for row in rows} == {tally.bucket for tally in kept}

    play(url, story)
