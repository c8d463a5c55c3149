"""Nodes and shards: the fleet as operators see it."""

import msgspec

from tocsin.api.wire.scalars import Time


class Shard(msgspec.Struct, frozen=True):
    """A shard and who leases it."""

    shard: int
    epoch: int
    owner: int | None
    node: str | None
    expires_at: Time | None


class NodeView(msgspec.Struct, frozen=True):
    """A process of the fleet."""

    id: int
    name: str
    roles: list[str]
    version: str
    schema: int | None
    alive: bool
    shards: int
    started_at: Time
    seen_at: Time
    queues: list[str]
    """The queues that it serves; empty: all."""
    running: int | None = None
    """Calls under way; null for a process that runs none."""
    held: int | None = None
    """Executions that it has claimed and that wait in its memory."""
    saturation: float | None = None
    """Which share of its concurrency is in use."""
    capacity: int | None = None
    """How many calls it can make at once."""
    started_per_s: float | None = None
    """Attempts that it started per second, lately."""
    clock_ms: float | None = None
    """How far its clock may be from the database's."""


class Shards(msgspec.Struct, frozen=True):
    """All shards."""

    items: list[Shard]


class Nodes(msgspec.Struct, frozen=True):
    """The fleet."""

    items: list[NodeView]
