"""The second wall: as the API's role, a query that forgot its tenant finds nothing of anybody else."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import pytest
import uvloop

from tests.support.postgres import Cluster
from tocsin.clock import system_now
from tocsin.db.migrations import migrate
from tocsin.db.pool import Database, acting_by_statement, acting_for, open_connection, open_database
from tocsin.db.wall import API_ROLE, open_walled
from tocsin.domain.audit import Origin
from tocsin.domain.errors import Refused
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import SECOND
from tocsin.domain.job import Definition
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget
from tocsin.roles.joining import check_installation
from tocsin.store.history import HistoryStore
from tocsin.store.job_listing import JobFilter, JobListing
from tocsin.store.jobs import JobStore, NewJob
from tocsin.store.keys import KeyStore

TENANT_TABLES = """
    SELECT c.oid::regclass::text AS name, c.relispartition AS partition, c.relrowsecurity AND c.relforcerowsecurity AS forced,
           ARRAY(SELECT polname::text FROM pg_policy WHERE polrelid = c.oid ORDER BY 1) AS policies,
           has_table_privilege($1, c.oid, 'SELECT') OR has_table_privilege($1, c.oid, 'INSERT')
               OR has_table_privilege($1, c.oid, 'UPDATE') OR has_table_privilege($1, c.oid, 'DELETE') AS reachable
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
    WHERE c.relnamespace = 'tocsin'::regnamespace AND c.relkind IN ('r', 'p')"""


def _job(tenant_id: int, name: str, **more: Any) -> NewJob:
    now = system_now()
    definition = Definition(Schedule(every="1h"), NoopTarget(), name=name, **more)
    return NewJob(new_job_id(now), tenant_id, 0, definition, now + SECOND, now + SECOND, Origin("test"))


class Place:
    """Two tenants with a job each, seen by the owner and through the wall."""

    def __init__(self, owner: Database, api: Database, first: int, second: int) -> None:
        self.owner = owner
        self.api = api
        self.first = first
        self.second = second


@pytest.fixture
def run(url: str) -> Callable[[Callable[[Place], Coroutine[Any, Any, None]]], None]:
    async def scenario(work: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
        owner = await open_database(url, name="owner", size=2)
        api, trouble = await open_walled(url, name="api", timeout=15, size=2)
        assert trouble is None
        try:
            rows = await owner.fetch("INSERT INTO tenants (name) VALUES ('first'), ('second') RETURNING id")
            place = Place(owner, api, *(row["id"] for row in rows))
            with acting_by_statement():
                await JobStore(api).define(
                    [_job(place.first, "of the first"), _job(place.second, "of the second")], system_now()
                )
            await work(place)
        finally:
            await api.close()
            await owner.close()

    return lambda work: uvloop.run(scenario(work))


def test_every_table_with_a_tenant_has_forced_policies(url: str) -> None:
    async def look() -> None:
        database = await open_database(url, name="test", size=1)
        rows = await database.fetch(TENANT_TABLES, API_ROLE)
        await database.close()
        tables = {row["name"]: row for row in rows if not row["partition"]}
        assert {"jobs", "executions", "history", "audit", "api_keys", "secrets", "idempotency"} <= set(tables)
        bare = [
            name
            for name, row in tables.items()
            if not row["forced"] or row["policies"] != ["engine", "own_tenant"]
        ]
        assert not bare, f"no forced policies on {bare}"
        # A partition is behind its parent's policies because it cannot be reached but through the parent.
        assert not [row["name"] for row in rows if row["partition"] and row["reachable"]]

    uvloop.run(look())


def test_the_role_can_neither_bypass_nor_own_nor_log_in(url: str) -> None:
    async def look() -> None:
        database = await open_database(url, name="test", size=1)
        role = await database.one("SELECT * FROM pg_roles WHERE rolname = $1", API_ROLE)
        owned = await database.fetch("SELECT FROM pg_class WHERE relowner = $1", role["oid"])
        await database.close()
        assert not any(role[right] for right in ("rolsuper", "rolbypassrls", "rolcanlogin", "rolcreaterole"))
        assert not owned

    uvloop.run(look())


def test_a_query_without_a_tenant_sees_the_acting_tenant_only(run: Any) -> None:
    async def work(place: Place) -> None:
        query = "SELECT name FROM jobs"
        assert await place.api.fetch(query) == []
        with acting_for(place.first):
            assert [row["name"] for row in await place.api.fetch(query)] == ["of the first"]
        with acting_for(place.second):
            assert [row["name"] for row in await place.api.fetch(query)] == ["of the second"]
        with acting_for(place.first, place.second):
            assert len(await place.api.fetch(query)) == 2
        assert await place.api.fetch(query) == [], "what a connection did before says nothing about now"
        assert len(await place.owner.fetch(query)) == 2, "engines plan for everybody"

    run(work)


def test_nothing_can_be_changed_or_removed_or_given_to_another_tenant(run: Any) -> None:
    async def work(place: Place) -> None:
        await place.owner.execute(
            "INSERT INTO lanes (cell, queue, priority, tenant_id, route) SELECT 0, 'default', 5, id, 'noop' FROM tenants"
            " ON CONFLICT DO NOTHING"
        )
        with acting_for(place.first):
            assert await place.api.execute("UPDATE jobs SET priority = 9") == "UPDATE 1"
            assert await place.api.execute("DELETE FROM lanes") == "DELETE 1"
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await place.api.execute("UPDATE jobs SET tenant_id = $1", place.second)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await JobStore(place.api).define([_job(place.second, "smuggled")], system_now())
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await place.api.execute(
                    "INSERT INTO lanes (cell, queue, priority, tenant_id, route) VALUES (0, 'default', 1, $1, 'noop')",
                    place.second,
                )
        rows = await place.owner.fetch("SELECT tenant_id, priority FROM jobs ORDER BY 1")
        assert [tuple(row) for row in rows] == [(place.first, 9), (place.second, 5)]

    run(work)


def test_a_batch_for_several_tenants_is_written_in_one_statement_and_leaves_nothing_set(run: Any) -> None:
    async def work(place: Place) -> None:
        jobs = [_job(place.first if n % 2 else place.second, f"job {n}") for n in range(20)]
        async with place.api.connection() as connection:
            await connection.execute("SELECT 1")
        with acting_by_statement():
            assert await JobStore(place.api).define(jobs, system_now()) == set()
            assert await place.api.fetch("SELECT FROM jobs") == [], "the setting ends with the statement"
        for tenant in (place.first, place.second):
            with acting_for(tenant):
                assert len(await place.api.fetch("SELECT FROM jobs")) == 11
                assert len(await place.api.fetch("SELECT FROM audit WHERE action = 'job.create'")) == 11

    run(work)


def test_the_audit_log_can_be_added_to_but_not_changed(run: Any) -> None:
    async def work(place: Place) -> None:
        with acting_for(place.first):
            for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit", "TRUNCATE audit"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await place.api.execute(statement)

    run(work)


def test_keys_are_found_by_id_and_read_by_nobody(run: Any) -> None:
    async def work(place: Place) -> None:
        await KeyStore(place.owner).put_bootstrap("a key of sixteen letters and more")
        found = await KeyStore(place.api).find("bootstrap")
        assert found is not None
        assert found.tenant == "default"
        with acting_for(found.tenant_id), pytest.raises(asyncpg.InsufficientPrivilegeError):
            await place.api.fetch("SELECT secret_hash FROM api_keys")

    run(work)


def test_a_search_by_tag_or_part_of_a_name_finds_its_index_behind_the_wall(run: Any) -> None:
    async def work(place: Place) -> None:
        with acting_by_statement():
            for _ in range(5):
                await JobStore(place.api).define(
                    [_job(place.first, f"report {new_job_id(n)}", tags=(f"t{n}",)) for n in range(500)],
                    system_now(),
                )
        await place.owner.execute("VACUUM (ANALYZE) jobs")
        with acting_for(place.first):
            found = (await JobListing(place.api).page(place.first, JobFilter(name="of the"), None, 10)).rows
            assert [row["name"] for row in found] == ["of the first"]
            plan = await place.api.fetch(
                "EXPLAIN SELECT * FROM own_jobs WHERE tenant_id = $1 AND lower(name) LIKE '%of the%'",
                place.first,
            )
            assert any("jobs_name_part" in row[0] for row in plan)
            found = (await JobListing(place.api).page(place.first, JobFilter(tags=("t7",)), None, 10)).rows
            assert [row["tags"] for row in found] == [["t7"]] * 5
            plan = await place.api.fetch(
                "EXPLAIN SELECT * FROM own_jobs WHERE tenant_id = $1 AND tags @> ARRAY['t7'] AND tags <> '{}'",
                place.first,
            )
            assert any("jobs_tags" in row[0] for row in plan)

    run(work)


def test_a_connection_whose_tenant_is_uncertain_is_told_again(run: Any) -> None:
    async def work(place: Place) -> None:
        async def give_up_at_once() -> None:
            with acting_for(place.first):
                await place.api.fetch("SELECT name FROM jobs")

        for wait in range(30):
            task = asyncio.create_task(give_up_at_once())
            for _ in range(wait):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await place.api.fetch("SELECT name FROM jobs") == []
            with acting_for(place.second):
                assert [row["name"] for row in await place.api.fetch("SELECT name FROM jobs")] == [
                    "of the second"
                ]

    run(work)


# An external database: its owner is an ordinary role.


@pytest.fixture(params=["NOCREATEROLE", "CREATEROLE"])
def external(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A database owned by a login that may or may not create roles."""
    login = f"external_{request.param.lower()}"
    url = cluster.empty_database()
    name = urlsplit(url).path[1:]

    async def prepare(*statements: str) -> None:
        connection = await open_connection(cluster.server.url, name="test setup")
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(
        prepare(f"CREATE ROLE {login} LOGIN {request.param}", f"ALTER DATABASE {name} OWNER TO {login}")
    )
    parts = urlsplit(url)
    yield urlunsplit(parts._replace(netloc=f"{login}@")), request.param
    cluster.drop(url)
    asyncio.run(prepare(f"DROP OWNED BY {login}", f"DROP ROLE {login}"))


