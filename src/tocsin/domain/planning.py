"""Turn a cursor into executions: which fire times run, which are skipped and why, and where the cursor goes.

Pure: the planner feeds it a job and writes down the answer. Fire times up to ``until`` are
decided, the first one beyond becomes the new cursor. A call decides at most `limit` fire times, so a job that
was down for a month costs a bounded step at a time and the cursor itself remembers how far the work has come.
"""

from typing import Final

import msgspec

from tocsin.domain.instant import Instant, parse_span
from tocsin.domain.policy import Misfire, MisfirePolicy
from tocsin.domain.schedule import Rule

DEFAULT_LIMIT: Final = 1000


class Fire(msgspec.Struct, frozen=True):
    """A fire time that becomes an execution. `late` ones were missed and run in the catch-up lane."""

    at: Instant
    late: bool


class Skip(msgspec.Struct, frozen=True):
    """A run of fire times that do not become executions, for one reason."""

    first: Instant
    last: Instant
    count: int
    reason: str


class Plan(msgspec.Struct, frozen=True):
    """What to write for one job. A `cursor` of None means that the schedule is exhausted."""

    fires: list[Fire]
    skips: list[Skip]
    cursor: Instant | None


def plan(
    rule: Rule,
    cursor: Instant,
    *,
    misfire: Misfire,
    fires_left: int | None,
    live_from: Instant,
    until: Instant,
    limit: int = DEFAULT_LIMIT,
) -> Plan:
    """Decide the fire times from `cursor` to `until`.

    Fire times before `live_from` were missed and go by the misfire policy. `fires_left` is what max_fires
    still allows.
    """
    fires: list[Fire] = []
    skips = _Skips()
    fire: Instant | None = cursor
    decided = 0
    while fire is not None and fire <= until and decided < limit:
        following = rule.next_fire(fire)
        reason = _misfire_reason(fire, following, misfire, live_from)
        if reason is None:
            fires.append(Fire(fire, late=fire < live_from))
        else:
            skips.add(fire, reason)
        decided += 1
        fire = following
        if fires_left is not None and len(fires) >= fires_left:
            fire = None
    return Plan(fires, skips.runs, fire)


def _misfire_reason(
    fire: Instant, following: Instant | None, misfire: Misfire, live_from: Instant
) -> str | None:
    """Why a fire time does not run, or None when it does."""
    if fire >= live_from:
        return None
    if misfire.policy is MisfirePolicy.SKIP:
        return "misfire_skipped"
    if fire < live_from - parse_span(misfire.lookback, "misfire.lookback"):
        return "misfire_too_old"
    superseded = following is not None and following < live_from
    if misfire.policy is MisfirePolicy.FIRE_ONCE and superseded:
        return "misfire_superseded"
    return None


class _Skips:
    """Gathers neighbouring skips of one reason into runs."""

    def __init__(self) -> None:
        self.runs: list[Skip] = []

    def add(self, fire: Instant, reason: str) -> None:
        if self.runs and self.runs[-1].reason == reason:
            run = self.runs[-1]
            self.runs[-1] = Skip(run.first, fire, run.count + 1, reason)
        else:
            self.runs.append(Skip(fire, fire, 1, reason))
