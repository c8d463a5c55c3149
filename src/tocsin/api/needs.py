"""What a person should look at, from numbers that are known anyway: a pure decision, the most urgent
first."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tocsin.api.wire.stats import Need
from tocsin.domain.instant import format_instant
from tocsin.domain.tally import added, percentile_ms, within
from tocsin.store.series import Series, total
from tocsin.store.stats import ON_TIME_MS, Load

_MOST_KINDS: Final = 5
_ENOUGH_TO_JUDGE: Final = 20  # started executions, before a percentile of lateness says something


class HourEnded(msgspec.Struct, frozen=True):
    """How executions of the last hour ended, and how late they started."""

    by_state: dict[str, int]
    started: int
    on_time: int
    p50_ms: float | None
    p99_ms: float | None


def ended_of(hour: Series) -> HourEnded:
    """The sums of a series by state."""
    lags: list[int] = []
    for bins in total(hour).lag:
        lags = added(lags, bins)
    return HourEnded(
        {line.key: sum(line.fires) for line in hour.lines},
        sum(lags),
        within(lags, ON_TIME_MS),
        percentile_ms(lags, 0.5),
        percentile_ms(lags, 0.99),
    )


def needs_of(load: Load, hour: HourEnded, nodes: Sequence[Any] = ()) -> list[Need]:
    """The list. `nodes` are those of the fleet, for callers who may see it."""
    return [*_overdue(load), *_lost(nodes), *_dead(load), *_late(hour), *_queues(load), *_paused(load)]


def _overdue(load: Load) -> list[Need]:
    if not load.overdue:
        return []
    first, number = load.overdue[0], len(load.overdue)
    name = first["name"] or "a job"
    others = f" and {number - 1} more" if number > 1 else ""
    text = f"{name}{others} should have fired, and nothing was planned"
    return [Need("overdue", text, number, "/jobs?state=active", format_instant(first["next_fire_at"]))]


def _lost(nodes: Sequence[Any]) -> list[Need]:
    return [
        Need("node", f"node {node['name']} is gone", 1, "/fleet", format_instant(node["seen_at"]))
        for node in nodes
        if not node["alive"]
    ][:_MOST_KINDS]


def _dead(load: Load) -> list[Need]:
    return [
        Need(
            "dead",
            row["error"] or "failed for good",
            row["number"],
            "/dead-letters",
            format_instant(row["first_at"]),
        )
        for row in load.dead[:_MOST_KINDS]
    ]


def _late(hour: HourEnded) -> list[Need]:
    if hour.started < _ENOUGH_TO_JUDGE or (hour.p99_ms or 0) <= ON_TIME_MS:
        return []
    text = f"one execution in a hundred starts {(hour.p99_ms or 0) / 1000:.1f} s late or later"
    return [Need("late", text, hour.started - hour.on_time, "/executions?min_lag=1s")]


def _queues(load: Load) -> list[Need]:
    """Queues that somebody paused, and perhaps forgot."""
    return [
        Need(
            "paused",
            f"queue {row['name']} is paused by {row['paused_by'] or 'somebody'}"
            + (f": {row['reason']}" if row["reason"] else ""),
            1,
            f"/queues/{quote(row['name'], safe='')}",
            format_instant(row["paused_at"]),
        )
        for row in load.paused_queues[:_MOST_KINDS]
    ]


def _paused(load: Load) -> list[Need]:
    number = load.jobs["paused"]
    if not number:
        return []
    words = "1 job is paused" if number == 1 else f"{number} jobs are paused"
    return [Need("paused", words, number, "/jobs?state=paused")]
