"""An outbox: tasks that are enqueued in a transaction of a database that is not Tocsin's.

The application inserts a row in its own transaction (`Outbox.enqueue`). A relay reads rows in the order of
their ids, sends them in batches, and deletes what was accepted. Before a batch is sent its name is written to
its rows, so a relay that was killed sends the very same batch again, under the same idempotency key: at least
once on the wire, once in Tocsin. A row that the API refuses stays, with the reason, and holds up nothing.
What it has no room for now is sent again later.
"""

import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from tocsin.domain.errors import Refused, Unauthorized, Unavailable
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import SECOND, format_instant, parse_span
from tocsin.sdk.task import NamedTask, Task
from tocsin.sdk.transactions import connection_kind

if TYPE_CHECKING:
    from tocsin.sdk.client.sync import Client

P = ParamSpec("P")
BATCH: Final = 1000
_PART: Final = 8 * 1024 * 1024
"""About how many bytes one request has."""
_LATER: Final = frozenset({408, 409, 429, 503})
"""Statuses of what may be accepted another time."""
_TABLE: Final = "tocsin_outbox"
_CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (id varchar(36) PRIMARY KEY, task varchar(128) NOT NULL, payload text NOT NULL,"
    " options text NOT NULL, created_at varchar(32) NOT NULL, batch varchar(36), refused text)"
)
_COLUMNS: Final = ("id", "task", "payload", "options", "created_at")
_INSERT: Final = f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) VALUES "  # noqa: S608 - names of our own
_STRANDED: Final = f"SELECT batch FROM {_TABLE} WHERE batch IS NOT NULL ORDER BY id LIMIT 1"  # noqa: S608
_FRESH: Final = f"SELECT id FROM {_TABLE} WHERE batch IS NULL AND refused IS NULL ORDER BY id LIMIT {BATCH}"  # noqa: S608
_MARK: Final = f"UPDATE {_TABLE} SET batch = ? WHERE id = ?"  # noqa: S608
_READ: Final = f"SELECT id, task, payload, options FROM {_TABLE} WHERE batch = ? ORDER BY id"  # noqa: S608
_FREE: Final = f"UPDATE {_TABLE} SET batch = NULL WHERE id = ?"  # noqa: S608
_DELETE: Final = f"DELETE FROM {_TABLE} WHERE id = ?"  # noqa: S608
_REFUSE: Final = f"UPDATE {_TABLE} SET batch = NULL, refused = ? WHERE id = ?"  # noqa: S608
_ALONE: Final = ("unique", "debounce")
"""Options that a batch does not take."""


