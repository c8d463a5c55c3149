"""How a process becomes a node of the fleet: connections, a schema that it can work on, the database's time,
a row.

A database that goes away in the middle of joining is tried again a few times; a schema that this build cannot
work on is not.
"""

import asyncio
from typing import Final

import msgspec
import structlog

import tocsin
from tocsin.db.migrations import check_schema
from tocsin.db.notices import Notices
from tocsin.db.pool import Database
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.grpc_target import GRPC
from tocsin.domain.script_target import SCRIPT
from tocsin.domain.target import ENGINE_ROUTES
from tocsin.roles.process import Process
from tocsin.roles.scripts import try_sandbox
from tocsin.store.leases import LeaseStore
from tocsin.targets.grpc.extras import grpc_is_installed
from tocsin.targets.message.extras import message_routes

_CLOCK_SAMPLES: Final = 5
_JOIN_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
_log = structlog.get_logger()


class Membership(msgspec.Struct, frozen=True):
    """What a process has once it has joined. Heartbeats and leases have connections of their own
    (`lease_store`), so that none of them waits for a statement of the others."""

    node_id: int
    database: Database
    lease_store: LeaseStore
    notices: Notices


async def join(process: Process) -> Membership:
    """Join the fleet."""
    await try_sandbox(process)
    for pause in _JOIN_PAUSES:
        try:
            return await _join_once(process)
        except Unavailable as error:
            _log.warning("node.join_failed", error=str(error), retry_in=pause)
            await process.close()
            await asyncio.sleep(pause)
    return await _join_once(process)


async def register(process: Process, store: LeaseStore, node_id: int | None = None) -> int:
    """Write the node's row; again, under the number that it had, if the fleet took it for dead."""
    return await store.register(
        process.name,
        process.roles,
        tocsin.__version__,
        node_id,
        queues=process.settings.queues,
        routes=_routes(process) if "worker" in process.roles else (),
    )


async def check_installation(database: Database) -> None:
    """Refuse a schema that this build cannot work on, and a login that sees nothing of it."""
    await check_schema(database)
    row = await database.one("SELECT EXISTS (SELECT FROM tenants) AS seen")
    if not row["seen"]:
        raise Refused(
            "the policies of the tables hide everything from this login",
            field="database_url",
            hint="connect as the owner of the tables; after restoring them under another owner, run `tocsin migrate`",
        )


def _routes(process: Process) -> tuple[str, ...]:
    """What a worker in this process serves."""
    scripts = (SCRIPT,) if process.runs_scripts else ()
    calls = (GRPC,) if grpc_is_installed() else ()
    tasks = () if process.tasks is None else process.tasks.routes
    return (*ENGINE_ROUTES, *scripts, *calls, *message_routes(), *tasks)


async def _join_once(process: Process) -> Membership:
    heartbeat_database = await process.open("lease", size=2)
    database = await process.open("engine", size=8, pinned=True)
    await check_installation(heartbeat_database)
    store = LeaseStore(heartbeat_database, process.settings.lease_ttl)
    for _ in range(_CLOCK_SAMPLES):
        await process.clock.ask(store.now)
    node_id = await register(process, store)
    return Membership(node_id, database, store, Notices(process.presence, f"tocsin notices {node_id}"))
