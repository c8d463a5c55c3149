"""Low marks: a claim does not walk what is dead, and nothing that is ready lies below the place where it
begins to look."""

from datetime import timedelta

import msgspec

from tests.simulation.workshop import CLAIM_TTL, Workshop, play
from tests.support.queues import WholeQueue, queue_statement
from tocsin.domain.instant import MINUTE, SECOND
from tocsin.domain.lifecycle import State
from tocsin.queue.claiming.directory import lane_columns
from tocsin.queue.claims import Claim, Requeue
from tocsin.queue.lanes import Lane


def test_low_marks_do_not_hide_what_enters_the_queue_in_any_way(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)

        async def taken() -> Claim:
            await shop.time.advance(300_000)
            [claim] = await shop.claim(worker)
            return claim

        await shop.once()
        claim = await taken()
        for _ in range(3):
            await shop.time.advance(20 * SECOND)
            await shop.once()
            extra = await taken()  # the mark goes up with it
            assert await worker.settling.retry([shop.again(extra, 0)]) == []
            await worker.settling.finish([shop.finish(await taken())])
        await shop.time.advance(round(CLAIM_TTL * SECOND) + 1)
        elsewhere = shop.worker(9)
        assert await elsewhere.reclaiming.reclaim(
            9, lambda overdue: Requeue(overdue, shop.time.now(), None)
        ) == (1, 0)
        again = await taken()
        assert again.key == claim.key
        await worker.settling.finish([shop.finish(again, State.DEAD)])
        await shop.executions.retry(1, again.key)
        assert (await taken()).key == again.key

    play(url, story)


def test_a_row_whose_claim_was_rolled_back_is_found_again(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        worker = shop.worker(1)
        async with shop.plain.transaction() as session:
            await session.fetchrow("SELECT 1 FROM executions FOR UPDATE")
            later = await shop.once(1)
            await shop.time.advance(1)
            [claim] = await shop.claim(worker)
            assert claim.key == later
            await shop.time.advance(10 * SECOND)
            await worker.settling.finish([shop.finish(claim)])
        assert [claim.key for claim in await shop.claim(worker)] == [key]

    play(url, story)


def test_a_row_whose_claim_was_rolled_back_is_found_again_beside_a_backlog(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        keys = [await shop.once(number - 300 * SECOND) for number in range(200)]
        hidden, order = keys[80], []

        async def turn() -> None:
            if len(order) % 30 == 0:
                await worker.looking.look_below(shop.time.now())
            [claim] = await shop.claim(worker, take=1)
            order.append(claim.key)
            await worker.settling.finish([shop.finish(claim)])
            await shop.time.advance(SECOND)

        async with shop.plain.transaction() as session:
            await session.fetchrow("SELECT 1 FROM executions WHERE job_id = $1 FOR UPDATE", hidden.job_id)
            for _ in range(100):
                await turn()
        assert hidden not in order
        for _ in range(35):
            await turn()
        assert hidden in order

    play(url, story)


def test_a_row_that_was_committed_late_is_found_in_a_lane_that_is_never_empty(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.once(60 * MINUTE)
        for second in range(100):
            assert await shop.claim(worker) == []
            if second % 30 == 0:
                assert await worker.looking.look_below(shop.time.now()) == 0
            await shop.time.advance(SECOND)
        late = await shop.once(-25 * SECOND)  # as if its transaction had begun then
        assert await shop.claim(worker) == []
        assert await worker.looking.look_below(shop.time.now()) == 1
        assert [claim.key for claim in await shop.claim(worker)] == [late]

    play(url, story)


def test_what_entered_while_its_tenant_was_suspended_is_claimed_when_it_is_resumed(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.once(24 * 60 * MINUTE)

        async def look_on(seconds: int) -> None:
            for _ in range(seconds):
                assert await shop.claim(worker) == []
                await shop.time.advance(SECOND)

        await look_on(70)
        await shop.plain.execute("UPDATE tenants SET state = 'suspended'")
        entered = await shop.once()
        await look_on(300)
        await shop.plain.execute("UPDATE tenants SET state = 'active'")
        assert [claim.key for claim in await shop.claim(worker)] == [entered]

    play(url, story)


def test_a_transaction_held_open_does_not_make_claims_walk_what_is_dead(url: str) -> None:
    """Vacuum cannot remove what somebody may still see; the mark keeps the claim away from it."""
    rounds, batch = 40, 250

    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.once()
        async with shop.plain.transaction() as session:
            await session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await session.fetchrow(
                "SELECT count(*) FROM executions"
            )  # takes the snapshot that holds vacuum back
            pages: list[int] = []
            for _ in range(rounds):
                await shop.many(batch)
                await shop.time.advance(300_000)
                claims = await shop.claim(worker)
                pages.append(await pages_of_a_claim(shop, worker))
                await worker.settling.succeed(claims, shop.time.now())
        without_low_mark = await pages_of_a_claim(shop, shop.worker(2))
        assert max(pages[5:]) < 100
        assert without_low_mark > 2 * max(pages[5:]), (
            "nothing dead was there to be walked: the test proves nothing"
        )

    play(url, story)


async def pages_of_a_claim(shop: Workshop, worker: WholeQueue) -> int:
    """How many pages a claim touches that enters at the worker's mark and finds nothing to take."""
    now = shop.time.now()
    lane = Lane("default", 5, 1, "noop")
    statement = queue_statement("claim").given(
        cell=0, **lane_columns([lane]), takes=[100], low_marks=[worker.looking.low_marks.of(lane, now)], untils=[now],
        token=1, node_id=1, worker_id=None, ttl=timedelta(seconds=CLAIM_TTL), offer=None, slots_epoch=None,
        late_for=None, late_tenants=[], late_reasons=[],
    )  # fmt: skip
    async with shop.database.connection() as connection:
        rows = await connection.fetch(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement[0], *statement[1:]
        )
    [top] = msgspec.json.decode(rows[0][0])
    return int(top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"])
