"""What a person should look at, from numbers that are known anyway: a pure decision, the most urgent
first."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tocsin.api.wire.stats import Need
from tocsin.domain.instant import DAY, format_instant
from tocsin.domain.tally import added, percentile_ms, within
from tocsin.store.series import Series, total
from tocsin.store.stats import ON_TIME_MS, Load

KEY_ENDS: Final = 7 * DAY
"""How long before its end a key is a reason to act."""
MOST_KINDS: Final = 5
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


def needs_of(load: Load, hour: HourEnded, nodes: Sequence[Any] = (), keys: Sequence[Any] = ()) -> list[Need]:
    """The list. `nodes` are those of the fleet and `keys` those that end soon, for callers who may see
    them."""
    return [
        *_alerts(load),
        *_overdue(load),
        *_lost(nodes),
        *_dead(load),
        *_late(hour),
        *_keys(keys),
        *_queues(load),
        *_paused(load),
    ]


def _alerts(load: Load) -> list[Need]:
    """What rules of the tenant's own found: it asked to be told of that before all else."""
    found = load.noticed("alert")
    if not found:
        return []
    others = f", and {len(found) - 1} more" if len(found) > 1 else ""
    text = f"{found[0]['name']}: {found[0]['words']}{others}"
    return [Need("alert", text, len(found), "/alerts?state=firing", format_instant(found[0]["at"]))]


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
    ][:MOST_KINDS]


def _dead(load: Load) -> list[Need]:
    return [
        Need(
            "dead",
            row["error"] or "failed for good",
            row["number"],
            "/dead-letters",
            format_instant(row["first_at"]),
        )
        for row in load.dead[:MOST_KINDS]
    ]


def _late(hour: HourEnded) -> list[Need]:
    if hour.started < _ENOUGH_TO_JUDGE or (hour.p99_ms or 0) <= ON_TIME_MS:
        return []
    text = f"one execution in a hundred starts {(hour.p99_ms or 0) / 1000:.1f} s late or later"
    return [Need("late", text, hour.started - hour.on_time, "/executions?min_lag=1s")]


def _keys(ending: Sequence[Any]) -> list[Need]:
    """Keys that were not rotated, and whose programs will soon be refused."""
    return [
        Need("key", f"the key {row['name']} ends soon", 1, "/keys", format_instant(row["expires_at"]))
        for row in ending
    ]


def _queues(load: Load) -> list[Need]:
    """Queues that a user paused, and perhaps forgot."""
    return [
        Need(
            "paused",
            f"queue {row['name']} is paused by {row['who'] or 'a person'}"
            + (f": {row['words']}" if row["words"] else ""),
            1,
            f"/queues/{quote(row['name'], safe='')}",
            format_instant(row["at"]),
        )
        for row in load.noticed("queue")[:MOST_KINDS]
    ]


def _paused(load: Load) -> list[Need]:
    number = load.jobs["paused"]
    if not number:
        return []
    more = "" if load.paused_whole else "+"
    words = "1 job is paused" if number == 1 else f"{number:,}{more} jobs are paused"
    return [Need("paused", words, number, "/jobs?state=paused")]
