"""Logins of the database that are bound to a tenant: applications enqueue with them, in their transactions.

A bound login may use the schema and call `tocsin.enqueue`, `tocsin.enqueue_many` and `tocsin.succeed`,
nothing else. The number of jobs that it may still enqueue stands in `login_limits`, an estimate that is made
anew every few seconds: the functions compare with it and count nothing.
"""

from typing import Final

from tocsin.db.pool import Database, Record, Session
from tocsin.domain.audit import Origin
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.limits import TenantLimits
from tocsin.domain.tenant import Tenant
from tocsin.store.audit import Entry, write_audit
from tocsin.store.statements import sql
from tocsin.store.tenants import TenantStore, readable

_RIGHTS: Final = (
    "USAGE ON SCHEMA tocsin",
    "EXECUTE ON FUNCTION tocsin.enqueue, tocsin.enqueue_many, tocsin.succeed",
)
_HINT: Final = "bind a role that the application alone logs in with"


class LoginStore:
    """Bound logins of all tenants, over connections that own the schema."""

    def __init__(self, database: Database, horizon: float, defaults: TenantLimits) -> None:
        """`defaults`: limits of tenants that say nothing of their own."""
        self._database = database
        self._tenants = TenantStore(database)
        self._horizon = horizon
        self._defaults = defaults

    async def bind(self, tenant: Tenant, login: str, origin: Origin) -> Record:
        """Let a login of the database enqueue for a tenant, and nothing else."""
        await self._count(tenant)
        async with self._database.transaction() as session:
            await _check_login(session, login)
            before = await session.fetchrow(sql("login"), login)
            if before is not None and before["tenant_id"] != tenant.id:
                raise Conflict(
                    f"the login {login} is bound to the tenant {before['tenant']}",
                    field="login",
                    hint="unbind it first",
                )
            await session.execute(
                "INSERT INTO tenant_logins (login, tenant_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                login,
                tenant.id,
            )
            await _change_rights(session, "GRANT", "TO", login)
            if before is None:
                await _note(session, tenant, origin, "login.bind", login)
            return await _found(session, tenant, login)

    async def unbind(self, tenant: Tenant, login: str, origin: Origin) -> None:
        """Take a login's rights. What it enqueued stays."""
        async with self._database.transaction() as session:
            await _found(session, tenant, login)
            await session.execute("DELETE FROM tenant_logins WHERE login = $1", login)
            if await session.fetchrow("SELECT FROM pg_roles WHERE rolname = $1", login) is not None:
                await _change_rights(session, "REVOKE", "FROM", login)
            await _note(session, tenant, origin, "login.unbind", login)

    async def list(self, tenant: Tenant) -> list[Record]:
        """The logins of a tenant, by name."""
        return await self._database.fetch(
            "SELECT l.login::text AS login, l.created_at FROM tenant_logins l WHERE l.tenant_id = $1 ORDER BY 1",
            tenant.id,
        )

    async def count(self) -> int:
        """Make the estimates of all tenants with logins anew. Returns of how many."""
        rows = await self._database.fetch(
            "SELECT * FROM tenants WHERE id IN (SELECT tenant_id FROM tenant_logins) ORDER BY id"
        )
        for tenant in readable(rows):
            await self._count(tenant)
        return len(rows)

    async def _count(self, tenant: Tenant) -> None:
        limits = tenant.limits.over(self._defaults)
        pending = 0
        if limits.pending_jobs is not None:
            pending = await self._tenants.pending_jobs(tenant.id, self._horizon, limits.pending_jobs)
        await self._database.execute(
            sql("write_login_limits"), tenant.id, limits.pending_jobs, limits.payload_bytes, pending
        )


async def _check_login(session: Session, login: str) -> None:
    role = await session.fetchrow(sql("login_role"), login)
    if role is None:
        raise NotFound(f"no role {login[:63]!r} in the database", field="login")
    if not role["can_login"]:
        raise Conflict(f"the role {login} cannot log in", field="login", hint=_HINT)
    if role["rules"]:
        raise Conflict(
            f"the login {login} owns Tocsin's tables, or can become their owner", field="login", hint=_HINT
        )


async def _change_rights(session: Session, verb: str, preposition: str, login: str) -> None:
    for right in _RIGHTS:
        row = await session.fetchrow("SELECT quote_ident($1) AS quoted", login)
        await session.execute(f"{verb} {right} {preposition} {row['quoted'] if row else ''}")


async def _found(session: Session, tenant: Tenant, login: str) -> Record:
    row = await session.fetchrow(sql("login"), login)
    if row is None or row["tenant_id"] != tenant.id:
        raise NotFound(f"no login {login[:63]!r} is bound to {tenant.name}", field="login")
    return row


async def _note(session: Session, tenant: Tenant, origin: Origin, action: str, login: str) -> None:
    await write_audit(
        session, [Entry(tenant.id, origin, action, f"tenant:{tenant.name}", None, {"login": login})]
    )
