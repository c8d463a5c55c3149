"""What changed in the fleet between two looks: shards that passed from node to node, nodes that came, left or
fell silent."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from tocsin.domain.instant import Instant


class Lease(msgspec.Struct, frozen=True):
    """Who leased a shard last, whether the lease still counts or not. None: it was given back."""

    owner: int | None
    epoch: int


class Member(msgspec.Struct, frozen=True):
    """A node as the others see it."""

    name: str
    roles: list[str]
    alive: bool
    seen_at: Instant


class Fleet(msgspec.Struct, frozen=True):
    """A look at the fleet."""

    at: Instant
    nodes: dict[int, Member]
    shards: dict[int, Lease]


class Moved(msgspec.Struct, frozen=True):
    """A shard has another owner, or the same one under a new epoch, or none."""

    shard: int
    before: int | None
    after: int | None
    epoch: int


class NodeChange(msgspec.Struct, frozen=True):
    """What became of a node. One that is `gone` did not leave: it was not heard of for a lease's time."""

    id: int
    what: Literal["joined", "left", "gone", "back"]
    node: Member


def moved(before: Mapping[int, Lease], after: Mapping[int, Lease]) -> list[Moved]:
    """Shards whose lease is another one, in order."""
    return [
        Moved(shard, before[shard].owner, lease.owner, lease.epoch)
        for shard, lease in sorted(after.items())
        if shard in before and before[shard] != lease
    ]


def node_changes(before: Mapping[int, Member], after: Mapping[int, Member]) -> Iterator[NodeChange]:
    """Who left, then who fell silent or is back, then who joined. A silent node that is forgotten at last is
    no news."""
    for node_id in sorted(before.keys() - after.keys()):
        if before[node_id].alive:
            yield NodeChange(node_id, "left", before[node_id])
    for node_id in sorted(before.keys() & after.keys()):
        node = after[node_id]
        if before[node_id].alive != node.alive:
            yield NodeChange(node_id, "back" if node.alive else "gone", node)
    for node_id in sorted(after.keys() - before.keys()):
        yield NodeChange(node_id, "joined", after[node_id])