class Outbox:
    """Where the application puts tasks: a table of its own database."""

    def enqueue(self, connection: Any, task: Task[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Put a call of a task into the outbox, in the transaction that `connection` is in. Returns the row's
        id."""
        return self._insert(connection, task.name, task.options, task.signature.payload(args, kwargs))

    def enqueue_json(self, connection: Any, task: NamedTask, payload: Any = None, /, **options: Any) -> str:
        """The same for a task of another service."""
        from tocsin.sdk.options import Options  # noqa: PLC0415 - of few callers

        return self._insert(connection, task.name, Options(**options), payload)

    def _insert(self, connection: Any, task: str, options: Any, payload: Any) -> str:
        now = round(time.time() * SECOND)
        body = options.job({}, payload if isinstance(payload, dict) else {})
        del body["target"]
        if options.delay is not None:  # from now on, not from when the relay comes to it
            body["schedule"] = {"at": format_instant(now + parse_span(options.delay, "delay"))}
        if (trace := options.asked_by) is not None:
            body["trace"] = trace
        values = {
            "id": str(new_job_id(now)),
            "task": task,
            "payload": msgspec.json.encode(payload).decode(),
            "options": msgspec.json.encode(body).decode(),
            "created_at": format_instant(now),
        }
        _execute(connection, values)
        return values["id"]


class Database(Protocol):
    """As much of a connection by Python's database API as a relay uses."""

    def cursor(self) -> Any: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class _Problem(NamedTuple):
    """Why a row was not accepted."""

    status: int
    detail: str


class Relay:
    """Sends what is in an outbox. Several may work on one: what both send is created once."""

    def __init__(self, connection: Database, client: "Client", *, place: str = "?", lock: str = "") -> None:
        self._connection = connection
        self._client = client
        self._place = place
        self._lock = lock

    @classmethod
    def open(cls, dsn: str, client: "Client") -> "Relay":
        """A relay of the outbox in a database: ``sqlite:///shop.db`` or ``postgresql://…``."""
        connection, postgres = connect(dsn)
        return cls(
            connection,
            client,
            place="%s" if postgres else "?",
            lock=" FOR UPDATE SKIP LOCKED" if postgres else "",
        )

    def run_once(self) -> int:
        """Send one batch. Returns how many rows it had; 0: the outbox is empty, but for what was refused."""
        try:
            batch = self._stranded() or self._mark()
            rows = self._run(_READ, batch) if batch else []
            self._connection.commit()  # no transaction stays open while the server is asked
            if rows:
                self._settle(rows, self._send(str(batch), rows))
        except BaseException:
            self._connection.rollback()
            raise
        return len(rows)

    def close(self) -> None:
        """Let go of the database."""
        getattr(self._connection, "close", lambda: None)()

    def _stranded(self) -> str | None:
        """A batch that was to be sent and may not have been."""
        found = self._run(_STRANDED)
        return found[0][0] if found else None

    def _mark(self) -> str | None:
        """Name the next batch. Its name is on disk before it is sent."""
        batch = str(uuid4())
        fresh = self._run(_FRESH + self._lock)
        for (row,) in fresh:
            self._run(_MARK, batch, row)
        self._connection.commit()
        return batch if fresh else None

    def _send(self, batch: str, rows: Sequence[Sequence[str]]) -> "dict[str, _Problem | None]":
        """What was wrong with each row; None if it was accepted."""
        bodies = {row[0]: _body(*row[1:]) for row in rows}
        alone = [row for row, body in bodies.items() if any(name in body for name in _ALONE)]
        fates = {row: self._send_one(row, bodies.pop(row)) for row in alone}
        sizes = {row: len(payload) + len(options) for row, _, payload, options in rows}
        for number, part in enumerate(_parts(list(bodies), sizes)):
            key = f"{batch}:{number}" if number else batch
            fates |= self._send_part(key, {row: bodies[row] for row in part})
        return fates

    def _send_part(self, key: str, bodies: Mapping[str, Mapping[str, Any]]) -> "dict[str, _Problem | None]":
        try:
            answer = self._client.jobs.create_many(list(bodies.values()), idempotency_key=key)
        except Unauthorized:
            raise
        except Refused as error:
            if error.status in _LATER:
                raise Unavailable(error.detail) from error
            # Nothing of it was accepted. One of them is to blame, and by itself it is told so.
            return {row: self._send_one(row, body) for row, body in bodies.items()}
        if not answer["complete"]:
            raise Unavailable("the batch broke off; it is sent once more")
        names = list(bodies)
        fates: dict[str, _Problem | None] = dict.fromkeys(names)
        for item in answer["items"]:
            if (problem := item.get("problem")) is not None:
                fates[names[item["index"]]] = _Problem(problem["status"], str(problem["detail"]))
        return fates

    def _send_one(self, row: str, body: Mapping[str, Any]) -> "_Problem | None":
        try:
            self._client.jobs.create(**body, idempotency_key=row)
        except Unauthorized:
            raise
        except Refused as error:
            return _Problem(error.status, error.detail)
        return None

    def _settle(self, rows: Sequence[Sequence[str]], fates: "Mapping[str, _Problem | None]") -> None:
        later: list[str] = []
        for row, *_ in rows:
            problem = fates[row]
            if problem is None:
                self._run(_DELETE, row)
            elif problem.status in _LATER:
                self._run(_FREE, row)  # it was not created, and goes with another batch
                later.append(problem.detail)
            else:
                self._run(_REFUSE, problem.detail, row)
        self._connection.commit()
        if later:
            raise Unavailable(f"{len(later)} are sent again later: {later[0]}")

    def _run(self, statement: str, *values: Any) -> list[Any]:
        cursor = self._connection.cursor()
        try:
            cursor.execute(statement.replace("?", self._place), values)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()


def _parts(rows: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Rows in requests of bounded size; the same rows come in the same parts each time."""
    part: list[str] = []
    size = 0
    for row in rows:
        if part and size + sizes[row] > _PART:
            yield part
            part, size = [], 0
        part.append(row)
        size += sizes[row]
    if part:
        yield part


def install(dsn: str) -> None:
    """Make the table of an outbox, unless it is there."""
    connection, _ = connect(dsn)
    try:
        connection.cursor().execute(_CREATE)
        connection.commit()
    finally:
        connection.close()


def connect(dsn: str) -> tuple[Any, bool]:
    """A connection to the application's database, and whether it is PostgreSQL."""
    kind = urlsplit(dsn).scheme
    if kind == "sqlite":
        return importlib.import_module("sqlite3").connect(urlsplit(dsn).path[1:]), False
    if kind in ("postgresql", "postgres"):
        try:
            psycopg = importlib.import_module("psycopg")
        except ImportError:
            raise Refused("an outbox in PostgreSQL needs psycopg: pip install psycopg", field="dsn") from None
        return psycopg.connect(dsn), True
    raise Refused("give sqlite:///… or postgresql://…", field="dsn")


def _body(task: str, payload: str, options: str) -> dict[str, Any]:
    body = msgspec.json.decode(options)
    target = {"kind": "task", "task": task, "payload": msgspec.json.decode(payload)}
    if (trace := body.pop("trace", None)) is not None:
        target["trace"] = trace
    return {**body, "target": target}


def _execute(connection: Any, values: Mapping[str, str]) -> None:
    """Insert a row through whatever the application works with."""
    if isinstance(connection, str):
        connection = importlib.import_module("django.db").connections[connection]
    kind = connection_kind(connection)
    if kind == "sqlalchemy":
        text = importlib.import_module("sqlalchemy").text
        connection.execute(text(_INSERT + f"({', '.join(f':{name}' for name in _COLUMNS)})"), dict(values))
        return
    if not hasattr(connection, "cursor"):
        raise TypeError(f"{type(connection).__qualname__} is no connection that an outbox can use")
    place = "?" if type(connection).__module__.startswith("sqlite3") else "%s"
    cursor = connection.cursor()
    try:
        cursor.execute(
            _INSERT + f"({', '.join([place] * len(_COLUMNS))})", [values[name] for name in _COLUMNS]
        )
    finally:
        cursor.close()
