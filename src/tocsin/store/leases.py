"""Nodes and their shard leases, on the database's clock.

A lease is (shard, owner, epoch, expires_at). Taking a shard raises its epoch, so everything its previous
owner might still write is recognisable as stale: each write proves owner, epoch and expiry in its own
transaction. See `scheduler.leaser` for how a node behaves around these facts.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from tocsin.db.migrations import newest_known
from tocsin.db.pool import Database, Record
from tocsin.db.statements import named
from tocsin.domain.errors import OwnershipLost
from tocsin.domain.fleet_changes import Fleet, Lease, Member
from tocsin.domain.instant import Instant, Span
from tocsin.store.statements import sql

# A node that has not been seen for this many ttls is no longer listed.
_REGISTER = named("tocsin.store", "register_node")
_FORGET_AFTER: Final = 30


class Renewal(msgspec.Struct, frozen=True):
    """What a heartbeat learned."""

    now: Instant
    schedulers: int
    workers: list[int]
    """The node ids of live workers, and of gateways that remote workers use."""
    shards: int
    free: int
    held: dict[int, int]
    """Shard to epoch."""
    soonest: Instant | None = None
    """When the first lease of another node runs out, unless that node renews it."""
    overtaken_by: str | None = None
    """A migration that was applied and that this build does not run beside."""


class Taken(dict[int, int]):
    """Shards that were taken, with their epochs."""

    unowned_for: Sequence[Span] = ()
    """For how long each shard had no owner, of those that their owner did not give back."""


class LeaseStore:
    """Presence and leases of one node."""

    def __init__(self, database: Database, ttl: float) -> None:
        self._database = database
        self._ttl = timedelta(seconds=ttl)
        self._newest = newest_known()

    async def now(self) -> Instant:
        """The database's time."""
        row = await self._database.one("SELECT tocsin_now() AS now")
        return int(row["now"])

    async def register(
        self,
        name: str,
        roles: Sequence[str],
        version: str,
        node_id: int | None = None,
        *,
        queues: Sequence[str] = (),
        routes: Sequence[str] = (),
    ) -> int:
        """Join the fleet, or rejoin it under the id held before. A worker names the routes it serves, and its
        queues if those are not all.

        An id is never used again by another node. The sequence alone would not see to that: a database that
        was restored from a backup gives its numbers once more, while nodes from before go on. So a part of
        each id is random, and the whole stays below 2**53, which is what readers of JSON can tell apart.
        """
        row = await self._database.one(
            *_REGISTER.given(
                node_id=node_id,
                name=name,
                roles=list(roles),
                version=version,
                ttl=self._ttl,
                newest=self._newest,
                queues=list(queues),
                routes=list(routes),
            )
        )
        return int(row["id"])

    async def note_routes(self, node_id: int, routes: Sequence[str]) -> None:
        """Which routes a node serves has changed."""
        await self._database.execute("UPDATE nodes SET routes = $2 WHERE id = $1", node_id, list(routes))

    async def serves(self, route: str) -> bool:
        """Whether a live worker serves a route."""
        row = await self._database.one(
            "SELECT EXISTS (SELECT FROM nodes WHERE expires_at > tocsin_now() AND $1 = ANY (routes)) AS served",
            route,
        )
        return bool(row["served"])

    async def renew(self, node_id: int, stats: str) -> Renewal:
        """Heartbeat: stay in the fleet, keep the leases that have not expired."""
        row = await self._database.one(sql("renew_leases"), node_id, self._ttl, stats, self._newest)
        if not row["known"]:
            raise OwnershipLost(f"node {node_id} was away so long that it was forgotten")
        held = dict(zip(row["held"], row["epochs"], strict=True))
        return Renewal(
            row["now"],
            row["schedulers"],
            row["workers"],
            row["shards"],
            row["free"],
            held,
            row["soonest"],
            row["overtaken_by"],
        )

    async def take(self, node_id: int, count: int) -> Taken:
        """Take up to `count` free shards."""
        rows = await self._database.fetch(sql("take_leases"), node_id, self._ttl, count)
        taken = Taken((row["shard"], row["epoch"]) for row in rows)
        taken.unowned_for = [row["unowned_us"] for row in rows if row["unowned_us"] is not None]
        return taken

    async def give(self, node_id: int, shards: Sequence[int]) -> None:
        """Give shards back and let the others know."""
        await self._database.fetchrow(sql("give_leases"), node_id, list(shards))

    async def leave(self, node_id: int) -> None:
        """Leave the fleet for good."""
        await self._database.execute("DELETE FROM nodes WHERE id = $1", node_id)

    async def forget_dead(self) -> int:
        """Remove nodes that vanished long ago."""
        rows = await self._database.fetch(
            "DELETE FROM nodes WHERE expires_at < tocsin_now() - $1::interval RETURNING id",
            self._ttl * _FORGET_AFTER,
        )
        return len(rows)

    async def nodes(self) -> list[Record]:
        """The fleet, with how many shards each node leases."""
        return await self._database.fetch(
            "SELECT n.*, n.expires_at > tocsin_now() AS alive,"
            " (SELECT count(*) FROM shards s WHERE s.owner = n.id AND s.expires_at > tocsin_now())::integer AS shards"
            " FROM nodes n ORDER BY n.id"
        )

    async def shards(self) -> list[Record]:
        """Every shard, who leases it, and for how long yet."""
        return await self._database.fetch(
            "SELECT s.shard, s.epoch, CASE WHEN s.expires_at > tocsin_now() THEN s.owner END AS owner, n.name AS node,"
            " CASE WHEN s.owner IS NOT NULL THEN s.expires_at END AS expires_at"
            " FROM shards s LEFT JOIN nodes n ON n.id = s.owner AND s.expires_at > tocsin_now() ORDER BY s.shard"
        )

    async def fleet(self) -> Fleet:
        """Nodes and shards at one moment, in one statement."""
        row = await self._database.one(sql("fleet"))
        nodes = zip(
            row["names"] or (),
            map(str.split, row["roles"] or ()),
            row["alive"] or (),
            row["seen"] or (),
            strict=True,
        )
        leases = zip(row["owners"], row["epochs"], strict=True)
        return Fleet(
            row["now"],
            {node_id: Member(*node) for node_id, node in zip(row["ids"] or (), nodes, strict=True)},
            {shard: Lease(*lease) for shard, lease in zip(row["shards"], leases, strict=True)},
        )
