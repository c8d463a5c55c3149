"""The outbox: what was committed in another database is enqueued once, whatever the relay goes through."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import sqlalchemy
from click.testing import CliRunner

from tests.support.postgres import Cluster
from tocsin import App, Outbox, Unavailable
from tocsin.cli.outbox import outbox as command
from tocsin.domain.errors import Refused
from tocsin.sdk import outbox as sdk_outbox
from tocsin.sdk.outbox import Relay, install
from tocsin.testing.sandbox import Sandbox

app = App("shop")


@app.task
def pack(order: int) -> int:
    return order


@pytest.fixture(scope="module")
def opened(cluster: Cluster) -> Iterator[Sandbox]:
    sandbox = Sandbox.open(cluster.server.url)
    yield sandbox
    sandbox.close()


@pytest.fixture
def sandbox(opened: Sandbox) -> Sandbox:
    opened.reset()
    opened.serve(app)
    return opened


@pytest.fixture(params=["sqlite", "postgresql"])
def dsn(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """A database of an application's own."""
    made = f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else cluster.empty_database()
    install(made)
    install(made)
    yield made
    if request.param == "postgresql":
        cluster.drop(made)


def connect(dsn: str) -> Any:
    return (
        sqlite3.connect(dsn.removeprefix("sqlite:///")) if dsn.startswith("sqlite") else psycopg.connect(dsn)
    )


def orders(sandbox: Sandbox) -> list[int]:
    return sorted(entry.payload["order"] for entry in sandbox.advance("1d").of(pack))


def test_what_was_committed_is_enqueued_once_in_batches_and_the_rest_is_not(
    dsn: str, sandbox: Sandbox
) -> None:
    outbox, connection = Outbox(), connect(dsn)
    outbox.enqueue(connection, pack, 1)
    connection.commit()
    outbox.enqueue(connection, pack, 2)
    connection.rollback()
    outbox.enqueue(connection, pack.having(delay="1h", queue="slow"), 3)
    outbox.enqueue(connection, pack.having(unique="four"), 4)
    outbox.enqueue(connection, pack.having(unique="four"), 4)
    outbox.enqueue_json(connection, app.task_named("shop.pack"), {"order": 5})
    connection.commit()
    connection.close()
    relay = Relay.open(dsn, sandbox.client)
    assert [relay.run_once() for _ in range(2)] == [5, 0]
    relay.close()
    assert orders(sandbox) == [1, 3, 4, 5]


def test_a_relay_that_was_killed_sends_the_same_batch_again(dsn: str, sandbox: Sandbox) -> None:
    outbox, connection = Outbox(), connect(dsn)
    for order in range(3):
        outbox.enqueue(connection, pack, order)
    connection.commit()
    relay = Relay.open(dsn, sandbox.client)
    settle = relay._settle

    def die(*_: Any) -> None:
        raise Unavailable("the answer came, and nothing after it")

    relay._settle = die  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        relay.run_once()
    outbox.enqueue(connection, pack, 3)  # it comes between, and is in the next batch
    connection.commit()
    connection.close()
    relay._settle = settle  # type: ignore[method-assign]
    assert [relay.run_once() for _ in range(3)] == [3, 1, 0]
    relay.close()
    assert orders(sandbox) == [0, 1, 2, 3]


def test_what_is_refused_stays_with_its_reason_and_holds_up_nothing(dsn: str, sandbox: Sandbox) -> None:
    connection = connect(dsn)
    Outbox().enqueue(connection, pack, 1)
    place = "?" if dsn.startswith("sqlite") else "%s"
    columns = "id, task, payload, options, created_at"
    bad = ("0", "shop.pack", "{}", '{"schedule": {"in": 0}, "queue": "no such name!"}', "")
    connection.cursor().execute(
        f"INSERT INTO tocsin_outbox ({columns}) VALUES ({', '.join([place] * 5)})", bad
    )
    connection.commit()
    relay = Relay.open(dsn, sandbox.client)
    assert [relay.run_once() for _ in range(2)] == [2, 0]
    relay.close()
    cursor = connection.cursor()
    cursor.execute("SELECT id, refused FROM tocsin_outbox")
    [(row, refused)] = cursor.fetchall()
    assert (row, "queue" in refused or "name" in refused) == ("0", True)
    connection.close()
    assert orders(sandbox) == [1]


