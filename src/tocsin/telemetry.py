"""What a node counts, and how the fleet shows it.

Each process counts in its own registry. Nodes without an HTTP port send a snapshot with every heartbeat into
their row of `nodes`; the API merges those into `/metrics` under a `node` label, so one scrape of any API
process sees the whole fleet. Names are listed in docs/operating/metrics.md.
"""

import logging
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.core import Metric
from structlog.tracebacks import ExceptionDictTransformer

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span
from tocsin.domain.lifecycle import FINAL
from tocsin.domain.tally import BOUNDS_MS
from tocsin.histograms import SpanHistogram
from tocsin.outage_log import OutageLines, take_over_driver_log
from tocsin.tracing import Tracing

_LAG_BOUNDS: Final[tuple[Span, ...]] = tuple(
    round(ms * MILLISECOND)
    for ms in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000)
)


_RUN_BOUNDS: Final[tuple[Span, ...]] = tuple(ms * MILLISECOND for ms in BOUNDS_MS)
_CALL_BOUNDS: Final[tuple[Span, ...]] = _LAG_BOUNDS[: _LAG_BOUNDS.index(30_000 * MILLISECOND) + 1]
_TAKEOVER_BOUNDS: Final[tuple[Span, ...]] = tuple(
    s * SECOND // 10 for s in (1, 2, 5, 10, 30, 100, 300, 600, 3000)
)


