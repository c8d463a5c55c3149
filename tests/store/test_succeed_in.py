"""A task that settles itself in its own transaction: its effects and its end are there together, or not."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row

from tests.support.logins import Bound, bound
from tests.support.postgres import Cluster
from tocsin import App, Retry, current, succeed_in, succeed_in_async
from tocsin.domain.ids import parse_execution_text, parse_job_text
from tocsin.testing.sandbox import Sandbox

__all__ = ["bound"]
_MAKE = "CREATE TABLE IF NOT EXISTS effects (number integer); TRUNCATE effects"
_OWN_EXECUTION = """
    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route, claim_token, node_id,
                            deadline_at, started_at)
    VALUES (0, $1, now(), $2, 'default', 5, now(), now(), 'task:a', 17, 1, now() + interval '1 minute', now())
    RETURNING fire_at
"""


class Stage:
    """A sandbox and the application's connections into its database."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.app = App("bank")
        with self.connect() as application:
            application.execute(_MAKE)

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(self.sandbox.database_url)

    def owner(self) -> "psycopg.Connection[dict[str, Any]]":
        options = "-c search_path=tocsin"
        return psycopg.connect(self.sandbox.url, autocommit=True, row_factory=dict_row, options=options)

    def effects(self) -> list[int]:
        with self.connect() as application:
            return [number for (number,) in application.execute("SELECT number FROM effects ORDER BY 1")]

    def leftovers(self) -> int:
        with self.owner() as owner:
            return len(owner.execute("SELECT FROM settlements").fetchall())


@pytest.fixture(scope="module")
def opened(cluster: Cluster) -> Iterator[Sandbox]:
    sandbox = Sandbox.open(cluster.server.url)
    yield sandbox
    sandbox.close()


