"""The API under test: inside the test's own process, or as real `tocsin` processes on ports the kernel chose.

Both ways hand out the same `Answer`, and every answer is held against the OpenAPI document on the way: a status,
a content type or a body that the document does not promise fails the test that caused it.
"""

import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

import jsonschema
import msgspec
import uvloop

from tocsin.api.app import ENDPOINTS, build_app
from tocsin.api.context import make_context
from tocsin.api.openapi import openapi_document
from tocsin.clock import DatabaseClock
from tocsin.db.pool import Database, open_connection, open_database
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.keys import hash_of, new_key
from tocsin.telemetry import Telemetry

ADMIN_KEY = "an-administrators-key-for-tests"
PATIENCE = 20.0
# What a refused request must leave as it was.
WRITTEN_BY_USERS = ("jobs", "executions", "history", "lanes", "queues", "idempotency", "audit", "secrets")
T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def problem(self) -> dict[str, Any]:
        """The problem document; anything else fails."""
        assert self.headers["content-type"] == "application/problem+json", self
        document: dict[str, Any] = self.json()
        assert document["status"] == self.status
        assert document["title"]
        assert document["detail"]
        assert len(self.body) < 4096, "a refusal does not echo what it refused"
        return document


class Contract:
    """The OpenAPI document as a judge."""

    def __init__(self) -> None:
        self.document = openapi_document(ENDPOINTS)
        self._paths = {
            path: re.compile(re.sub(r"{\w+}", "[^/]+", path)) for path in self.document["paths"] if path
        }

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Fail unless the document promises this answer."""
        promised = self._promise(method, path, answer.status)
        if promised is None:
            assert answer.status in (404, 405), f"{method} {path} answered {answer.status}: not documented"
            answer.problem()
            return
        kind = answer.headers["content-type"]
        assert kind in promised, f"{kind} is not promised for {method} {path} {answer.status}"
        if "json" in kind:
            schema = {**promised[kind]["schema"], "components": self.document["components"]}
            jsonschema.Draft202012Validator(schema).validate(answer.json())

    def _promise(self, method: str, path: str, status: int) -> dict[str, Any] | None:
        for template, pattern in self._paths.items():
            operation = self.document["paths"][template].get(method.lower())
            if operation and pattern.fullmatch(path) and str(status) in operation["responses"]:
                content: dict[str, Any] = operation["responses"][str(status)]["content"]
                return content
        return None


CONTRACT = Contract()


class Caller:
    """How tests talk to an API: a method per verb, JSON in, `Answer` out."""

    def get(self, path: str, key: str | None = ADMIN_KEY, **query: Any) -> Answer:
        return self.call("GET", path + ("?" + urlencode(query) if query else ""), key=key)

    def post(self, path: str, body: Any = None, key: str | None = ADMIN_KEY) -> Answer:
        return self.call("POST", path, b"" if body is None else json.dumps(body).encode(), key=key)

    def delete(self, path: str, key: str | None = ADMIN_KEY) -> Answer:
        return self.call("DELETE", path, key=key)

    def create(self, **job: Any) -> dict[str, Any]:
        """A job that must be accepted."""
        answer = self.post("/v1/jobs", {"target": {"kind": "noop"}} | job)
        assert answer.status == 201, answer
        created: dict[str, Any] = answer.json()
        return created

    def execution_of(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The latest execution of a job, with its attempts."""
        listed = self.get(f"/v1/jobs/{job['id']}/executions").json()["items"]
        assert listed, f"{job['id']} has no execution"
        shown: dict[str, Any] = self.get(f"/v1/executions/{listed[0]['id']}").json()
        return shown

    def wait_for_execution(self, job: Mapping[str, Any], *states: str) -> dict[str, Any]:
        """The job's latest execution once it is in one of these states."""

        def look() -> dict[str, Any] | None:
            items = self.get(f"/v1/jobs/{job['id']}/executions").json()["items"]
            return self.execution_of(job) if items and items[0]["state"] in states else None

        return wait_until(look, f"{job['id']} is {' or '.join(states)}")

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        key: str | None = ADMIN_KEY,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:
        raise NotImplementedError


