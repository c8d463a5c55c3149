"""Leases on shards, fact by fact: one owner by the database's clock, epochs that only grow, trust that ends
early."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.workshop import LEASE_TTL, SHARDS, Workshop, play
from tocsin.clock import DatabaseClock
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.instant import SECOND, Instant
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leaser, Leases
from tocsin.store.leases import LeaseStore
from tocsin.telemetry import Telemetry

TTL = round(LEASE_TTL * SECOND)
ROLES = ("scheduler", "worker")


async def join(shop: Workshop, name: str = "node") -> int:
    return await shop.leases.register(name, ROLES, "test")


async def owners(shop: Workshop) -> dict[int, int | None]:
    return {row["shard"]: row["owner"] for row in await shop.leases.shards()}


def test_a_free_shard_is_taken_with_a_new_epoch_and_nobody_else_gets_it(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one, other = await join(shop), await join(shop)
        taken = await shop.leases.take(one, SHARDS)
        assert taken == dict.fromkeys(range(SHARDS), 1)
        assert await shop.leases.take(other, SHARDS) == {}

    play(url, story)


def test_nodes_that_take_at_once_share_the_shards_out(url: str) -> None:
    async def story(shop: Workshop) -> None:
        nodes = [await join(shop) for _ in range(4)]
        taken = await asyncio.gather(*(shop.leases.take(node, 30) for node in nodes))
        held = [shard for shards in taken for shard in shards]
        assert len(held) == len(set(held)) <= SHARDS

    play(url, story)


def test_a_lease_lasts_its_ttl_by_the_databases_clock_and_not_a_microsecond_longer(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one, other = await join(shop), await join(shop)
        await shop.leases.take(one, SHARDS)
        await shop.time.advance(TTL - 1)
        assert await shop.leases.take(other, SHARDS) == {}
        await shop.time.advance(1)
        assert await shop.leases.take(other, SHARDS) == dict.fromkeys(range(SHARDS), 2)

    play(url, story)


def test_a_renewal_keeps_what_has_not_expired_with_its_epoch(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one, other = await join(shop), await join(shop)
        taken = await shop.leases.take(one, 10)
        for _ in range(5):
            await shop.time.advance(TTL - 1)
            renewal = await shop.leases.renew(one, "{}")
            assert renewal.held == taken
        assert set(await shop.leases.take(other, SHARDS)).isdisjoint(taken)

    play(url, story)


def test_a_lease_that_has_expired_is_not_renewed_even_if_nobody_took_it(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one = await join(shop)
        await shop.leases.take(one, 10)
        await shop.time.advance(TTL)
        renewal = await shop.leases.renew(one, "{}")
        assert (renewal.held, renewal.free) == ({}, SHARDS)
        assert set((await shop.leases.take(one, SHARDS)).values()) == {1, 2}

    play(url, story)


def test_every_change_of_hands_raises_the_epoch(url: str) -> None:
    async def story(shop: Workshop) -> None:
        nodes = [await join(shop) for _ in range(3)]
        epochs: list[int] = []
        for turn in range(9):
            node = nodes[turn % 3]
            taken = await shop.leases.take(node, SHARDS)
            epochs.append(taken[5])
            if turn % 2:
                await shop.leases.give(node, list(taken))
            else:
                await shop.time.advance(TTL)
        assert epochs == list(range(1, 10))

    play(url, story)


def test_a_shard_given_back_is_free_at_once(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one, other = await join(shop), await join(shop)
        await shop.leases.take(one, SHARDS)
        await shop.leases.give(one, [3, 4])
        assert await shop.leases.take(other, SHARDS) == {3: 2, 4: 2}

    play(url, story)


def test_nobody_gives_back_what_is_anothers(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one, other = await join(shop), await join(shop)
        await shop.leases.take(one, SHARDS)
        await shop.leases.give(other, list(range(SHARDS)))
        assert set((await owners(shop)).values()) == {one}

    play(url, story)


def test_a_takeover_waits_for_the_transaction_that_writes_under_the_lease(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one, other = await join(shop), await join(shop)
        await shop.leases.take(one, 1)
        [shard] = [shard for shard, owner in (await owners(shop)).items() if owner == one]
        async with shop.database.transaction() as session:
            own = "SELECT 1 FROM shards WHERE shard = $1 AND expires_at > tocsin_now() FOR SHARE"
            assert await session.fetchrow(own, shard) is not None
            await shop.time.advance(TTL)
            assert shard not in await shop.leases.take(other, SHARDS)
        assert shard in await shop.leases.take(other, SHARDS)

    play(url, story)


def test_a_node_that_was_forgotten_is_told_and_comes_back_under_its_own_id(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one = await join(shop)
        await shop.time.advance(32 * TTL)
        assert await shop.leases.forget_dead() == 1
        with pytest.raises(OwnershipLost):
            await shop.leases.renew(one, "{}")
        assert await shop.leases.register("node", ROLES, "test", one) == one
        assert (await shop.leases.renew(one, "{}")).schedulers == 1
        assert await join(shop) != one

    play(url, story)


def test_the_size_of_the_fleet_is_what_was_seen_within_the_ttl(url: str) -> None:
    async def story(shop: Workshop) -> None:
        one, other = await join(shop), await join(shop)
        assert (await shop.leases.renew(one, "{}")).schedulers == 2
        await shop.time.advance(TTL)
        assert (await shop.leases.renew(one, "{}")).schedulers == 1
        await shop.leases.renew(other, "{}")
        assert (await shop.leases.renew(one, "{}")).schedulers == 2
        await shop.leases.leave(other)
        assert (await shop.leases.renew(one, "{}")).schedulers == 1

    play(url, story)


class SlowStore(LeaseStore):
    """A store whose answers take their time."""

    delay = 0

    def __init__(self, shop: Workshop) -> None:
        super().__init__(shop.plain, LEASE_TTL)
        self._shop = shop

    async def renew(self, node_id: int, stats: str):
        renewal = await super().renew(node_id, stats)
        await self._shop.time.advance(self.delay)
        return renewal


async def leaser(shop: Workshop, store: LeaseStore | None = None) -> tuple[Leaser, Leases]:
    store = store or shop.leases
    node_id = await join(shop)
    leases = Leases(shop.time.clock, LEASE_TTL)
    part = Leaser(
        store,
        shop.time.clock,
        leases,
        node_id=node_id,
        ttl=LEASE_TTL,
        plans=True,
        telemetry=Telemetry(),
        failpoints=Failpoints(),
        rejoin=lambda: store.register("node", ROLES, "test", node_id),
    )
    return part, leases


def test_a_node_stops_trusting_its_leases_before_anybody_else_may_take_them(url: str) -> None:
    async def story(shop: Workshop) -> None:
        part, leases = await leaser(shop)
        other = await join(shop, "other")
        await part.run_once(shop.time.now())
        trusted = len(leases.trusted())
        assert trusted > 0
        for _ in range(100):
            await shop.time.advance(TTL // 100)
            taken = await shop.leases.take(other, SHARDS)
            assert not set(taken) & set(leases.trusted())
            await shop.leases.give(other, list(taken))
        assert leases.trusted() == {}

    play(url, story)


def test_trust_counts_from_when_the_renewal_was_sent_not_from_when_it_was_answered(url: str) -> None:
    async def story(shop: Workshop) -> None:
        store = SlowStore(shop)
        part, leases = await leaser(shop, store)
        await part.run_once(shop.time.now())
        assert leases.trusted()
        store.delay = TTL
        await part.run_once(shop.time.now())
        assert leases.trusted() == {}

    play(url, story)


def test_a_clock_does_not_depend_on_renewals_which_wait_for_the_disk(url: str) -> None:
    class Watched(DatabaseClock):
        exchanges = 0

        async def ask(self, database_now: Callable[[], Awaitable[Instant]]) -> None:
            self.exchanges += 1
            await super().ask(database_now)

    async def story(shop: Workshop) -> None:
        part, _ = await leaser(shop)
        part._clock = clock = Watched()
        for _ in range(9):
            await part.run_once(shop.time.now())
        assert clock.exchanges == 3

    play(url, story)


def test_a_node_that_cannot_reach_the_database_trusts_nothing_in_time(url: str) -> None:
    class Gone(LeaseStore):
        async def renew(self, node_id: int, stats: str):
            raise Unavailable("the database did not answer")

    async def story(shop: Workshop) -> None:
        part, leases = await leaser(shop)
        await part.run_once(shop.time.now())
        part._store = Gone(shop.plain, LEASE_TTL)
        while leases.trusted():
            with pytest.raises(Unavailable):
                await part.run_once(shop.time.now())
            await shop.time.advance(SECOND)
        assert await shop.count("shards WHERE owner IS NOT NULL AND expires_at > tocsin_now()") > 0

    play(url, story)


def test_a_fleet_shares_evenly_within_two_heartbeats_of_a_change(url: str) -> None:
    async def story(shop: Workshop) -> None:
        parts = [await leaser(shop) for _ in range(3)]
        third = -(-SHARDS // 3)

        async def heartbeat() -> list[int]:
            for part, _ in parts:
                await part.run_once(shop.time.now())
            await shop.time.advance(TTL // 3)
            return [len(leases.trusted()) for _, leases in parts]

        await heartbeat()
        assert sorted(await heartbeat()) == [SHARDS - 2 * third, third, third]
        parts.append(await leaser(shop))
        await heartbeat()
        assert await heartbeat() == [SHARDS // 4] * 4
        leaving, _ = parts.pop(0)
        await leaving.leave()
        assert sorted(await heartbeat()) == [SHARDS - 2 * third, third, third]
        held = [shard for _, leases in parts for shard in leases.trusted()]
        assert sorted(held) == list(range(SHARDS))

    play(url, story)


def test_a_node_that_dies_is_replaced_within_its_ttl_and_a_heartbeat(url: str) -> None:
    async def story(shop: Workshop) -> None:
        (dead, _), (alive, leases) = await leaser(shop), await leaser(shop)
        for part in (dead, alive, dead, alive):
            await part.run_once(shop.time.now())
        died = shop.time.now()
        while len(leases.trusted()) < SHARDS:
            await shop.time.advance(TTL // 3)
            await alive.run_once(shop.time.now())
        assert shop.time.now() - died <= TTL + TTL // 3

    play(url, story)


def test_leases_that_others_took_are_counted_as_lost_and_those_given_back_are_not(url: str) -> None:
    async def story(shop: Workshop) -> None:
        part, leases = await leaser(shop)
        await part.run_once(shop.time.now())
        held = len(leases.trusted())
        assert held == SHARDS
        await shop.time.advance(TTL)  # it stood still, and trusts nothing any more
        other = await join(shop, "other")
        assert len(await shop.leases.take(other, 5)) == 5
        await part.run_once(shop.time.now())
        lost = part._telemetry.registry.get_sample_value("tocsin_leases_lost_total")
        assert lost == SHARDS, "all of them had run out"
        await part.run_once(shop.time.now())
        assert part._telemetry.registry.get_sample_value("tocsin_leases_lost_total") == lost

    play(url, story)


def test_leases_of_a_node_that_was_forgotten_are_counted_as_lost(url: str) -> None:
    async def story(shop: Workshop) -> None:
        part, _ = await leaser(shop)
        await part.run_once(shop.time.now())
        await shop.leases.leave(part.node_id)
        with pytest.raises(OwnershipLost):
            await part.run_once(shop.time.now())
        assert part._telemetry.registry.get_sample_value("tocsin_leases_lost_total") == SHARDS

    play(url, story)
