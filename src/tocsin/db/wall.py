"""The API's way into the database: as a role that sees only the tenants it acts for.

The role owns nothing and bypasses nothing, so the policies that migration 0003 puts on every table with a
tenant apply to it: a query that forgot its tenant finds nothing instead of everything. It is a second wall
behind the queries, against our own mistakes; the session could still turn back into its login, so it is no
wall against an attacker who can run SQL.

Where the login may not turn into the role (an external database whose administrator did not allow it), the
API works all the same, by its queries alone, and says so.
"""

from typing import Final

import structlog

from tocsin.db.pool import SCHEMA, Database, RoleRefused, Where, open_database
from tocsin.domain.errors import Refused

API_ROLE: Final = "tocsin_api"
_CHECK: Final = """
    SELECT CASE
        WHEN (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)
            THEN 'the role ' || current_user || ' bypasses row-level security'
        WHEN NOT has_table_privilege('jobs', 'SELECT, INSERT') THEN current_user || ' has no rights on the tables'
        ELSE (
            SELECT 'tables without a policy: ' || string_agg(c.relname, ', ' ORDER BY c.relname)
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
            WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
              AND NOT (c.relrowsecurity AND c.relforcerowsecurity))
        END AS trouble"""
_log = structlog.get_logger()


async def open_walled(
    where: Where, *, name: str, timeout: float, size: int, mode: str = "auto"
) -> tuple[Database, str | None]:
    """Connections behind the wall, and None; or ordinary ones, and why. Mode `required` refuses the latter,
    `off` wants it so."""
    if mode == "off":
        return await open_database(
            where, name=name, timeout=timeout, size=size
        ), "row-level security is switched off"
    try:
        database = await open_database(where, name=name, timeout=timeout, size=size, role=API_ROLE)
    except RoleRefused as error:
        trouble = str(error).splitlines()[0]
    else:
        trouble = (await database.one(_CHECK, SCHEMA))["trouble"]
        if trouble is None:
            return database, None
        await database.close()
    if mode == "required":
        raise Refused(
            f"row-level security cannot be used: {trouble}",
            field="TOCSIN_ROW_SECURITY",
            hint="let the database's administrator create the role; see docs/operating/limits.md",
        )
    _log.warning("row_security.unavailable", reason=trouble)
    plain = await open_database(where, name=name, timeout=timeout, size=size)
    return plain, f"row-level security is not in use: {trouble}"