@pytest.fixture
def stage(opened: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Stage:
    opened.reset()
    opened.adopt(monkeypatch.setattr)
    return Stage(opened)


def test_effects_and_the_end_are_there_together_whatever_comes_after(stage: Stage) -> None:
    @stage.app.task(retry=Retry(max_attempts=3))
    def pay(number: int) -> dict[str, int]:
        with stage.connect() as connection:
            connection.execute("INSERT INTO effects VALUES (%s)", (number,))
            succeed_in(connection, {"paid": number})
        raise ConnectionError("the process died, as far as anybody knows")

    handle = pay.enqueue(17)
    ledger = stage.sandbox.advance("1h")
    assert handle.result() == {"paid": 17}
    assert [(entry.state, entry.attempts) for entry in ledger.of(pay)] == [("succeeded", 1)]
    assert stage.effects() == [17]
    assert stage.leftovers() == 0


def test_without_a_commit_there_is_neither_and_the_next_attempt_does_both(stage: Stage) -> None:
    @stage.app.task(retry=Retry(max_attempts=3))
    def pay() -> int:
        with stage.connect() as connection:
            connection.execute("INSERT INTO effects VALUES (%s)", (current().attempt,))
            succeed_in(connection, "replaced")
            succeed_in(connection, current().attempt)
            if current().attempt == 1:
                raise ConnectionError("before the commit")
        return 0  # of no account

    handle = pay.enqueue()
    ledger = stage.sandbox.advance("1h")
    assert (handle.result(), stage.effects()) == (2, [2])
    assert [(entry.state, entry.attempts) for entry in ledger.of(pay)] == [("succeeded", 2)]


@pytest.mark.parametrize("before", [True, False], ids=["before it settles", "before it commits"])
def test_an_attempt_that_lost_its_claim_keeps_nothing(stage: Stage, *, before: bool) -> None:
    codes: list[str | None] = []

    def lose() -> None:
        with stage.owner() as owner:
            owner.execute("UPDATE executions SET claim_token = 1 WHERE claim_token IS NOT NULL")

    @stage.app.task
    def pay() -> None:
        try:
            with stage.connect() as connection:
                connection.execute("INSERT INTO effects VALUES (1)")
                if before:
                    lose()
                succeed_in(connection)
                if not before:
                    lose()
        except psycopg.Error as error:
            codes.append(error.sqlstate)
            raise

    pay.enqueue()
    stage.sandbox.drain()
    assert (codes, stage.effects(), stage.leftovers()) == (["55000"], [], 0)


def test_a_heartbeat_does_not_wait_for_a_transaction_that_stays_open(stage: Stage) -> None:
    @stage.app.task
    def pay() -> None:
        with stage.connect() as connection:
            succeed_in(connection)
            with stage.owner() as owner:
                owner.execute("SELECT FROM executions FOR NO KEY UPDATE NOWAIT")

    pay.enqueue()
    (entry,) = stage.sandbox.drain()
    assert entry.state == "succeeded"


def test_a_connection_that_is_awaited_settles_too(stage: Stage) -> None:
    @stage.app.task
    async def pay() -> list[Any]:
        connection = await asyncpg.connect(stage.sandbox.database_url)
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO effects VALUES (3)")
                await succeed_in_async(connection, [1, "é"])
        finally:
            await connection.close()
        return []

    handle = pay.enqueue()
    stage.sandbox.drain()
    assert (handle.result(), stage.effects()) == ([1, "é"], [3])


@pytest.mark.parametrize(
    "life",
    [
        "attempt = 1",
        "cause = 'rerun', origin_fire_at = fire_at - interval '1 hour'",
        "cause = 'backfill', backfill_id = 7",
        """late_for = 'place', waits = '[{"for": "slot", "since": 1, "until": 2}]'""",
        """waits_for = NULL, waits = '[{"for": "host", "since": 1}]', missed_after = run_at, start_by = run_at + interval '1 day'""",
        "started_at = started_at + interval '1 hour'",
        "queue = 'night', priority = 2, cancel_requested = true, cancel_reason = 'too late'",
        "limit_key = 'mail', overlap = 'queue', has_turn = true",
    ],
)
@pytest.mark.parametrize("failures", [0, 1])
def test_history_says_the_same_as_of_a_task_that_returned(stage: Stage, life: str, failures: int) -> None:
    """Whatever the execution has gone through before its end."""

    def live() -> None:
        if current().attempt <= failures:
            raise ConnectionError("not yet")
        with stage.owner() as owner:
            job = parse_execution_text(current().execution_id).job_id
            owner.execute(f"UPDATE executions SET {life} WHERE job_id = %s", (job,))

    @stage.app.task(retry=Retry(max_attempts=2))
    def returns() -> list[int]:
        live()
        return [1, 2]

    @stage.app.task(retry=Retry(max_attempts=2))
    def settles() -> None:
        live()
        with stage.connect() as connection:
            succeed_in(connection, [1, 2])

    handles = [returns.enqueue(), settles.enqueue()]
    stage.sandbox.advance("1h")
    ordinary, settled = (_history_of(stage, parse_job_text(handle.job_id)) for handle in handles)
    assert settled == ordinary
    assert (ordinary["state"], len(ordinary["attempts"])) == ("succeeded", failures)


def _history_of(stage: Stage, job: UUID) -> dict[str, Any]:
    """The row of a job's execution, times as they lie to one another."""
    with stage.owner() as owner:
        row = owner.execute("SELECT * FROM history WHERE job_id = %s", (job,)).fetchone()
    assert row is not None
    assert None not in (row["claim_token"], row["worker_id"])
    assert row["started_at"] <= row["finished_at"]
    began, origin = row["started_at"], row["origin_fire_at"]
    row |= {
        "attempts": [(one["number"], one["verdict"], one["error"]) for one in row["attempts"] or ()],
        "origin_fire_at": origin and row["fire_at"] - origin,
        "finished_at": row["finished_at"] == began,
    }
    own = {"job_id", "claim_token", "worker_id", "fire_at", "due_at", "run_at", "started_at"}
    return {name: value for name, value in row.items() if name not in own}


def test_the_next_execution_of_a_job_that_must_not_overlap_is_woken(stage: Stage) -> None:
    woken: list[bool] = []

    @stage.app.task
    def nightly() -> None:
        job, owner = parse_execution_text(current().execution_id).job_id, stage.owner()
        sleeping = "UPDATE executions SET waits_for = 'turn', run_at = run_at + interval '20 seconds' WHERE job_id = %s AND started_at IS NULL RETURNING fire_at"
        (waiting,) = owner.execute(sleeping, (job,)).fetchall()
        with stage.connect() as connection:
            succeed_in(connection)
        look = "SELECT run_at <= tocsin_now() AS due FROM executions WHERE job_id = %s AND fire_at = %s"
        row = owner.execute(look, (job, waiting["fire_at"])).fetchone()
        woken.append(bool(row and row["due"]))
        owner.execute("DELETE FROM executions WHERE job_id = %s", (job,))
        owner.close()

    stage.sandbox.serve(stage.app)
    target = {"kind": "task", "task": "bank.nightly"}
    job = stage.sandbox.client.jobs.create(
        name="nightly", schedule={"cron": "0 0 1 1 *"}, target=target, overlap="queue"
    )
    for _ in range(2):
        stage.sandbox.client.jobs.run(job["id"])
    stage.sandbox.drain()
    assert woken == [True]


def test_a_login_settles_what_its_tenant_has_and_nothing_else(bound: Bound) -> None:
    async def story(application: Any, owner: Any) -> None:
        for tenant, there in ((bound.other, False), (bound.tenant, True)):
            job = uuid4()
            fire_at = await owner.fetchval(_OWN_EXECUTION, job, tenant)
            for token, right in ((18, False), (17, there)):
                try:
                    await application.execute("SELECT tocsin.succeed($1, $2, $3)", job, fire_at, token)
                except asyncpg.ObjectNotInPrerequisiteStateError:
                    assert not right
                else:
                    assert right
            left = await owner.fetchval("SELECT count(*) FROM executions WHERE job_id = $1", job)
            assert left == (0 if there else 1)
        with pytest.raises(asyncpg.InvalidParameterValueError, match="larger than 256 KiB"):
            await application.execute(
                "SELECT tocsin.succeed($1, now(), 1, to_jsonb(repeat('x', 300000)))", uuid4()
            )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await application.execute("INSERT INTO tocsin.settlements VALUES (0, $1, now(), 1, 1)", uuid4())

    bound.play(story)
