"""The API role: the HTTP application over connections of its own behind the wall, and the dashboard if it is
on."""

import asyncio
import os

import structlog

from tocsin.api.app import Application
from tocsin.api.auth import KeyUse
from tocsin.api.context import Context, make_context
from tocsin.api.server import serve
from tocsin.background import Background
from tocsin.dashboard.pages import Dashboard
from tocsin.db.wall import open_walled
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Unavailable
from tocsin.roles.addresses import address_policy, doors
from tocsin.roles.archive import place_of
from tocsin.roles.callers import make_callers
from tocsin.roles.joining import Membership
from tocsin.roles.process import Process
from tocsin.secret_key import secret_box
from tocsin.service import Loop
from tocsin.settings import shown
from tocsin.worker.remote.assembly import GatewayParts, make_gateway

_log = structlog.get_logger()


class ApiRole:
    """The API of one process."""

    def __init__(self, process: Process, context: Context, gateway: GatewayParts | None) -> None:
        self._process = process
        self._context = context
        self.gateway = gateway
        self._key_use = KeyUse(context.authenticator, context.keys)

    @property
    def loops(self) -> list[Loop]:
        """What must be running."""
        return [Loop(self._key_use, self._process.clock), *(self.gateway.loops if self.gateway else ())]

    def serve(self, stop: asyncio.Event, background: Background) -> asyncio.Task[None]:
        """Answer requests until `stop`."""
        background.start("streams", lambda: self._end_streams(stop))
        settings = self._process.settings
        serving = serve(
            Application(self._context, Dashboard(doors(settings)) if settings.dashboard else None),
            settings.host,
            settings.port,
            stop,
            trusted_proxies=settings.trusted_proxies,
            share_port=settings.share_port,
        )
        return asyncio.create_task(serving, name="api")

    async def note_last_use(self) -> None:
        """Write down when keys were used last, before the process ends."""
        try:
            await self._key_use.run_once(self._process.clock.now())
        except Unavailable as error:
            _log.warning("key_use.lost", error=str(error))

    async def _end_streams(self, stop: asyncio.Event) -> None:
        """Open streams would hold the stop up for as long as connections get to finish."""
        await stop.wait()
        self._context.pulse.stop()
        self._context.ends.stop()
        if self.gateway:
            self.gateway.gateway.stop()


async def make_api(process: Process, member: Membership) -> ApiRole:
    """The API with its own connections behind the wall, the operator's beside it."""
    gateway = await _gateway(process, member) if process.settings.gateway else None
    context = await _context(process, member, gateway)
    for word in ("keys", "tenants"):
        member.notices.on(word, context.authenticator.forget)
    return ApiRole(process, context, gateway)


async def _gateway(process: Process, member: Membership) -> GatewayParts:
    """What remote workers call, over connections of its own: it works on the queue as an engine does."""
    database = await process.open("gateway", size=6, pinned=True)
    gateway = make_gateway(
        database,
        member.lease_store,
        process.clock,
        process.settings,
        process.telemetry,
        process.failpoints,
        node_id=member.node_id,
        cell=CELL,
    )
    gateway.listen(member.notices)
    return gateway


async def _context(process: Process, member: Membership, gateway: GatewayParts | None) -> Context:
    settings = process.settings
    database, wall = await open_walled(
        process.presence,
        name=f"tocsin api {os.getpid()}",
        timeout=settings.statement_timeout,
        size=10,
        mode=settings.row_security,
    )
    process.closes(database.close)
    row = await database.one("SELECT shard_count FROM installation")
    return make_context(
        database,
        process.clock,
        process.telemetry,
        address_policy(settings),
        shard_count=row["shard_count"],
        lease_ttl=settings.lease_ttl,
        horizon=settings.horizon,
        patience=settings.statement_timeout,
        operator=member.database,
        defaults=settings.tenant_limits,
        wall=wall,
        box=secret_box(settings),
        doors=doors(settings),
        echo=settings.echo,
        scripts=settings.script_rules,
        settings=shown(settings),
        gateway=gateway.gateway if gateway else None,
        callers=make_callers(process, member.database),
        archive=place_of(settings),
    )
