"""What a node said of itself with its last heartbeat, out of the snapshot of its metrics."""

import msgspec


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a worker is; None where its version does not say it."""

    running: int | None = None
    held: int | None = None
    capacity: int | None = None
    saturation: float | None = None
    started_per_s: float | None = None
    clock_ms: float | None = None


def load_of(stats: str) -> NodeLoad:
    """The load in a snapshot."""
    said = {
        name: value for _, _, _, samples in msgspec.json.decode(stats) or () for name, _, value in samples
    }
    clock = said.get("tocsin_clock_uncertainty_seconds")
    return NodeLoad(
        running=_whole(said.get("tocsin_executions_running")),
        held=_whole(said.get("tocsin_executions_held")),
        capacity=_whole(said.get("tocsin_worker_places")),
        saturation=said.get("tocsin_worker_saturation"),
        started_per_s=said.get("tocsin_started_per_second"),
        clock_ms=None if clock is None else clock * 1000,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
