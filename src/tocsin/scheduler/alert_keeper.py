"""Watches for trouble by the alert rules of all tenants, and has it told.

A look reads the rules, asks each source once for all rules that watch for the same, lets
`domain/alerting.py` decide, and writes what changed together with the jobs that tell of it. Those are
ordinary one-offs in a queue of their own, so they are retried, seen and survive crashes like any other; what
becomes of them raises no alert. After a look that took long the keeper rests twenty times as long.

Runs on the node that leases shard 0, and writes under that lease.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import structlog

from tocsin.clock import Clock
from tocsin.domain.alert_rule import (
    ArchiveFailing,
    ClockTrouble,
    DeadMansSwitch,
    DiskTrouble,
    LeaseChurn,
    PartitionTrouble,
    PendingJobs,
    Watch,
    kind_of,
)
from tocsin.domain.alerting import Alert, Finding, beat_of, follow, message_of
from tocsin.domain.clock_jumps import ClockJumps, Jump
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.instant import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Instant,
    Span,
    format_instant,
    format_span,
    parse_span,
)
from tocsin.domain.tally import FLEET
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.alert_courses import SHARD, AlertCourses, KeptRule
from tocsin.store.alert_sources import AlertSources, Found, Tenants

_LOOK: Final[Span] = 10 * SECOND
_REST: Final = 20
_SLOW: Final[Span] = 5 * MINUTE
"""How old what is not asked at every look may be."""
_log = structlog.get_logger()


class AlertKeeper:
    """Looks every ten seconds. Without rules a look is one statement."""

    name = "alert_keeper"
    interval = 10.0

    def __init__(self, courses: AlertCourses, sources: AlertSources, leases: Leases, clock: Clock) -> None:
        self._courses = courses
        self._sources = sources
        self._leases = leases
        self._clock = clock
        self._jumps = ClockJumps()
        self._jumped: deque[tuple[float, Jump, Instant]] = deque(maxlen=100)
        self._epochs: deque[tuple[Instant, int]] = deque(maxlen=10_000)
        self._slow: dict[tuple[Watch, tuple[int, ...] | None], tuple[Instant, list[Found]]] = {}
        self._forgot_at: Instant = 0

    async def run_once(self, now: Instant) -> Report:
        """One look."""
        began = self._clock.monotonic()
        self._watch_clock(now)
        epoch = self._leases.trusted().get(SHARD)
        if epoch is None:
            self._epochs.clear()
            return Report(again_at=now + _LOOK)
        rules = await self._courses.rules()
        told = await self._follow(rules, epoch, now) if rules else 0
        if abs(now - self._forgot_at) >= HOUR:
            await self._courses.forget(now)
            self._forgot_at = now
        took = round((self._clock.monotonic() - began) * SECOND)
        return Report(told, now + max(_LOOK, _REST * took))

    async def _follow(self, rules: Sequence[KeptRule], epoch: int, now: Instant) -> int:
        known = await self._courses.known()
        told = 0
        for watch, fleet in dict.fromkeys((one.rule.watch, one.rule.scope == "fleet") for one in rules):
            same = [one for one in rules if one.rule.watch == watch and (one.rule.scope == "fleet") == fleet]
            tenants = None if fleet else sorted({one.tenant_id for one in same})
            try:
                if isinstance(watch, DeadMansSwitch):
                    for one in same:
                        told += await self._beat(one, watch, epoch, now)
                    continue
                found = await self._find(watch, tenants, now)
                names = await self._sources.names_of({whose for whose, _ in found}) if fleet and found else {}
                for one in same:
                    findings = _of(one, found, names)
                    told += await self._write(
                        one, epoch, known.get((one.tenant_id, one.name), {}), findings, now
                    )
            except (Unavailable, OwnershipLost):
                raise
            except Exception:  # noqa: BLE001 - one kind of rule with a defect leaves the others their alerts
                _log.exception("alerts.look_failed", kind=kind_of(watch))
        return told

    async def _write(
        self, one: KeptRule, epoch: int, known: dict[str, Alert], findings: list[Finding], now: Instant
    ) -> int:
        course = follow(one.rule, known, findings, now)
        if not (course.kept or course.gone):
            return 0
        message = message_of(one.name, one.rule, one.tenant, course.told, now) if course.told else None
        written = await self._courses.write(one, epoch, course, message, now)
        if written and message is not None:
            _log.warning(
                "alert.told", rule=one.name, tenant=one.tenant, state=message.state, groups=len(course.told)
            )
        return len(course.told) if written else 0

    async def _find(self, watch: Watch, tenants: Tenants, now: Instant) -> list[Found]:
        match watch:
            case ClockTrouble():
                return self._clock_trouble(watch)
            case LeaseChurn():
                return await self._churn(watch, now)
            case PendingJobs() | PartitionTrouble() | DiskTrouble() | ArchiveFailing():
                key = (watch, None if tenants is None else tuple(tenants))
                at, found = self._slow.get(key, (now - DAY, []))
                if abs(now - at) >= _SLOW:
                    found = await self._sources.find(watch, tenants, now)
                    self._slow = {k: v for k, v in self._slow.items() if abs(now - v[0]) < _SLOW}
                    self._slow[key] = (now, found)
                return found
            case _:
                return await self._sources.find(watch, tenants, now)

    async def _beat(self, one: KeptRule, watch: DeadMansSwitch, epoch: int, now: Instant) -> int:
        minute = now - now % MINUTE
        if one.beat_at == minute:
            return 0
        reason = await self._missing(watch, None if one.rule.scope == "fleet" else [one.tenant_id], now)
        if reason is not None:
            if one.withheld is None:
                _log.warning("alerts.beat_withheld", rule=one.name, tenant=one.tenant, reason=reason)
            await self._courses.withhold(one, reason)
            return 0
        message = beat_of(one.name, one.rule, one.tenant, now)
        return int(await self._courses.beat(one, epoch, minute, message, now))

    async def _missing(self, watch: DeadMansSwitch, tenants: Tenants, now: Instant) -> str | None:
        """Why expected fires do not happen; None if they do. A backlog that is worked off is no reason."""
        before = now - parse_span(watch.grace, "grace")
        unplanned = await self._sources.unplanned(tenants, before)
        if unplanned:
            return f"no scheduler planned the fire of {format_instant(unplanned[0]['fire_at'])}"
        waiting = [row for row in await self._sources.waiting(tenants, before, now) if _is_ours(row["route"])]
        if waiting and not await self._sources.ended(tenants, before):
            return f"executions wait since {format_instant(waiting[0]['oldest'])}, and none ended meanwhile"
        return None

    def _watch_clock(self, now: Instant) -> None:
        monotonic = self._clock.monotonic()
        jump = self._jumps.observe(now - round(monotonic * SECOND))
        if jump is not None:
            self._jumped.append((monotonic, jump, now))

    def _clock_trouble(self, watch: ClockTrouble) -> list[Found]:
        since = self._clock.monotonic() - parse_span(watch.window, "window") / SECOND
        lately = [(jump, at) for monotonic, jump, at in self._jumped if monotonic >= since]
        if not lately:
            return []
        jump, at = lately[-1]
        way = "ahead" if jump.by > 0 else "back"
        words = f"the database's clock was set {way} by {format_span(abs(jump.by))}, to {format_instant(at)}"
        return [(FLEET, Finding("database", words, {"jumps": len(lately), "seconds": jump.by / SECOND}))]

    async def _churn(self, watch: LeaseChurn, now: Instant) -> list[Found]:
        shards, epochs = await self._sources.epochs()
        self._epochs.append((now, epochs))
        while self._epochs and abs(now - self._epochs[0][0]) > DAY:
            self._epochs.popleft()
        since = now - parse_span(watch.window, "window")
        first = next((number for at, number in self._epochs if at >= since), epochs)
        moved = epochs - first
        if moved <= watch.times * shards:
            return []
        words = f"shards changed hands {moved} times within {watch.window}; there are {shards}"
        return [(FLEET, Finding("leases", words, {"moved": moved, "shards": shards}))]


def _of(one: KeptRule, found: Sequence[Found], names: dict[int, str]) -> list[Finding]:
    """What concerns a rule. One of the fleet tells tenants apart."""
    if one.rule.scope == "tenant":
        return [finding for whose, finding in found if whose == one.tenant_id]
    return [finding if whose == FLEET else _named(finding, names.get(whose, "?")) for whose, finding in found]


def _named(finding: Finding, tenant: str) -> Finding:
    return Finding(
        f"{tenant}/{finding.group}", f"{tenant}: {finding.summary}", finding.detail | {"tenant": tenant}
    )


def _is_ours(route: str) -> bool:
    """Whether engines run it. Tasks are run by users' own workers: that these are away is not our death."""
    return not route.startswith("task:")
