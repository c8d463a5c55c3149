"""Tenants at rest: create, find, change, suspend, resume. Every change notes itself in the audit log and says
`tenants` to the fleet, so that it takes effect within a moment."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

import tocsin
from tocsin.db.pool import Database, Record, Session, UniqueViolation
from tocsin.domain.audit import Origin
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, NotFound, Unavailable
from tocsin.domain.limits import TenantLimits
from tocsin.domain.tenant import Tenant, TenantState
from tocsin.store.audit import Entry, write_audit
from tocsin.store.statements import sql

_decode = msgspec.json.Decoder(TenantLimits).decode


class TenantStore:
    """All tenants; for connections that may see them all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, weight: int, limits: TenantLimits, origin: Origin) -> Record:
        """A new tenant."""
        try:
            async with self._database.transaction() as session:
                row: Record = await session.fetchrow(
                    "INSERT INTO tenants (name, weight, limits) VALUES ($1, $2, $3) RETURNING *",
                    name,
                    weight,
                    msgspec.json.encode(limits).decode(),
                )
                await _changed(session, row["id"], origin, "tenant.create", None, row)
                return row
        except UniqueViolation:
            raise Conflict(f"a tenant named {name!r} exists", field="name") from None

    async def get(self, name: str) -> Record:
        """One tenant."""
        row = await self._database.fetchrow("SELECT * FROM tenants WHERE name = $1", name)
        if row is None:
            raise NotFound(f"no tenant {name[:80]!r}")
        return row

    async def find(self, name: str) -> Tenant | None:
        """One tenant, as the API acts for it."""
        row = await self._database.fetchrow("SELECT * FROM tenants WHERE name = $1", name)
        return None if row is None else tenant_of(row)

    async def names(self, tenant_ids: list[int]) -> dict[int, str]:
        """Names by id."""
        rows = await self._database.fetch(
            "SELECT id, name FROM tenants WHERE id = ANY ($1::integer[])", tenant_ids
        )
        return {row["id"]: row["name"] for row in rows}

    async def list(self, after: str | None, limit: int) -> list[Record]:
        """A page by name."""
        return await self._database.fetch(
            "SELECT * FROM tenants WHERE $1::text IS NULL OR name > $1 ORDER BY name LIMIT $2",
            after,
            limit,
        )

    async def change(self, name: str, weight: int | None, limits: dict[str, Any], origin: Origin) -> Record:
        """Change the weight and those limits that are given; None lets the default apply again."""
        async with self._database.transaction() as session:
            before = await _lock(session, name)
            row: Record = await session.fetchrow(
                "UPDATE tenants SET weight = coalesce($2, weight), limits = jsonb_strip_nulls(limits || $3::jsonb),"
                " updated_at = tocsin_now() WHERE id = $1 RETURNING *",
                before["id"],
                weight,
                msgspec.json.encode(limits).decode(),
            )
            await _changed(session, row["id"], origin, "tenant.change", before, row)
            return row

    async def set_state(self, name: str, state: TenantState, reason: str | None, origin: Origin) -> Record:
        """Suspend or resume. Executions that workers have claimed ahead do not start once a suspension has
        returned."""
        action = "suspend" if state == TenantState.SUSPENDED else "resume"
        async with self._database.transaction() as session:
            before = await _lock(session, name)
            if before["state"] == state:
                raise Conflict(f"cannot {action} a tenant that is {state}")
            row: Record = await session.fetchrow(
                "UPDATE tenants SET state = $2, state_reason = $3, updated_at = tocsin_now() WHERE id = $1"
                " RETURNING *",
                before["id"],
                state,
                reason,
            )
            if state == TenantState.SUSPENDED:
                await session.execute(sql("unclaim_tenant"), CELL, row["id"])
            await _changed(session, row["id"], origin, f"tenant.{action}", before, row)
            return row

    async def delete(self, name: str, origin: Origin) -> Record:
        """Have a suspended tenant removed with everything that is its own. There is no way back."""
        async with self._database.transaction() as session:
            before: Record | None = await session.fetchrow(
                "SELECT * FROM tenants WHERE name = $1 FOR NO KEY UPDATE", name
            )
            if before is None:
                raise NotFound(f"no tenant {name[:80]!r}")
            if before["deleted_at"] is not None:
                return before
            if before["state"] != TenantState.SUSPENDED:
                raise Conflict("only a suspended tenant can be deleted", hint="suspend it first")
            login = await session.fetchrow(
                "SELECT login::text AS login FROM tenant_logins WHERE tenant_id = $1 LIMIT 1", before["id"]
            )
            if login is not None:
                raise Conflict(f"the login {login['login']} enqueues for it", hint="unbind it first")
            row: Record = await session.fetchrow(
                "UPDATE tenants SET deleted_at = tocsin_now(), updated_at = tocsin_now() WHERE id = $1 RETURNING *",
                before["id"],
            )
            await _changed(session, row["id"], origin, "tenant.delete", before, row)
            return row

    async def pending_jobs(self, tenant_id: int, horizon: float, most: int) -> int:
        """How many jobs of a tenant still have something to do, or `most` if there are more."""
        row = await self._database.one(sql("pending_jobs"), tenant_id, horizon, most)
        return int(row["pending"])


def tenant_of(row: Record) -> Tenant:
    """A row as a value."""
    return Tenant(row["id"], row["name"], TenantState(row["state"]), row["weight"], limits_of(row))


def limits_of(row: Record) -> TenantLimits:
    """A tenant's limits, as planners and workers keep to them. A row that only a newer version can read is
    served by newer nodes."""
    try:
        return _decode(row["limits"])
    except msgspec.MsgspecError as error:
        raise Unavailable(
            f"this version cannot read the tenant's limits, which a newer version than {tocsin.__version__} wrote: a node of"
            " that version can answer",
            why=str(error),
        ) from None


def readable(rows: Iterable[Record]) -> Iterator[Tenant]:
    """Those that this version can read. The others are the concern of newer nodes alone."""
    for row in rows:
        with contextlib.suppress(Unavailable, ValueError):
            yield tenant_of(row)


async def _lock(session: Session, name: str) -> Record:
    # Not FOR UPDATE: it would wait for every open transaction that has enqueued for the tenant.
    row = await session.fetchrow("SELECT * FROM tenants WHERE name = $1 FOR NO KEY UPDATE", name)
    if row is None:
        raise NotFound(f"no tenant {name[:80]!r}")
    if row["deleted_at"] is not None:
        raise Conflict("the tenant is being deleted")
    return row


async def _changed(
    session: Session, tenant_id: int, origin: Origin, action: str, before: Record | None, after: Record
) -> None:
    name = after["name"]
    await write_audit(
        session, [Entry(tenant_id, origin, action, f"tenant:{name}", _shown(before), _shown(after))]
    )
    await session.execute("SELECT pg_notify('tocsin', 'tenants')")


def _shown(row: Record | None) -> dict[str, Any] | None:
    if row is None:
        return None
    plain = {name: row[name] for name in ("state", "state_reason", "weight") if row[name] is not None}
    return plain | {"limits": msgspec.json.decode(row["limits"])}