def test_the_owner_of_an_external_database_works_and_the_api_says_whether_the_wall_stands(
    external: tuple[str, str],
) -> None:
    """The role is there already, made by another installation: this login may not turn into it. That is how
    an administrator who does not grant it looks, too."""
    url, rights = external

    async def scenario() -> None:
        await migrate(url)
        owner = await open_database(url, name="owner", size=1)
        await HistoryStore(owner).make_partitions(system_now())
        jobs = [_job(1, "one"), _job(1, "two")]
        assert await JobStore(owner).define(jobs, system_now()) == set()
        row = await owner.one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        assert not row["rolsuper"]
        assert len(await owner.fetch("SELECT FROM jobs")) == 2, (
            "the owner is not locked out by its own policies"
        )
        with pytest.raises(Refused, match="row-level security"):
            await open_walled(url, name="api", timeout=15, size=1, mode="required")
        api, trouble = await open_walled(url, name="api", timeout=15, size=1)
        assert trouble is not None
        assert API_ROLE in trouble
        with acting_for(1):
            assert len(await api.fetch("SELECT FROM jobs WHERE tenant_id = 1")) == 2
        await api.close()
        await owner.close()

    uvloop.run(scenario())
    assert rights


def test_an_administrator_raises_the_wall_of_an_external_database(
    external: tuple[str, str], cluster: Cluster
) -> None:
    url, _ = external

    async def scenario() -> None:
        await migrate(url)
        admin = await open_connection(cluster.server.url, name="administrator")
        await admin.execute(f"GRANT {API_ROLE} TO {urlsplit(url).username}")
        await admin.close()
        await migrate(url)
        api, trouble = await open_walled(url, name="api", timeout=15, size=1, mode="required")
        assert trouble is None
        assert await api.fetch("SELECT FROM jobs") == []
        with acting_by_statement():
            await JobStore(api).define([_job(1, "one")], system_now())
        with acting_for(1):
            (row,) = await api.fetch("SELECT id FROM jobs")
            assert isinstance(row["id"], UUID)
        with acting_for(2):
            assert await api.fetch("SELECT FROM jobs") == []
        await api.close()

    uvloop.run(scenario())


def test_after_a_change_of_owner_a_process_says_what_to_do_and_a_migration_does_it(
    external: tuple[str, str], cluster: Cluster
) -> None:
    """As after a backup was restored under another owner: the policies still name the one before."""
    url, _ = external
    login = urlsplit(url).username
    as_owner = cluster.url(urlsplit(url).path[1:])

    async def scenario() -> None:
        await migrate(url)
        database = await open_database(as_owner, name="administrator", size=1)
        await database.execute(f"CREATE ROLE {login}_heir LOGIN")
        await database.execute(f"ALTER SCHEMA tocsin OWNER TO {login}_heir")
        await database.execute(f"REASSIGN OWNED BY {login} TO {login}_heir")
        heir = await open_database(url.replace(f"{login}@", f"{login}_heir@"), name="heir", size=1)
        with pytest.raises(Refused, match="hide everything"):
            await check_installation(heir)
        await migrate(url.replace(f"{login}@", f"{login}_heir@"))
        await check_installation(heir)
        await heir.close()
        await database.execute(f"REASSIGN OWNED BY {login}_heir TO {login}")
        await database.execute(f"DROP OWNED BY {login}_heir")
        await database.execute(f"DROP ROLE {login}_heir")
        await database.close()

    uvloop.run(scenario())
