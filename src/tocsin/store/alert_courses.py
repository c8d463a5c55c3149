"""What the scheduler keeps of alerts: what was known, what it becomes, and the jobs that tell of it.

A rule's change and the jobs that tell of it are one transaction, under the lease of shard 0. So a scheduler
that dies leaves either both or neither, and one that was overtaken writes nothing.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog

from tocsin.db.pool import Database, Record, Session
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.alert_channel import target_of
from tocsin.domain.alert_rule import AlertRule
from tocsin.domain.alerting import QUEUE, Alert, Course, Message
from tocsin.domain.errors import OwnershipLost, Unreadable
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import DAY, Instant, Span, format_instant
from tocsin.domain.job import MAX_NAME, Definition
from tocsin.domain.policy import Policies, Retry
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import Target
from tocsin.store.alerts import read_channel, read_rule
from tocsin.store.jobs import NewJob, define_within
from tocsin.store.statements import sql

SHARD: Final = 0
"""The shard whose owner watches."""
TAG: Final = "alert"
_KEPT: Final[Span] = 7 * DAY
MOST_RESOLVED: Final = 1_000
"""Alerts of a rule that are over: where jobs or errors have ever new names, a week has millions."""
_TELLING: Final = Policies(retry=Retry(max_attempts=15))
_BEATING: Final = Policies(retry=Retry(max_attempts=2), start_within="50s")
"""A beat that comes late says something that may not be true any more."""
_WRITE: Final = named("tocsin.store", "write_alerts")
_COLUMNS: Final = (
    "groups", "states", "since", "seen_at", "summaries", "details", "resolved_at", "told", "told_at"
)  # fmt: skip
_log = structlog.get_logger()


class KeptRule(msgspec.Struct, frozen=True):
    """A rule as it is stored."""

    tenant_id: int
    tenant: str
    name: str
    version: int
    rule: AlertRule
    beat_at: Instant | None
    withheld: str | None


class AlertCourses:
    """AlertRules and alerts of all tenants, as one scheduler keeps them."""

    def __init__(self, database: Database, node_id: int) -> None:
        self._database = database
        self._node_id = node_id

    async def rules(self) -> list[KeptRule]:
        """Every rule that is in force. Rules that this version cannot read are left to newer nodes."""
        rows = await self._database.fetch(
            "SELECT r.*, t.name AS tenant FROM alert_rules r JOIN tenants t ON t.id = r.tenant_id AND t.state = 'active'"
            " ORDER BY r.tenant_id, r.name"
        )
        kept = [_kept(row) for row in rows]
        return [one for one in kept if one is not None and one.rule.enabled]

    async def known(self) -> dict[tuple[int, str], dict[str, Alert]]:
        """Alerts by rule and group, of which something may yet be told."""
        rows = await self._database.fetch(
            "SELECT * FROM alerts WHERE state <> 'resolved' OR told IS DISTINCT FROM 'resolved'"
        )
        found: dict[tuple[int, str], dict[str, Alert]] = {}
        for row in rows:
            found.setdefault((row["tenant_id"], row["rule"]), {})[row["alert_group"]] = _alert(row)
        return found

    async def write(
        self, kept: KeptRule, epoch: int, course: Course, message: Message | None, now: Instant
    ) -> bool:
        """Write what a look made of a rule's alerts, and the jobs that tell of it. False if the rule was
        changed meanwhile, and then nothing was written."""
        async with self._database.transaction() as session:
            await self._check_lease(session, epoch)
            if not await _is_unchanged(session, kept):
                return False
            await session.execute(
                *_WRITE.given(
                    tenant_id=kept.tenant_id, rule=kept.name, **arrays(_COLUMNS, list(map(_row, course.kept)))
                )
            )
            if course.gone:
                await session.execute(
                    "DELETE FROM alerts WHERE tenant_id = $1 AND rule = $2 AND alert_group = ANY ($3::text[])",
                    kept.tenant_id,
                    kept.name,
                    course.gone,
                )
            if message is not None:
                await self._tell(session, kept, message, _TELLING, now)
        return True

    async def beat(self, kept: KeptRule, epoch: int, minute: Instant, message: Message, now: Instant) -> bool:
        """Let a dead man's switch beat, once for a minute. False if it did, or the rule was changed."""
        async with self._database.transaction() as session:
            await self._check_lease(session, epoch)
            row = await session.fetchrow(
                "UPDATE alert_rules SET beat_at = $4, withheld = NULL WHERE tenant_id = $1 AND name = $2 AND version = $3"
                " AND beat_at IS DISTINCT FROM $4 RETURNING name",
                kept.tenant_id,
                kept.name,
                kept.version,
                minute,
            )
            if row is None:
                return False
            await self._tell(session, kept, message, _BEATING, now)
        return True

    async def withhold(self, kept: KeptRule, reason: str) -> None:
        """Note why a dead man's switch does not beat."""
        if reason != kept.withheld:
            await self._database.execute(
                "UPDATE alert_rules SET withheld = $4 WHERE tenant_id = $1 AND name = $2 AND version = $3",
                kept.tenant_id,
                kept.name,
                kept.version,
                reason,
            )

    async def forget(self, now: Instant) -> None:
        """Remove alerts that were resolved long ago, and of one rule those beyond the latest thousand."""
        await self._database.execute(sql("forget_alerts"), now - _KEPT, MOST_RESOLVED)

    async def _check_lease(self, session: Session, epoch: int) -> None:
        row = await session.fetchrow(
            "SELECT FROM shards WHERE shard = $1 AND owner = $2 AND epoch = $3 AND expires_at > tocsin_now() FOR SHARE",
            SHARD,
            self._node_id,
            epoch,
        )
        if row is None:
            raise OwnershipLost("the lease under which alerts are kept was lost")

    async def _tell(
        self, session: Session, kept: KeptRule, message: Message, policies: Policies, now: Instant
    ) -> None:
        rows = await session.fetch(
            "SELECT name, settings FROM alert_channels WHERE tenant_id = $1 AND name = ANY ($2::text[]) ORDER BY name",
            kept.tenant_id,
            list(kept.rule.channels),
        )
        (installation,) = await session.fetch("SELECT shard_count FROM installation")
        jobs = []
        for row in rows:
            try:
                target = target_of(read_channel(row), message)
            except Unreadable as error:
                _log.error("alerts.channel_unread", channel=row["name"], error=error.detail)
                continue
            job = definition_of(message, row["name"], target, now, policies)
            jobs.append(_new_job(job, kept.tenant_id, installation["shard_count"], now))
        if jobs:
            await define_within(session, jobs, now)


