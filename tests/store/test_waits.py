"""An execution keeps what held it back, and for how long: through every statement that puts it back or ends
it."""

from typing import Any

import msgspec

from tests.simulation.workshop import CLAIM_TTL, Workshop, play
from tests.support.queues import WholeQueue
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit, Policies
from tocsin.domain.waits import Reason, Wait
from tocsin.queue.allotment import NO_DEFICITS, allot
from tocsin.queue.claims import Claim, LateReasons, Requeue


async def claim_late(shop: Workshop, worker: WholeQueue, reasons: LateReasons, ahead: int = 0) -> list[Claim]:
    now = shop.time.now()
    views = [view for view in await worker.looking.look(now) if view.next_run_at <= now + ahead]
    return await worker.claiming.claim(
        allot(NO_DEFICITS, views, 100)[0], now + ahead, 4711, now, late_for=reasons
    )


def kept(row: Any) -> tuple[list[Wait], str | None]:
    return msgspec.json.decode(row["waits"] or "[]", type=list[Wait]), row["late_for"]


async def in_history(shop: Workshop, key: ExecutionKey) -> tuple[list[Wait], str | None]:
    [row] = await shop.past(key)
    return kept(row)


def test_what_is_claimed_a_second_late_keeps_why_and_what_is_on_time_keeps_nothing(url: str) -> None:
    async def story(shop: Workshop) -> None:
        late = await shop.once()
        await shop.time.advance(3 * SECOND)
        punctual = await shop.once()
        worker = shop.worker(1)
        claims = await claim_late(shop, worker, LateReasons("place"))
        assert await worker.settling.succeed(claims, shop.time.now()) == []
        assert await in_history(shop, late) == ([], "place")
        assert await in_history(shop, punctual) == ([], None)

    play(url, story)


def test_a_tenant_at_its_limit_has_its_own_reason(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await shop.time.advance(3 * SECOND)
        worker = shop.worker(1)
        [claim] = await claim_late(shop, worker, LateReasons("place", (7, 1), ("outage", "tenant_limit")))
        await worker.settling.finish([shop.finish(claim)])
        assert await in_history(shop, key) == ([], "tenant_limit")

    play(url, story)


def test_what_was_held_in_memory_and_starts_late_keeps_why(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once(SECOND)
        worker = shop.worker(1)
        [claim] = await claim_late(shop, worker, LateReasons(), ahead=2 * SECOND)
        await shop.time.advance(5 * SECOND)
        claim.late_for = "place"
        assert await worker.starting.start([claim]) == [claim]
        await worker.settling.succeed([claim], shop.time.now())
        assert await in_history(shop, key) == ([], "place")

    play(url, story)


def test_a_wait_for_a_slot_is_one_wait_however_often_it_is_refused(url: str) -> None:
    async def story(shop: Workshop) -> None:
        limited = Policies(limit=Limit("db", max_parallel=1))
        first, second = await shop.once(policies=limited), await shop.once(policies=limited)
        due, worker = shop.time.now(), shop.worker(1)
        await shop.leases.register("worker", ["worker"], "0", 1)
        claims = await claim_late(shop, worker, LateReasons())
        [running] = await worker.starting.start_gated(claims, shop.time.now())
        await shop.time.advance(31 * SECOND)
        [again] = await claim_late(shop, worker, LateReasons())
        assert await worker.starting.start_gated([again], shop.time.now()) == []
        await shop.time.advance(9 * SECOND)
        await worker.settling.succeed([running], shop.time.now())
        await worker.slots.give_back_all()
        [last] = await claim_late(shop, worker, LateReasons())
        assert await worker.starting.start_gated([last], shop.time.now()) == [last]
        await worker.settling.succeed([last], shop.time.now())
        assert {running.key, last.key} == {first, second}
        assert await in_history(shop, running.key) == ([], None)
        assert await in_history(shop, last.key) == ([Wait("slot", due)], None)

    play(url, story)


def test_a_wait_for_a_host_follows_what_came_before_and_a_retry_closes_them(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, due, worker = await shop.once(), shop.time.now(), shop.worker(1)
        await shop.time.advance(3 * SECOND)
        [claim] = await claim_late(shop, worker, LateReasons("place"))
        again = shop.again(claim, 5 * SECOND)
        assert (
            await worker.settling.postpone(
                [msgspec.structs.replace(again, record=None, waits_for=Reason.HOST_REST)]
            )
            == []
        )
        place = Wait("place", due, due + 3 * SECOND)
        row = await shop.live(key)
        assert (row["waits_for"], kept(row)) == ("host", ([place, Wait("host:rest", due + 3 * SECOND)], None))
        await shop.time.advance(7 * SECOND)
        [claim] = await claim_late(shop, worker, LateReasons("outage"))
        assert await worker.settling.retry([shop.again(claim)]) == []
        host = Wait("host:rest", due + 3 * SECOND, due + 8 * SECOND)
        outage = Wait("outage", due + 8 * SECOND, due + 10 * SECOND)
        assert kept(await shop.live(key)) == ([place, host, outage], None)

    play(url, story)


def test_a_claim_whose_worker_vanished_before_the_start_says_so(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, worker = await shop.once(SECOND), shop.worker(1)
        due = shop.time.now() + SECOND
        await claim_late(shop, worker, LateReasons(), ahead=2 * SECOND)
        await shop.time.advance(round((2 + CLAIM_TTL) * SECOND))
        now = shop.time.now()
        assert await shop.worker(9).reclaiming.reclaim(10, lambda overdue: Requeue(overdue, now, None)) == (
            1,
            0,
        )
        assert kept(await shop.live(key)) == ([Wait("worker", due)], None)

    play(url, story)


def test_a_cancelled_execution_keeps_its_waits(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, due, worker = await shop.once(), shop.time.now(), shop.worker(1)
        [claim] = await claim_late(shop, worker, LateReasons())
        await worker.settling.postpone(
            [msgspec.structs.replace(shop.again(claim, 5 * SECOND), record=None, waits_for=Reason.HOST_REST)]
        )
        await shop.executions.cancel(1, key, "not needed")
        assert await in_history(shop, key) == ([Wait("host:rest", due)], None)

    play(url, story)


def test_at_most_twenty_waits_are_kept(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, worker = await shop.once(), shop.worker(1)
        for _ in range(15):
            await shop.time.advance(3 * SECOND)
            [claim] = await claim_late(shop, worker, LateReasons("place"))
            again = shop.again(claim, SECOND)
            await worker.settling.postpone(
                [msgspec.structs.replace(again, record=None, waits_for=Reason.HOST_REST)]
            )
        waits, _ = kept(await shop.live(key))
        assert 20 <= len(waits) <= 21

    play(url, story)


def test_a_wait_for_the_host_between_start_and_call_is_kept(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, due, worker = await shop.once(), shop.time.now(), shop.worker(1)
        await shop.time.advance(2 * SECOND)
        [claim] = await claim_late(shop, worker, LateReasons("place"))
        await shop.time.advance(4 * SECOND)
        claim.fired_at = shop.time.now()
        await worker.settling.finish([shop.finish(claim)])
        waits = [Wait("place", due, due + 2 * SECOND), Wait("host", due + 2 * SECOND, due + 6 * SECOND)]
        assert await in_history(shop, key) == (waits, None)

    play(url, story)
