"""A login that is bound to a tenant of a test's database, as an application would use it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from tests.support.postgres import Cluster
from tocsin.db.pool import open_database
from tocsin.domain.audit import Origin
from tocsin.domain.limits import TenantLimits
from tocsin.store.logins import LoginStore
from tocsin.store.tenants import TenantStore, tenant_of


class Bound:
    """A database with two tenants, of which `shop` has a login."""

    def __init__(self, cluster: Cluster) -> None:
        self.owner_url = cluster.new_database()
        self.login = f"shop_{uuid4().hex[:12]}"
        self.url = self.as_login(self.login)
        asyncio.run(self._make())

    def as_login(self, login: str) -> str:
        parts = urlsplit(self.owner_url)
        return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))

    async def _make(self) -> None:
        database = await open_database(self.owner_url, name="test", size=1)
        try:
            tenants, origin = TenantStore(database), Origin("test")
            shop = tenant_of(await tenants.create("shop", 1, TenantLimits(), origin))
            self.other = (await tenants.create("other", 1, TenantLimits(), origin))["id"]
            self.tenant = shop.id
            await database.execute(f"CREATE ROLE {self.login} LOGIN")
            await LoginStore(database, 45.0, TenantLimits()).bind(shop, self.login, origin)
        finally:
            await database.close()

    def play(self, story: Callable[[Any, Any], Awaitable[None]]) -> None:
        """A story with a connection of the application and one of the owner."""

        async def scenario() -> None:
            application = await asyncpg.connect(self.url)
            owner = await asyncpg.connect(self.owner_url, server_settings={"search_path": "tocsin"})
            try:
                await owner.execute("TRUNCATE executions, jobs, lanes, lanes_entered, audit")
                await story(application, owner)
            finally:
                application.terminate()
                await owner.close()

        asyncio.run(scenario())


@pytest.fixture(scope="module")
def bound(cluster: Cluster) -> Iterator[Bound]:
    made = Bound(cluster)
    yield made
    cluster.drop(made.owner_url)

    async def drop() -> None:
        connection = await asyncpg.connect(cluster.server.url)
        await connection.execute(f"DROP ROLE {made.login}")
        await connection.close()

    asyncio.run(drop())
