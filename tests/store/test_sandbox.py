"""The sandbox that users' tests run in: what happens there is what would happen in earnest, only that time
passes when the test says so."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy

from tests.support.postgres import Cluster
from tocsin import App, Limit, Postpone, RetryAfter, TaskFailed, current, enqueue_in
from tocsin.domain.errors import Refused
from tocsin.testing import database
from tocsin.testing.sandbox import Sandbox


@pytest.fixture(scope="module")
def opened(cluster: Cluster) -> Iterator[Sandbox]:
    sandbox = Sandbox.open(cluster.server.url)
    yield sandbox
    sandbox.close()


@pytest.fixture
def sandbox(opened: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    opened.reset()
    opened.adopt(monkeypatch.setattr)
    return opened


def test_a_test_begins_with_nothing_whatever_was_before(sandbox: Sandbox) -> None:
    app = App("shop")

    @app.task(queue="other")
    def work() -> None: ...

    began = sandbox.now
    work.having(delay="1d").enqueue()
    work.enqueue()
    assert len(sandbox.advance("1h")) == 1
    sandbox.reset()
    assert sandbox.now == began
    assert (sandbox.waiting(work), len(sandbox.advance("2d"))) == ([], 0)
    assert list(sandbox.client.jobs.list()) == []


def test_processes_that_share_a_server_make_the_template_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_schema", lambda: "shared")
    made: list[str] = []
    make = database._make_template

    async def noting(server_url: str, template: str) -> None:
        made.append(template)
        await make(server_url, template)

    async def both() -> list[str]:
        url = cluster.server.url
        return list(await asyncio.gather(database.find_template(url), database.find_template(url)))

    monkeypatch.setattr(database, "_make_template", noting)
    assert asyncio.run(both()) == ["tocsin_sandbox_shared"] * 2
    assert made == ["tocsin_sandbox_shared"]


def test_tasks_ask_for_their_own_waits_and_enqueue_each_other(sandbox: Sandbox) -> None:
    app = App("shop")
    seen: list[str] = []

    @app.task
    async def patient() -> str:
        seen.append(f"{current().attempt} at {current().fire_at:%S}")
        if len(seen) == 1:
            raise Postpone("10m", "not yet")
        if len(seen) == 2:
            raise RetryAfter("30m")
        child.having(delay="5m").enqueue("a")
        return "done"

    @app.task
    def child(name: str) -> str:
        current().log.info("hello", name=name)
        return name

    handle = patient.enqueue()
    ledger = sandbox.advance("40m")
    assert [entry.task for entry in ledger] == ["shop.patient"]
    assert (handle.result(), ledger.of(handle)[0].attempts) == ("done", 2)
    assert seen == ["1 at 20", "1 at 20", "2 at 20"]
    [entry] = sandbox.advance("5m").of(child)
    assert (entry.result, entry.payload) == ("a", {"name": "a"})
    lines = list(sandbox.client.executions.logs(entry.id))
    assert [line["message"] for line in lines] == ["hello"]
    assert len(sandbox.ledger()) == 2


def test_limits_and_cancellations_hold_while_attempts_take_their_time(sandbox: Sandbox) -> None:
    app = App("shop")

    @app.task(limit=Limit("two", max_parallel=2), timeout="1m")
    def work(number: int) -> int:
        return number

    sandbox.slow(work, by="20s")
    handles = [work.enqueue(number) for number in range(5)]
    assert len(sandbox.drain()) == 0
    assert [handle.state() for handle in handles].count("running") == 2
    running = next(handle for handle in handles if handle.state() == "running")
    assert running.cancel() == "cancel_requested"
    assert len(sandbox.advance("1m")) == 5
    with pytest.raises(TaskFailed, match="cancelled"):
        running.result()
    sandbox.slow(work, by="2m")
    late = work.having(retry=None).enqueue(7)
    [entry] = sandbox.advance("30m").of(late)
    assert (entry.state, len(entry.errors)) == ("dead", 5)


def test_paused_jobs_and_queues_run_when_their_pause_ends(sandbox: Sandbox) -> None:
    app = App("shop")

    @app.task(queue="mail")
    def send() -> None: ...

    sandbox.serve(app)
    target = {"kind": "task", "task": "shop.send"}
    job = sandbox.client.jobs.create(name="hourly", schedule={"every": "1h"}, target=target, queue="mail")
    sandbox.client.jobs.pause(job["id"], until="2030-07-01T05:30:00Z")
    assert [entry.state for entry in sandbox.advance("3h")].count("succeeded") == 0
    assert [entry.state for entry in sandbox.advance("4h")].count("succeeded") >= 1
    sandbox.client.queues.pause("mail", until="2030-07-02T00:00:00Z")
    once = send.enqueue()
    assert len(sandbox.advance("1h").of(once)) == 0
    assert len(sandbox.advance("1d").of(once)) == 1


def test_a_transaction_of_the_test_sees_what_it_enqueues_before_it_commits(sandbox: Sandbox) -> None:
    app = App("shop")

    @app.task
    def work(number: int) -> int:
        return number

    sandbox.serve(app)
    engine = sqlalchemy.create_engine(sandbox.database_url.replace("postgresql:", "postgresql+psycopg:"))
    with psycopg.connect(sandbox.database_url) as connection, engine.connect() as other:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (number integer)")
        enqueue_in(connection, work, 1)
        sandbox.assert_enqueued(work, number=1, connection=connection)
        sandbox.refute_enqueued(work)
        sandbox.refute_enqueued(work, connection=other)
        connection.rollback()
        assert len(sandbox.advance("1m")) == 0
        enqueue_in(connection, work, 2)
    assert [entry.result for entry in sandbox.drain()] == [2]
    engine.dispose()


def test_what_makes_no_sense_is_refused_in_words(sandbox: Sandbox) -> None:
    app = App("shop")

    @app.task
    def work(number: int) -> None:
        sandbox.advance("1s")

    with pytest.raises(Refused, match="does not go back"):
        sandbox.advance(to="2020-01-01T00:00:00Z")
    with pytest.raises(Refused, match="give a span"):
        sandbox.advance()
    work.having(delay="1h").enqueue(1)
    with pytest.raises(
        AssertionError, match=r"shop.work\(number=2\) is not enqueued; its calls are .*'number': 1"
    ):
        sandbox.assert_enqueued(work, number=2)
    with pytest.raises(AssertionError, match=r"shop.work\(number=1\) within 2h is enqueued"):
        sandbox.refute_enqueued(work, number=1, within="2h")
    [entry] = sandbox.advance("2h").of(work)
    assert "time passes already" in entry.errors[0]
