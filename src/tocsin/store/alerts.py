"""Alert channels and rules of tenants, and the alerts that there are."""

from typing import Any, Final

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.domain.alert_channel import AlertChannel
from tocsin.domain.alert_rule import AlertRule, kind_of
from tocsin.domain.errors import Conflict, NotFound, Refused, Unreadable

MOST_CHANNELS: Final = 50
MOST_RULES: Final = 100


class AlertStore:
    """Channels, rules and alerts of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_channel(self, tenant_id: int, name: str, channel: AlertChannel) -> Record:
        """Create a channel, or replace it."""
        await self._check_room("alert_channels", tenant_id, name, MOST_CHANNELS)
        return await self._database.one(
            "INSERT INTO alert_channels (tenant_id, name, settings) VALUES ($1, $2, $3)"
            " ON CONFLICT (tenant_id, name) DO UPDATE SET settings = excluded.settings,"
            " version = alert_channels.version + 1, updated_at = tocsin_now() RETURNING *",
            tenant_id,
            name,
            msgspec.json.encode(channel).decode(),
        )

    async def channel(self, tenant_id: int, name: str) -> Record:
        """One channel."""
        row = await self._database.fetchrow(
            "SELECT * FROM alert_channels WHERE tenant_id = $1 AND name = $2",
            tenant_id,
            name,
        )
        if row is None:
            raise NotFound(f"no alert channel {name[:63]!r}")
        return row

    async def channels(self, tenant_id: int) -> list[Record]:
        """All channels of a tenant, by name."""
        return await self._database.fetch(
            "SELECT * FROM alert_channels WHERE tenant_id = $1 ORDER BY name",
            tenant_id,
        )

    async def delete_channel(self, tenant_id: int, name: str) -> None:
        """Remove a channel that no rule names."""
        async with self._database.transaction() as session:
            gone = await session.fetchrow(
                "DELETE FROM alert_channels WHERE tenant_id = $1 AND name = $2 RETURNING name",
                tenant_id,
                name,
            )
            if gone is None:
                raise NotFound(f"no alert channel {name[:63]!r}")
            used = await session.fetchrow(
                "SELECT name FROM alert_rules WHERE tenant_id = $1 AND settings -> 'channels' ? $2 LIMIT 1",
                tenant_id,
                name,
            )
            if used is not None:
                raise Conflict(f"the channel {name!r} is named by the rule {used['name']!r}")

    async def put_rule(self, tenant_id: int, name: str, rule: AlertRule) -> Record:
        """Create a rule, or replace it. What it found is forgotten if it watches something else now."""
        await self._check_room("alert_rules", tenant_id, name, MOST_RULES)
        async with self._database.transaction() as session:
            # Locked, so that none of them is deleted before the rule is there to name it.
            rows = await session.fetch(
                "SELECT name FROM alert_channels WHERE tenant_id = $1 AND name = ANY ($2::text[]) FOR SHARE",
                tenant_id,
                list(rule.channels),
            )
            missing = sorted(set(rule.channels) - {row["name"] for row in rows})
            if missing:
                raise Refused(f"no alert channel {missing[0]!r}", field="channels")
            # The rule first: statements that write its alerts lock in this order.
            await session.execute(
                "SELECT FROM alert_rules WHERE tenant_id = $1 AND name = $2 FOR NO KEY UPDATE",
                tenant_id,
                name,
            )
            await session.execute(
                "DELETE FROM alerts a USING alert_rules r WHERE a.tenant_id = $1 AND a.rule = $2 AND r.tenant_id = $1"
                " AND r.name = $2 AND (r.settings -> 'watch' ->> 'kind', coalesce(r.settings ->> 'scope', 'tenant'))"
                " IS DISTINCT FROM ($3, $4)",
                tenant_id,
                name,
                kind_of(rule.watch),
                rule.scope,
            )
            (row,) = await session.fetch(
                "INSERT INTO alert_rules (tenant_id, name, settings) VALUES ($1, $2, $3)"
                " ON CONFLICT (tenant_id, name) DO UPDATE SET settings = excluded.settings, withheld = NULL,"
                " version = alert_rules.version + 1, updated_at = tocsin_now() RETURNING *",
                tenant_id,
                name,
                msgspec.json.encode(rule).decode(),
            )
            await session.execute("SELECT pg_notify('tocsin', 'alerts')")
            made: Record = row
            return made

    async def rule(self, tenant_id: int, name: str, *, fleet: bool) -> Record:
        """One rule. Those of the fleet are there only for `fleet`."""
        row = await self._database.fetchrow(
            "SELECT * FROM alert_rules r WHERE tenant_id = $1 AND name = $2 AND ($3 OR coalesce(r.settings ->> 'scope', 'tenant') = 'tenant')",
            tenant_id,
            name,
            fleet,
        )
        if row is None:
            raise NotFound(f"no alert rule {name[:63]!r}")
        return row

    async def rules(self, tenant_id: int, *, fleet: bool) -> list[Record]:
        """All rules of a tenant, by name; those of the fleet only for `fleet`."""
        return await self._database.fetch(
            "SELECT * FROM alert_rules r WHERE tenant_id = $1 AND ($2 OR coalesce(r.settings ->> 'scope', 'tenant') = 'tenant') ORDER BY name",
            tenant_id,
            fleet,
        )

    async def delete_rule(self, tenant_id: int, name: str) -> None:
        """Remove a rule, and what it found."""
        gone = await self._database.fetchrow(
            "DELETE FROM alert_rules WHERE tenant_id = $1 AND name = $2 RETURNING name", tenant_id, name
        )
        if gone is None:
            raise NotFound(f"no alert rule {name[:63]!r}")

    async def alerts(self, tenant_id: int, state: str | None, limit: int, *, fleet: bool) -> list[Record]:
        """Alerts of a tenant's rules: those that fire first, then the latest."""
        return await self._database.fetch(
            "SELECT a.* FROM alerts a JOIN alert_rules r ON r.tenant_id = a.tenant_id AND r.name = a.rule"
            " WHERE a.tenant_id = $1 AND ($2::text IS NULL OR a.state = $2) AND ($4 OR coalesce(r.settings ->> 'scope', 'tenant') = 'tenant')"
            " ORDER BY a.state <> 'firing', a.since DESC, a.rule, a.alert_group LIMIT $3",
            tenant_id,
            state,
            limit,
            fleet,
        )

    async def _check_room(self, table: str, tenant_id: int, name: str, most: int) -> None:
        row = await self._database.one(
            f"SELECT count(*) AS number FROM {table} WHERE tenant_id = $1 AND name <> $2",  # noqa: S608
            tenant_id,
            name,
        )
        if row["number"] >= most:
            raise Conflict(f"a tenant has at most {most} of these")


def read_channel(row: Any) -> AlertChannel:
    """What a row says. Raises `Unreadable` if a newer version wrote it."""
    channel: AlertChannel = _read(row, AlertChannel, "channel")
    return channel


def read_rule(row: Any) -> AlertRule:
    """What a row says. Raises `Unreadable` if a newer version wrote it."""
    rule: AlertRule = _read(row, AlertRule, "rule")
    return rule


def _read(row: Any, kind: Any, word: str) -> Any:
    try:
        return msgspec.json.decode(row["settings"], type=kind)
    except msgspec.DecodeError as error:
        raise Unreadable(f"this version cannot read the alert {word} {row['name']!r}: {error}") from None
