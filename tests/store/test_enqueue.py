"""`tocsin.enqueue` and `tocsin.enqueue_many`: in an application's own transaction, for its tenant alone."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.support.logins import Bound, bound
from tocsin.clock import system_now
from tocsin.db.migrations import migrations
from tocsin.db.notices import Notices
from tocsin.db.pool import open_database
from tocsin.db.presence import Presence
from tocsin.domain.audit import Origin
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import SECOND, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.limits import TenantLimits
from tocsin.domain.policy import Limit, Policies, Retry
from tocsin.domain.schedule import Schedule
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.task_target import TaskTarget
from tocsin.queue.claiming.directory import Directory
from tocsin.queue.claiming.entered_lanes import EnteredLanes
from tocsin.queue.claiming.late_entries import ENTERED, LateEntries
from tocsin.queue.claiming.looking import Looking
from tocsin.store.jobs import JobStore, NewJob
from tocsin.store.logins import LoginStore
from tocsin.store.tenants import TenantStore, tenant_of

__all__ = ["bound"]
LATEST_SHOWN = "9999-12-31T23:59:59.999999+00:00"
REFUSED = {
    "task": ["'bad name'", "NULL", "''", f"'{'a' * 129}'", "E'a\\nb'"],
    "queue": ["'x', queue => 'Bad'", "'x', queue => ''"],
    "priority": ["'x', priority => 10", "'x', priority => -1"],
    "run_at": ["'x', run_at => 'infinity'", "'x', run_at => '-infinity'", "'x', run_at => '10000-01-01Z'"],
    "trace": ["'x', trace => 'no'"],
    "tags": ["'x', tags => '{a,a}'", "'x', tags => ARRAY['a,b']", "'x', tags => ARRAY[E'a\\nb']", "'x', tags => '{\"\"}'"],
    "policies": ["'x', policies => '[]'", "'x', policies => 'null'"],
    "policies.overlap": ["""'x', policies => '{"overlap": "skip"}'"""],
    "policies.retry.max_attempts": [
        """'x', policies => '{"retry": {"max_attempts": 0}}'""", """'x', policies => '{"retry": {"max_attempts": 2.5}}'""",
        """'x', policies => '{"retry": {"max_attempts": "3"}}'""",
    ],
    "policies.retry.initial_backoff": ["""'x', policies => '{"retry": {"initial_backoff": "1h"}}'"""],
    "policies.timeout": ["""'x', policies => '{"timeout": "1x"}'""", """'x', policies => '{"timeout": 0}'"""],
    "policies.start_within": ["""'x', policies => '{"start_within": "1ms"}'"""],
    "policies.precision": ["""'x', policies => '{"precision": 3}'"""],
    "policies.limit": ["""'x', policies => '{"limit": {"key": "a"}}'"""],
    "policies.limit.key": ["""'x', policies => '{"limit": {"key": "", "rate": 1}}'""", """'x', policies => '{"limit": {"rate": 1}}'"""],
    "payload": [
        f"'x', '{'[' * 66 + ']' * 66}'", f"'x', '{json.dumps('a' * 262_144)}'", "'x', '1e400'", "'x', '{\"a\": [-1e309]}'",
    ],
    "unique_key": ["'x', unique_key => ''", "'x', unique_key => E'a\\nb'", f"'x', unique_key => '{'a' * 201}'"],
    "job_id": ["'x', job_id => gen_random_uuid()", "'x', job_id => '01800000-0000-7000-8000-000000000000'"],
}  # fmt: skip


async def _jobs(owner: Any) -> list[Any]:
    rows: list[Any] = await owner.fetch("SELECT j.* FROM jobs j JOIN executions e ON e.job_id = j.id")
    return rows


def test_what_is_committed_is_there_and_what_is_rolled_back_is_not(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        async with application.transaction():
            first = await application.fetchval("SELECT tocsin.enqueue('shop.send', '{\"order\": 17}')")
            assert await _jobs(owner) == [], "before the commit"
            savepoint = application.transaction()
            await savepoint.start()
            await application.fetchval("SELECT tocsin.enqueue('shop.send')")
            await savepoint.rollback()
        rolled_back = application.transaction()
        await rolled_back.start()
        await application.fetchval("SELECT tocsin.enqueue('shop.send')")
        await rolled_back.rollback()
        assert [row["id"] for row in await _jobs(owner)] == [first]
        lanes = await owner.fetch("SELECT * FROM lanes_entered")
        assert {(row["tenant_id"], row["route"]) for row in lanes} == {(bound.tenant, "task:shop.send")}
        noted = await owner.fetch("SELECT actor, tenant_id FROM audit WHERE action = 'job.create'")
        assert [tuple(row) for row in noted] == [(f"login:{bound.login}", bound.tenant)]

    bound.play(story)


_ONCE = "SELECT tocsin.enqueue('shop.send', unique_key => 'order:17')"


def test_while_a_call_under_a_key_is_live_its_job_is_returned(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        first = await application.fetchval(_ONCE)
        assert await application.fetchval(_ONCE) == first
        assert (
            await application.fetchval("SELECT tocsin.enqueue('shop.other', unique_key => 'order:17')")
            != first
        )
        await owner.execute("DELETE FROM executions WHERE job_id = $1", first)
        second = await application.fetchval(_ONCE)
        assert second != first
        # An id that is taken is an error of its own, not a key that another one has.
        with pytest.raises(asyncpg.UniqueViolationError):
            await application.fetchval(
                "SELECT tocsin.enqueue('shop.send', unique_key => 'order:18', job_id => $1)", second
            )

    bound.play(story)


def test_a_key_of_a_transaction_that_is_open_is_waited_for_and_one_job_is_made(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        other = await asyncpg.connect(bound.url)
        try:
            for commits in (False, True):
                transaction = application.transaction()
                await transaction.start()
                first = await application.fetchval(_ONCE)
                waiting = asyncio.create_task(other.fetchval(_ONCE))
                waits = (
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = $1"
                )
                while not await owner.fetchval(waits, bound.login):
                    await asyncio.sleep(0.01)
                await (transaction.commit() if commits else transaction.rollback())
                second = await waiting
                assert (second == first) is commits
                await owner.execute("DELETE FROM executions")
        finally:
            await other.close()

    bound.play(story)


def test_a_login_that_was_bound_before_there_were_keys_may_still_enqueue(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        (migration,) = (one for one in migrations() if one.number == 52)
        async with owner.transaction():
            await owner.execute("ALTER TABLE executions DROP COLUMN unique_key")
            await owner.execute(migration.sql)
        assert await application.fetchval(_ONCE) is not None

    bound.play(story)


def test_a_job_is_the_same_whether_the_api_or_a_login_wrote_it(bound: Bound) -> None:
    policies = Policies(
        retry=Retry(max_attempts=2), timeout="1m", start_within="1h30m", limit=Limit("customer", 3)
    )
    at = "2030-01-31T09:00:00Z"

    async def story(application: Any, owner: Any) -> None:
        database = await open_database(bound.owner_url, name="test", size=1)
        now, target = system_now(), TaskTarget("shop.send", {"order": 17}, f"00-{'1' * 32}-{'2' * 16}-01")
        definition = Definition(
            Schedule(at=at), target, queue="mail", priority=3, tags=("a",), policies=policies
        )
        job_id, fire_at = new_job_id(now), 1_896_080_400 * SECOND
        assert format_instant(fire_at) == at
        await JobStore(database).define(
            [NewJob(job_id, bound.tenant, shard_of(job_id, DEFAULT_SHARDS), definition, fire_at, fire_at)],
            now,
        )
        await database.close()
        mine = new_job_id(now)
        returned = await application.fetchval(
            "SELECT tocsin.enqueue('shop.send', $1::text::jsonb, $2::text::timestamptz, 'mail', 3, $3::text::jsonb, '{a}',"
            " $4, $5)",
            '{"order": 17}', at,
            '{"retry": {"max_attempts": 2}, "timeout": "1m", "start_within": "1h30m",'
            ' "limit": {"key": "customer", "max_parallel": 3}}',
            target.trace, mine,
        )  # fmt: skip
        assert returned == mine
        for table, key in (("jobs", "id"), ("executions", "job_id")):
            rows = {row[key]: dict(row) for row in await owner.fetch(f"SELECT * FROM {table}")}
            other = {key, "created_at", "updated_at", "shard"}
            assert {k: v for k, v in rows[mine].items() if k not in other} == {
                k: v for k, v in rows[job_id].items() if k not in other
            }
            if table == "jobs":
                assert rows[mine]["shard"] == shard_of(mine, DEFAULT_SHARDS)

    bound.play(story)


def test_what_makes_no_sense_is_refused_with_the_field_named(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        for field, calls in REFUSED.items():
            for call in calls:
                with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
                    await application.fetchval(f"SELECT tocsin.enqueue({call})")
                assert refused.value.detail == f"field: {field}", call
        with pytest.raises(asyncpg.UntranslatableCharacterError):
            await application.fetchval("SELECT tocsin.enqueue('x', $1::text::jsonb)", r'"\u0000"')
        with pytest.raises(asyncpg.InvalidParameterValueError, match="10,000"):
            await application.fetchval(
                "SELECT tocsin.enqueue_many('x', array_fill('1'::jsonb, ARRAY[10001]))"
            )
        assert await _jobs(owner) == []
        for fine in (
            f"'{'[' * 64 + ']' * 64}'",
            f"'\"{'1' * 400}\"'",
            "NULL",
            "'null'",
            "'18446744073709551616'",
        ):
            await application.fetchval(f"SELECT tocsin.enqueue('x', {fine})")
        for at in (LATEST_SHOWN, "0001-01-01T00:00:00+00:00"):
            await application.fetchval("SELECT tocsin.enqueue('x', run_at => $1::text::timestamptz)", at)
        assert len(await _jobs(owner)) == 7

    bound.play(story)


def test_a_login_reads_and_writes_nothing_whatever_it_sets(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        await owner.execute(
            "INSERT INTO jobs (cell, id, tenant_id, shard, kind, queue, priority, schedule, target, policies) VALUES"
            " (0, gen_random_uuid(), $1, 0, 'once', 'default', 5, '{}', '{}', '{}')", bound.other,
        )  # fmt: skip
        await application.execute(f"SET tocsin.tenants = '{bound.other}'; SET search_path = tocsin, public")
        tables = await owner.fetch(
            "SELECT relname, relkind = 'v' AS view FROM pg_class"
            " WHERE relnamespace = 'tocsin'::regnamespace AND relkind IN ('r', 'p', 'v')"
        )
        for row in tables:
            for statement in ("SELECT * FROM", "DELETE FROM", *(() if row["view"] else ("TRUNCATE",))):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await application.execute(f"{statement} tocsin.{row['relname']}")
        for role in ("tocsin_api", "postgres"):
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError)):
                await application.execute(f"SET ROLE {role}")
        # Even with a right to read, it sees its own.
        await owner.execute(f"GRANT SELECT ON jobs TO {bound.login}")
        try:
            mine = await application.fetchval("SELECT tocsin.enqueue('x')")
            assert [row["id"] for row in await application.fetch("SELECT id FROM tocsin.jobs")] == [mine]
        finally:
            await owner.execute(f"REVOKE SELECT ON jobs FROM {bound.login}")

    bound.play(story)


def test_temporary_tables_and_functions_of_a_login_are_not_taken_for_ours(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        await application.execute(
            "CREATE TEMP TABLE lanes (cell smallint, queue text, priority smallint, tenant_id integer, route text,"
            " used_at timestamptz);"
            "CREATE TEMP TABLE lanes_entered (LIKE lanes); CREATE TEMP TABLE tenant_logins (login name, tenant_id integer);"
            "CREATE TEMP TABLE jobs (id uuid); CREATE TEMP TABLE login_limits (tenant_id integer);"
            f"INSERT INTO tenant_logins VALUES ('{bound.login}', {bound.other});"
            "CREATE FUNCTION pg_temp.tocsin_now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';"
            "SET search_path = pg_temp, public, pg_catalog"
        )
        await application.fetchval("SELECT tocsin.enqueue('x')")
        assert [row["tenant_id"] for row in await _jobs(owner)] == [bound.tenant]
        assert await owner.fetchval("SELECT count(*) FROM lanes_entered") == 1
        assert await application.fetchval("SELECT count(*) FROM pg_temp.lanes") == 0

    bound.play(story)


def test_a_login_that_is_not_bound_and_a_suspended_tenant_are_refused(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="not bound") as refused:
            await owner.fetchval("SELECT tocsin.enqueue('x')")
        assert "bind-login" in refused.value.hint
        transaction = application.transaction()
        await transaction.start()
        await application.fetchval("SELECT tocsin.enqueue('x')")
        await owner.execute("SET lock_timeout = '5s'")
        # Suspending does not wait for the application's transaction.
        await owner.fetch("SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE", bound.tenant)
        await owner.execute("UPDATE tenants SET state = 'suspended' WHERE id = $1", bound.tenant)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="suspended"):
            await application.fetchval("SELECT tocsin.enqueue('x')")
        await transaction.rollback()
        await owner.execute("UPDATE tenants SET state = 'active' WHERE id = $1", bound.tenant)

    bound.play(story)


def test_the_limits_of_the_tenant_hold(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        database = await open_database(bound.owner_url, name="test", size=1)
        logins = LoginStore(database, 45.0, TenantLimits(pending_jobs=5, payload_bytes=100))
        await logins.count()
        async with application.transaction():
            for _ in range(3):
                await application.fetchval("SELECT tocsin.enqueue('x')")
            with pytest.raises(asyncpg.ConfigurationLimitExceededError, match="pending_jobs"):
                async with application.transaction():
                    await application.fetchval("SELECT tocsin.enqueue_many('x', '{1,2,3}')")
            await application.fetchval("SELECT tocsin.enqueue_many('x', '{1,2}')")
        await EnteredLanes(database, CELL).keep()
        await logins.count()
        with pytest.raises(asyncpg.ConfigurationLimitExceededError, match="has 5"):
            await application.fetchval("SELECT tocsin.enqueue('x')")
        await LoginStore(database, 45.0, TenantLimits(payload_bytes=100)).count()
        with pytest.raises(asyncpg.ConfigurationLimitExceededError, match="payload_bytes"):
            await application.fetchval("SELECT tocsin.enqueue('x', $1::text::jsonb)", json.dumps("a" * 101))
        await LoginStore(database, 45.0, TenantLimits()).count()
        await application.fetchval("SELECT tocsin.enqueue('x')")
        await database.close()

    bound.play(story)


def test_an_open_transaction_in_a_new_lane_holds_up_nobody_else(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        database = await open_database(bound.owner_url, name="test", size=2)
        async with application.transaction():
            await application.fetchval("SELECT tocsin.enqueue('shop.new')")
            now = system_now()
            job = NewJob(
                new_job_id(now), bound.tenant, 0, Definition(Schedule(at=format_instant(now)), TaskTarget("shop.new")), now, now
            )  # fmt: skip
            await asyncio.wait_for(JobStore(database).define([job], now), 10)
            assert await EnteredLanes(database, CELL).keep() == 0
        assert await owner.fetchval("SELECT count(*) FROM lanes_entered") == 1
        assert await EnteredLanes(database, CELL).keep() == 0, "the lane was there by then"
        await application.fetchval("SELECT tocsin.enqueue('shop.newer')")
        assert await EnteredLanes(database, CELL).keep() == 1
        assert await owner.fetchval("SELECT count(*) FROM lanes") == 2
        await database.close()

    bound.play(story)


@pytest.mark.parametrize("notify", [True, False])
def test_a_transaction_that_commits_long_after_is_found_at_once_by_its_notice(
    bound: Bound, notify: bool
) -> None:
    """Meanwhile the worker looked on, and its low marks have passed what the transaction wrote."""

    async def story(application: Any, owner: Any) -> None:
        database = await open_database(bound.owner_url, name="test", size=2)
        looking = Looking(database, CELL, Directory(["task:shop.late"]))
        notices, heard = Notices(Presence(bound.owner_url), "test"), asyncio.Event()
        notices.hear(ENTERED, LateEntries(looking).heard)
        notices.on("ready", heard.set)
        listening = asyncio.create_task(notices.run())
        await heard.wait()  # as after every connect
        heard.clear()
        # The lane is known, and its notice is not what wakes the worker below.
        await application.fetchval("SELECT tocsin.enqueue('shop.late', run_at => now() + interval '1 day')")
        now = system_now()
        async with application.transaction():
            await application.fetchval("SELECT tocsin.enqueue('shop.late', notify => $1)", notify)
            for seconds in range(0, 120, 4):
                await looking.look(now + seconds * SECOND)
        later = now + 120 * SECOND
        if notify:
            await asyncio.wait_for(heard.wait(), 10)
        views = await looking.look(later)
        found = [view.next_run_at for view in views if view.next_run_at <= later]
        assert bool(found) == notify
        if not notify:  # the look below finds it, as it finds everything
            assert await looking.look_below(later) == 1
            assert [v for v in await looking.look(later) if v.next_run_at <= later]
        listening.cancel()
        await database.close()

    bound.play(story)


def test_logins_that_rule_or_cannot_log_in_or_belong_to_others_are_not_bound(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        database = await open_database(bound.owner_url, name="test", size=1)
        store, tenants = LoginStore(database, 45.0, TenantLimits()), TenantStore(database)
        shop, other = [tenant_of(await tenants.get(name)) for name in ("shop", "other")]
        origin = Origin("test")
        with pytest.raises(NotFound, match="no role"):
            await store.bind(shop, "nobody; DROP TABLE jobs", origin)
        with pytest.raises(Conflict, match="cannot log in"):
            await store.bind(shop, "tocsin_api", origin)
        with pytest.raises(Conflict, match="owner"):
            await store.bind(shop, await owner.fetchval("SELECT session_user::text"), origin)
        with pytest.raises(Conflict, match="tenant shop"):
            await store.bind(other, bound.login, origin)
        with pytest.raises(NotFound):
            await store.unbind(other, bound.login, origin)
        await store.bind(shop, bound.login, origin)  # again: nothing changes
        await store.unbind(shop, bound.login, origin)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await application.fetchval("SELECT tocsin.enqueue('x')")
        await store.bind(shop, bound.login, origin)
        await application.fetchval("SELECT tocsin.enqueue('x')")
        assert [row["login"] for row in await store.list(shop)] == [bound.login]
        actions = await owner.fetch("SELECT action FROM audit WHERE action LIKE 'login.%' ORDER BY id")
        assert [row["action"] for row in actions] == ["login.unbind", "login.bind"]
        await database.close()

    bound.play(story)