class Telemetry:
    """The counters of one process."""

    def __init__(
        self, roles: Sequence[str] = ("scheduler", "worker"), tracing: Tracing | None = None
    ) -> None:
        """`tracing`: where spans go, if anywhere."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._roles = roles
        self.tracing = tracing
        self.registry = CollectorRegistry()
        self.lag = self._histogram("start_lag_seconds", "From due to started", _LAG_BOUNDS, "queue")
        self.run = self._histogram(
            "run_seconds", "From the start of an attempt to its end", _RUN_BOUNDS, "queue"
        )
        self.takeovers = self._histogram(
            "takeover_seconds",
            "For how long a shard was nobody's: from the end of a lost node's lease until it was taken",
            _TAKEOVER_BOUNDS,
        )
        self.database = self._histogram(
            "database_call_seconds", "From asking for a connection until it was given back", _CALL_BOUNDS
        )
        self.planned = self._counter("planned", "Executions made from schedules")
        self.duplicates_rejected = self._counter(
            "duplicates_rejected", "Planned executions that existed already"
        )
        self.claimed = self._counter("claimed", "Executions claimed")
        self.started = self._counter("started", "Attempts started")
        self.not_started = self._counter(
            "not_started", "Claims that were cancelled or lost before their start"
        )
        self.finished = self._counter("finished", "Executions moved to history, by state", "state")
        self.retried = self._counter("retried", "Failed attempts that will be tried again")
        self.postponed = self._counter(
            "postponed",
            "Calls put off without an attempt because their host was failing or had no connection free",
        )
        self.reclaimed = self._counter(
            "reclaimed", "Claims that expired: their executions were taken back from lost workers"
        )
        self.stale_writes = self._counter(
            "stale_writes", "Writes refused because ownership had passed on", "kind"
        )
        self.left_for_newer = self._counter(
            "left_for_newer", "Times that something was left to nodes of a newer version, by kind", "kind"
        )
        self.parts_restarted = self._counter(
            "parts_restarted",
            "Background parts that ended by themselves and were started again, by part",
            "part",
        )
        self.part_errors = self._counter(
            "part_errors", "Runs of background parts that failed, by part and kind", "part", "kind"
        )
        self.database_failed = self._counter(
            "database_calls_failed", "Uses of a connection that ended in an error"
        )
        self.attempts = self._counter(
            "attempts", "Attempts that are over, by kind of target and class of outcome", "kind", "outcome"
        )
        self.strays = self._counter(
            "task_strays", "Attempts of tasks that did not stop when asked to, and were given up"
        )
        self.released = self._counter(
            "claims_released", "Claims that had not started and whose node left the fleet"
        )
        self.renewals_failed = self._counter(
            "lease_renewals_failed", "Heartbeats that the database did not answer or did not accept"
        )
        self.leases_taken = self._counter(
            "leases_taken", "Shard leases taken, after their owner gave them back or was lost", "after"
        )
        self.leases_lost = self._counter("leases_lost", "Shard leases that expired before they were renewed")
        self.archived_rows = self._counter(
            "archived_rows", "Rows that were copied into the archive and read back, by table", "table"
        )
        self.archive_failed = self._counter(
            "archive_failed", "Pieces that could not be archived, and are tried again"
        )
        self.created = self._counter("jobs_created", "Jobs created")
        self.requests = self._counter("http_requests", "API requests, by status", "status")
        self.shards_held = self._gauge("scheduler", "shards_held", "Shard leases held")
        self.held = self._gauge(
            "worker", "executions_held", "Claimed executions waiting in memory for their instant"
        )
        self.in_line = self._gauge(
            "worker", "executions_in_line", "Executions waiting in memory for a connection to their host"
        )
        self.running = self._gauge("worker", "executions_running", "Attempts under way")
        self.saturation = self._gauge(
            "worker", "worker_saturation", "Share of the worker's concurrency in use"
        )

        self.places = self._gauge("worker", "worker_places", "Calls that the worker can make at once")
        self.started_per_second = self._gauge(
            "worker", "started_per_second", "Attempts started per second, since the heartbeat before"
        )
        self.clock_uncertainty = Gauge(
            "tocsin_clock_uncertainty_seconds",
            "How far the node's clock may be from the database's",
            registry=self.registry,
        )
        self.disk_free = Gauge(
            "tocsin_disk_free_ratio",
            "Share of a disk that is free, by what is on it: database, temporary",
            ["place"],
            registry=self.registry,
        )
        for state in FINAL:  # a series that begins with its first count has no increase to alert on
            self.finished.labels(state)
        self._started_before: tuple[Instant, float] | None = None

    def note_pace(self, now: Instant) -> None:
        """With each heartbeat: how many attempts started per second since the one before."""
        total = next(iter(self.started.collect())).samples[0].value
        if self._started_before is not None and now > self._started_before[0]:
            then, before = self._started_before
            self.started_per_second.set((total - before) / ((now - then) / SECOND))
        self._started_before = (now, total)

    def expect_part(self, part: str) -> None:
        """A background part that has not failed yet: its series begin at 0."""
        self.part_errors.labels(part, "defect")
        self.parts_restarted.labels(part)

    def note_call(self, seconds: float, answered: bool) -> None:  # noqa: FBT001 - as a presence tells it
        """A use of a connection is over."""
        self.database.observe((round(seconds * SECOND),))
        if not answered:
            self.database_failed.inc()

    def snapshot(self) -> str:
        """All samples as JSON, for the node's row."""
        families = [
            (m.name, m.type, m.documentation, [(s.name, s.labels, s.value) for s in m.samples])
            for m in self.registry.collect()
        ]
        return msgspec.json.encode(families).decode()

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"tocsin_{name}", words, labels, registry=self.registry)

    def _histogram(
        self, name: str, words: str, bounds: Sequence[Span], label: str | None = None
    ) -> SpanHistogram:
        histogram = SpanHistogram(f"tocsin_{name}", words, bounds, label)
        self.registry.register(histogram)
        return histogram

    def _gauge(self, role: str, name: str, words: str) -> Gauge:
        """A gauge that only nodes with this role show: a 0 of others would count in averages."""
        return Gauge(f"tocsin_{name}", words, registry=self.registry if role in self._roles else None)


def merge(snapshots: Sequence[tuple[str, str]]) -> list[Metric]:
    """Snapshots of several nodes as metric families, each sample labelled with its node."""
    families: dict[str, Metric] = {}
    for node, text in snapshots:
        for name, kind, words, samples in msgspec.json.decode(text) or ():
            family = families.setdefault(name, Metric(name, words, kind))
            for sample, labels, value in samples:
                if sample.endswith("_created"):  # of a node whose version sends them still
                    continue
                family.add_sample(sample, {**labels, "node": node}, value)
    return list(families.values())


def set_up_logging(form: str, level: str, **context: Any) -> None:
    """Structured logs on standard error: for people on a terminal, as JSON elsewhere."""
    pretty = form == "text" or (form == "auto" and sys.stderr.isatty())
    # Tracebacks never show local variables: they hold keys and payloads.
    renderer: Any = structlog.processors.JSONRenderer()
    errors: list[Any] = [structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))]
    if pretty:
        renderer, errors = (
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
            [],
        )
    structlog.configure(
        processors=[
            OutageLines(),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if pretty else "iso", utc=not pretty),
            *errors,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper(), logging.INFO)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(**context)
    take_over_driver_log()