class Jobs:
    """Stands for the API: takes rows by what they say, and notes under which keys they came."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, int]] = []
        self.taken: list[int] = []
        self.full = False

    def create_many(self, jobs: list[Any], *, idempotency_key: str) -> dict[str, Any]:
        self.keys.append((idempotency_key, len(jobs)))
        if any(job["target"]["payload"]["order"] < 0 for job in jobs):
            raise Refused("a payload that nobody can read")
        return {"complete": True, "items": [self._item(place, job) for place, job in enumerate(jobs)]}

    def create(self, *, idempotency_key: str, **job: Any) -> None:
        answer = self.create_many([job], idempotency_key=idempotency_key)
        if "problem" in answer["items"][0]:
            raise Refused(answer["items"][0]["problem"]["detail"])

    def _item(self, place: int, job: Any) -> dict[str, Any]:
        order = job["target"]["payload"]["order"]
        if self.full and order > 1:
            return {"index": place, "problem": {"status": 409, "detail": "no room"}}
        self.taken.append(order)
        return {"index": place, "id": f"job_{order}"}


class Desk:
    """An outbox with these orders in it, and a relay to an API that a test plays."""

    def __init__(self, orders: list[int]) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute(sdk_outbox._CREATE)
        for order in orders:
            Outbox().enqueue(self.connection, pack, order)
        self.jobs = Jobs()
        self.relay = Relay(self.connection, SimpleNamespace(jobs=self.jobs))  # type: ignore[arg-type]

    def left(self) -> list[tuple[Any, ...]]:
        return self.connection.execute("SELECT batch, refused FROM tocsin_outbox ORDER BY id").fetchall()


def test_what_the_server_has_no_room_for_now_is_sent_again_later_and_the_rest_is_over() -> None:
    desk = Desk([1, 2, 3])
    desk.jobs.full = True
    with pytest.raises(Unavailable, match="2 are sent again later: no room"):
        desk.relay.run_once()
    assert desk.left() == [(None, None)] * 2
    desk.jobs.full = False
    assert desk.relay.run_once() == 2
    assert (sorted(desk.jobs.taken), desk.left()) == ([1, 2, 3], [])


def test_a_row_for_which_a_whole_request_is_refused_is_found_and_the_others_are_sent() -> None:
    desk = Desk([1, -1, 2])
    assert [desk.relay.run_once() for _ in range(2)] == [3, 0]
    assert sorted(desk.jobs.taken) == [1, 2]
    assert desk.left() == [(None, "a payload that nobody can read")]


def test_large_rows_go_in_several_requests_and_in_the_same_ones_when_they_are_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk([1, 2, 3, 4, 5])
    monkeypatch.setattr(sdk_outbox, "_PART", 100)  # bytes, of rows of about fifty
    settle = desk.relay._settle
    desk.relay._settle = lambda *_: None  # type: ignore[method-assign]
    desk.relay.run_once()
    desk.relay._settle = settle  # type: ignore[method-assign]
    desk.relay.run_once()
    first, again = desk.jobs.keys[: len(desk.jobs.keys) // 2], desk.jobs.keys[len(desk.jobs.keys) // 2 :]
    assert len(first) > 1
    assert (sum(number for _, number in first), first) == (5, again)
    assert desk.left() == []


def test_a_session_of_sqlalchemy_has_an_outbox_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    install(url)
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        row = Outbox().enqueue(connection, pack, 1)
        found = connection.execute(sqlalchemy.text("SELECT id, payload FROM tocsin_outbox")).all()
    engine.dispose()
    assert found == [(row, '{"order":1}')]
    with pytest.raises(TypeError, match="no connection"):
        Outbox().enqueue(object(), pack, 1)


def test_commands_make_the_table_and_say_what_is_wrong(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path}/shop.db"
    made = CliRunner().invoke(command, ["install", "--dsn", dsn])
    assert (made.exit_code, made.output) == (0, "the table tocsin_outbox is ready\n")
    relayed = CliRunner().invoke(command, ["relay", "--dsn", dsn, "--once", "--api-key", "k"])
    assert (relayed.exit_code, relayed.output) == (0, "0 sent\n")
    wrong = CliRunner().invoke(command, ["install", "--dsn", "oracle://x"])
    assert (wrong.exit_code, "sqlite:///" in wrong.output) == (1, True)
    with pytest.raises(Refused, match="postgresql"):
        install("mysql://x")
