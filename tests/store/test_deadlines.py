"""The soonest deadline is seen whatever was claimed before it, and however long its claim took to be
committed."""

from tests.simulation.workshop import CLAIM_TTL, Workshop, play
from tocsin.db.pool import open_connection
from tocsin.domain.instant import MINUTE, SECOND
from tocsin.roles.process import Process
from tocsin.settings import Settings


def test_the_soonest_deadline_is_seen_beside_later_ones_that_were_there_before(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker, guard = shop.worker(1), shop.worker(9)
        ttl, far = round(CLAIM_TTL * SECOND), shop.time.now() + 60 * MINUTE
        ahead = await shop.once(40 * SECOND)
        await shop.claim(worker, ahead=45 * SECOND)
        assert await guard.reclaiming.soonest_deadline(shop.time.now(), until=far) == ahead.fire_at + ttl
        await shop.time.advance(SECOND)
        due = await shop.once()
        await shop.claim(worker, ahead=45 * SECOND)
        assert await guard.reclaiming.soonest_deadline(shop.time.now(), until=far) == due.fire_at + ttl
        assert await guard.reclaiming.soonest_deadline(shop.time.now(), until=due.fire_at + ttl - 1) is None

    play(url, story)


def test_a_claim_that_took_longer_to_commit_than_its_time_to_live_is_found_overdue(url: str) -> None:
    """Its transaction is the latest of all, so that no snapshot names it; hence time goes by without a word
    to the database."""

    async def story(shop: Workshop) -> None:
        guard, ttl, far = shop.worker(9), round(CLAIM_TTL * SECOND), shop.time.now() + 60 * MINUTE
        slow = await Process(Settings(), ("worker",), url).open("engine", size=1)
        start = shop.time.now()
        for second in range(20):
            assert await guard.reclaiming.soonest_deadline(start + second * SECOND, until=far) is None
        await shop.once()
        begun = start + 20 * SECOND
        async with slow.transaction() as session:
            await session.execute(
                "UPDATE executions SET claim_token = 1, node_id = 1, deadline_at = $1", begun + ttl
            )
            for second in range(21, 60):
                assert await guard.reclaiming.soonest_deadline(start + second * SECOND, until=far) is None
        assert await guard.reclaiming.soonest_deadline(start + 60 * SECOND, until=far) == begun + ttl
        await slow.close()

    play(url, story)


def test_a_transaction_of_others_does_not_send_looks_for_deadlines_back(url: str) -> None:
    async def story(shop: Workshop) -> None:
        guard, now = shop.worker(9), shop.time.now()
        other = await open_connection(url, name="report")
        async with other.transaction():
            await other.execute("CREATE TABLE elsewhere ()")
            for second in range(3):
                await guard.reclaiming.soonest_deadline(now + second * SECOND, until=now)
        assert guard.reclaiming._deadlines.known == now + 2 * SECOND
        await other.close()

    play(url, story)
