"""``/v1/shards`` and ``/v1/nodes``."""

from typing import Any

import msgspec

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.loads import load_of
from tocsin.api.wire import fleet as wire
from tocsin.api.wire.scalars import time_of
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import Scope


async def shards(call: ApiCall) -> wire.Shards:
    """Who leases what."""
    return wire.Shards(
        [
            wire.Shard(row["shard"], row["epoch"], row["owner"], row["node"], time_of(row["expires_at"]))
            for row in await call.context.leases.shards()
        ]
    )


async def nodes(call: ApiCall) -> wire.Nodes:
    """Every process that was seen lately."""
    return wire.Nodes(
        [
            wire.NodeView(
                row["id"],
                row["name"],
                list(row["roles"]),
                row["version"],
                row["schema"],
                row["alive"],
                row["shards"],
                format_instant(row["started_at"]),
                format_instant(row["seen_at"]),
                list(row["queues"]),
                **_load(row),
            )
            for row in await call.context.leases.nodes()
        ]
    )


def _load(row: Any) -> dict[str, Any]:
    """What a worker said of itself with its last heartbeat."""
    if "worker" not in row["roles"] or not row["alive"]:
        return {}
    return msgspec.structs.asdict(load_of(row["stats"]))


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/shards", handler=shards, summary="Shards and who leases them", answer=wire.Shards,
        scope=Scope.ADMIN,
    ),
    Endpoint(
        method="GET", path="/v1/nodes", handler=nodes, summary="The processes of the fleet", answer=wire.Nodes,
        scope=Scope.ADMIN,
    ),
)  # fmt: skip