class InProcessApi(Caller):
    """The application itself, called without a socket, on an event loop of its own."""

    def __init__(self, url: str, policy: AddressPolicy) -> None:
        self._url = url
        self._policy = policy
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def __enter__(self) -> Self:
        self.run(self._open())
        return self

    def __exit__(self, *exc: object) -> None:
        self.run(self.database.close())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        key: str | None = ADMIN_KEY,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:
        return self.run(self.ask(method, path, body, key, headers))

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        key: str | None = ADMIN_KEY,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:
        """One request. A defect shows as 500, as it does to users."""
        parts = urlsplit(path)
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
            "method": method, "path": unquote(parts.path), "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
            "headers": [(b"host", b"test"), *_authorization(key), *headers],
        }  # fmt: skip
        pending = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return pending.pop() if pending else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        try:
            await self.app(scope, receive, send)
        except Exception:
            # Starlette answers 500 and raises again for the server's log.
            if not sent:
                raise
        fields = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        answer = Answer(sent[0]["status"], fields, b"".join(m.get("body", b"") for m in sent[1:]))
        CONTRACT.check(method, parts.path, answer)
        return answer

    def fetch(self, query: str, *args: Any) -> list[Any]:
        return self.run(self.database.fetch(query, *args))

    def tables(self) -> dict[str, str]:
        """What the tables hold, as a digest each."""
        return self.run(digest_of_tables(self.database))

    def new_key(self, *scopes: str, tenant: str = "default", expired: bool = False) -> str:
        """A key with some scopes. The tenant is made if there is none of that name."""
        key_id, text = new_key()
        self.fetch("INSERT INTO tenants (name) VALUES ($1) ON CONFLICT DO NOTHING", tenant)
        self.fetch(
            "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes, expires_at)"
            " SELECT $1, id, 'test', $2, $3, CASE WHEN $5 THEN tocsin_now() - interval '1 s' END"
            " FROM tenants WHERE name = $4",
            key_id,
            hash_of(text),
            list(scopes),
            tenant,
            expired,
        )
        return text

    async def _open(self) -> None:
        self.database = await open_database(self._url, name="api under test", size=4)
        await put_admin_key(self.database)
        context = make_context(
            self.database, DatabaseClock(), Telemetry(), self._policy, shard_count=64, lease_ttl=10.0
        )
        self.app = build_app(context)


def in_process_api(url: str, **policy: Any) -> InProcessApi:
    """The API over a database, with loopback targets allowed unless said otherwise."""
    return InProcessApi(url, AddressPolicy(**({"allow_loopback": True} | policy)))


async def put_admin_key(database: Database) -> None:
    await database.execute(
        "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes) SELECT 'bootstrap', id, 'test', $1,"
        " ARRAY['read', 'write', 'worker', 'admin'] FROM tenants WHERE name = 'default' ON CONFLICT DO NOTHING",
        hash_of(ADMIN_KEY),
    )


async def digest_of_tables(database: Database) -> dict[str, str]:
    digests = {}
    for table in WRITTEN_BY_USERS:
        rows = await database.fetch(f"SELECT t::text AS row FROM {table} t ORDER BY 1")
        digests[table] = hashlib.sha256("\n".join(row["row"] for row in rows).encode()).hexdigest()
    return digests


class Process:
    """A `tocsin` process, its output in a file, always ended by its own id."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.log = Path(tempfile.mkstemp(prefix="tocsin-", suffix=".log")[1])
        self._out = self.log.open("wb")
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tocsin", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._out,
            env=clean_environment() | dict(environment or {}),
        )

    def stop(self) -> int:
        """Ask it to end, and wait."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise
        finally:
            self._out.close()

    def output(self) -> str:
        return self.log.read_text(errors="replace")


class RealApi(Caller):
    """An API over its socket."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        key: str | None = ADMIN_KEY,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            fields = {name.decode(): value.decode() for name, value in (*_authorization(key), *headers)}
            connection.request(method, path, body or None, fields)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, found, response.read())
        CONTRACT.check(method, urlsplit(path).path, answer)
        return answer

    def is_ready(self) -> bool:
        try:
            return self.call("GET", "/readyz").status == 200
        except OSError:
            return False


class Fleet(RealApi):
    """`tocsin api` and `tocsin engine` processes over one database."""

    def __init__(self, port: int, processes: list[Process]) -> None:
        super().__init__(port)
        self.processes = processes


@contextlib.contextmanager
def fleet(url: str, *, engines: int = 1, **settings: str) -> Iterator[Fleet]:
    """Real processes over a migrated database. `settings` become TOCSIN_ variables."""
    asyncio.run(_with_connection(url, put_admin_key))
    environment = {f"TOCSIN_{name.upper()}": value for name, value in settings.items()}
    environment |= {"TOCSIN_DATABASE_URL": url, "TOCSIN_ALLOW_LOOPBACK": "true", "TOCSIN_LOG_FORMAT": "json"}
    port = free_port()
    running = [Process(["api", "--port", str(port)], environment)]
    try:
        running += [Process(["engine"], environment) for _ in range(engines)]
        found = Fleet(port, running)
        wait_until(found.is_ready, "the API is ready", lambda: running[0].output())
        yield found
    finally:
        for process in reversed(running):
            process.stop()
            process.log.unlink(missing_ok=True)


def wait_until(
    look: Callable[[], T | None], what: str, explain: Callable[[], str] = lambda: "", patience: float = PATIENCE
) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {patience} s until {what}\n{explain()}"
        time.sleep(0.02)


def free_port() -> int:
    """A port that the kernel says is free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def clean_environment() -> dict[str, str]:
    """The environment without any setting of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}


def _authorization(key: str | None) -> list[tuple[bytes, bytes]]:
    return [] if key is None else [(b"authorization", f"Bearer {key}".encode("latin-1"))]


async def _with_connection(url: str, work: Callable[[Any], Awaitable[T]]) -> T:
    connection = await open_connection(url, name="test setup")
    try:
        return await work(connection)
    finally:
        await connection.close()