def definition_of(
    message: Message, channel: str, target: Target, now: Instant, policies: Policies = _TELLING
) -> Definition:
    """The job that tells a channel a message."""
    return Definition(
        Schedule(at=format_instant(now)),
        target,
        name=f"alert {message.rule} {message.state} to {channel}"[:MAX_NAME],
        queue=QUEUE,
        priority=0,
        tags=(TAG, f"rule {message.rule}"[:64], f"channel {channel}"[:64]),
        policies=policies,
    )


def _new_job(definition: Definition, tenant_id: int, shard_count: int, now: Instant) -> NewJob:
    job_id = new_job_id(now)
    return NewJob(job_id, tenant_id, shard_of(job_id, shard_count), definition, now, now)


async def _is_unchanged(session: Session, kept: KeptRule) -> bool:
    row = await session.fetchrow(
        "SELECT FROM alert_rules WHERE tenant_id = $1 AND name = $2 AND version = $3 FOR SHARE",
        kept.tenant_id,
        kept.name,
        kept.version,
    )
    return row is not None


def _kept(row: Record) -> KeptRule | None:
    try:
        rule = read_rule(row)
    except Unreadable as error:
        _log.error("alerts.rule_unread", rule=row["name"], error=error.detail)
        return None
    return KeptRule(
        row["tenant_id"], row["tenant"], row["name"], row["version"], rule, row["beat_at"], row["withheld"]
    )


def _alert(row: Record) -> Alert:
    return Alert(
        row["alert_group"],
        row["state"],
        row["since"],
        row["seen_at"],
        row["summary"],
        msgspec.json.decode(row["detail"]),
        row["resolved_at"],
        row["told"],
        row["told_at"],
    )


def _row(alert: Alert) -> Sequence[Any]:
    return (
        alert.group,
        alert.state,
        alert.since,
        alert.seen_at,
        alert.summary,
        msgspec.json.encode(alert.detail).decode(),
        alert.resolved_at,
        alert.told,
        alert.told_at,
    )
