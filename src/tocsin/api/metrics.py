"""``/metrics``: what every live node counted, and the fleet's own numbers.

Nodes send what they count with their heartbeats (`telemetry`). What no node knows by itself is asked of the
database here: how deep queues are, which fires are not planned, which shards have no owner. That costs a few
bounded statements however much waits, and is shared by all who scrape within a second, or longer if it took
long.

Queues and tenants are names that users choose, so only the deepest are named; the rest is `other`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from tocsin.api.context import Context
from tocsin.api.request import Handle, Request
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.keys import Scope
from tocsin.histograms import OTHER
from tocsin.telemetry import merge

_MOST_TENANTS: Final = 10
_MOST_QUEUES: Final = 50


class Depth(msgspec.Struct, frozen=True):
    """What is due in one queue of one tenant."""

    tenant: int
    queue: str
    due: int
    oldest: Instant | None


class Numbers(msgspec.Struct, frozen=True):
    """The fleet at one moment."""

    now: Instant
    depths: Sequence[Depth]
    tenants: Mapping[int, str]
    """Names of the deepest tenants."""
    nodes: Mapping[tuple[str, str], int]
    """Live nodes by role and version."""
    shards: int
    unowned: int
    first_unplanned: Instant | None
    dead_letters: int
    executions_live: int
    queues_paused: int
    connections: int
    max_connections: int
    oldest_s: float


def serve(context: Context) -> Handle:
    """The handler."""

    async def metrics(request: Request) -> Response:
        await context.authenticator.authenticate(request.headers.get("authorization"), Scope.ADMIN)
        nodes = [row for row in await context.leases.nodes() if row["alive"]]
        numbers = await context.fresh.shared("metrics", context.clock, lambda: _look(context, nodes))
        registry = CollectorRegistry()
        registry.register(
            _Shown([*merge([(row["name"], row["stats"]) for row in nodes]), *families(numbers)])
        )
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    return metrics


async def _look(context: Context, nodes: Sequence[Any]) -> Numbers:
    now = context.clock.now()
    rows = await context.all_queues.depths(None, None, now)
    depths = [Depth(row["tenant_id"], row["queue"], row["due"], row["oldest"]) for row in rows]
    found = await context.system.numbers()
    return Numbers(
        now,
        depths,
        await context.system.names_of(_deepest(depths)),
        Counter((role, node["version"]) for node in nodes for role in node["roles"]),
        found["shards"],
        found["unowned"],
        found["first_unplanned"],
        found["dead_letters"],
        found["executions_live"],
        found["queues_paused"],
        found["connections"],
        found["max_connections"],
        found["oldest_s"] or 0.0,
    )


def families(numbers: Numbers) -> Iterator[Metric]:
    """The fleet's numbers as Prometheus wants them."""
    due, oldest = _by_queue(numbers.depths, numbers.now)
    yield _labelled(
        "due", "Executions that are due and wait, by queue; of a deep lane at least so many", "queue", due
    )
    yield _labelled("oldest_due_seconds", "For how long the longest has been due, by queue", "queue", oldest)
    yield _labelled(
        "tenant_due", "Executions that are due and wait, of the tenants with the most", "tenant",
        _by_tenant(numbers.depths, numbers.tenants),
    )  # fmt: skip
    behind = 0 if numbers.first_unplanned is None else max(0, numbers.now - numbers.first_unplanned)
    yield _gauge(
        "planning_behind_seconds", "How long ago the earliest fire was expected that nobody has planned",
        behind / SECOND,
    )  # fmt: skip
    yield _gauge(
        "executions_live", "Executions that are not over, as the database estimates", numbers.executions_live
    )
    yield _gauge(
        "dead_letters", "Dead letters that nobody retried or discarded, 10000 at most", numbers.dead_letters
    )
    yield _gauge("queues_paused", "Queues that are paused", numbers.queues_paused)
    yield _gauge("shards", "Shards of the installation", numbers.shards)
    yield _gauge("shards_unowned", "Shards that no node leases: nobody plans their jobs", numbers.unowned)
    nodes = GaugeMetricFamily("tocsin_nodes", "Live nodes, by role and version", labels=["role", "version"])
    for labels, number in sorted(numbers.nodes.items()):
        nodes.add_metric(labels, number)
    yield nodes
    yield _gauge("database_connections", "Connections to the database, of whomever", numbers.connections)
    yield _gauge("database_connections_max", "Connections that the database allows", numbers.max_connections)
    yield _gauge(
        "database_oldest_transaction_seconds", "For how long the oldest transaction is open", numbers.oldest_s
    )


def _by_queue(depths: Iterable[Depth], now: Instant) -> tuple[dict[str, float], dict[str, float]]:
    due: Counter[str] = Counter()
    oldest: defaultdict[str, float] = defaultdict(float)
    for depth in depths:
        due[depth.queue] += depth.due
    named = {queue for queue, _ in due.most_common(_MOST_QUEUES)}
    shown: defaultdict[str, float] = defaultdict(float)
    for depth in depths:
        queue = depth.queue if depth.queue in named else OTHER
        shown[queue] += depth.due
        waited = 0 if depth.oldest is None else max(0, now - depth.oldest)
        oldest[queue] = max(oldest[queue], waited / SECOND)
    return shown, oldest


def _by_tenant(depths: Iterable[Depth], names: Mapping[int, str]) -> dict[str, float]:
    shown: defaultdict[str, float] = defaultdict(float)
    for depth in depths:
        shown[names.get(depth.tenant, OTHER)] += depth.due
    return shown


def _deepest(depths: Iterable[Depth]) -> list[int]:
    due: Counter[int] = Counter()
    for depth in depths:
        due[depth.tenant] += depth.due
    return [tenant for tenant, _ in due.most_common(_MOST_TENANTS)]


def _labelled(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"tocsin_{name}", words, labels=[label])
    for value, number in sorted(values.items()):
        family.add_metric([value], number)
    return family


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tocsin_{name}", words, value)


class _Shown(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        return self._found
