"""The API under test: inside the test's own process, or as real `tocsin` processes on ports the kernel chose.

Both ways hand out the same `Answer`, and every answer is held against the OpenAPI document on the way: a
status, a content type or a body that the document does not promise fails the test that caused it.
"""

import asyncio
import contextlib
import http.client
import json
import re
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

import jsonschema
import msgspec
import uvloop

from tests.support.processes import Process, Processes, free_port, wait_for
from tocsin.api.app import ENDPOINTS, Application
from tocsin.api.context import make_context
from tocsin.api.openapi import openapi_document
from tocsin.clock import DatabaseClock
from tocsin.db.pool import Database, open_database
from tocsin.db.wall import open_walled
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.cells import CELL
from tocsin.domain.keys import hash_of, new_key
from tocsin.domain.sealing import SecretBox
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.failpoints import Failpoints
from tocsin.settings import Settings
from tocsin.store.keys import KeyStore
from tocsin.store.leases import LeaseStore
from tocsin.targets.noop.caller import NoopCaller
from tocsin.telemetry import Telemetry
from tocsin.worker.remote.assembly import make_gateway

ADMIN_KEY = "an-administrators-key-for-tests"
PATIENCE = 20.0
# What a refused request must leave as it was.
WRITTEN_BY_USERS = ("jobs", "executions", "history", "lanes", "queues", "idempotency", "audit", "secrets")
T = TypeVar("T")
Headers = Sequence[tuple[bytes, bytes]]


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """The media type, without its parameters."""
        return self.headers["content-type"].partition(";")[0]

    def json(self) -> Any:
        return json.loads(self.body)

    def problem(self) -> dict[str, Any]:
        """The problem document; anything else fails."""
        assert self.kind == "application/problem+json", self
        document: dict[str, Any] = self.json()
        assert document["status"] == self.status
        assert document["title"]
        assert document["detail"]
        assert len(self.body) < 4096, "a refusal does not echo what it refused"
        return document


class Contract:
    """The OpenAPI document as a judge."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = json.loads(msgspec.json.encode(openapi_document(ENDPOINTS)))
        # A name may have slashes in it, or be missing; an id may not.
        self._paths = {
            path: re.compile(re.sub(r"{\w+}", "[^/]+", path.replace("{name}", ".*")))
            for path in self.document["paths"]
        }

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Fail unless the document promises this answer."""
        promised = self._promise(method, path, answer.status)
        if promised is None:
            assert answer.status in (404, 405), f"{method} {path} answered {answer.status}: not documented"
            answer.problem()
            return
        content, headers = promised["content"], promised["headers"]
        assert answer.kind in content, f"{answer.kind} is not promised for {method} {path} {answer.status}"
        due = {name for name, header in headers.items() if header["required"]}
        missing = {name for name in due if name.lower() not in answer.headers}
        assert not missing, f"{missing} promised for {method} {path} {answer.status}"
        if "json" in answer.kind:
            schema = {**content[answer.kind]["schema"], "components": self.document["components"]}
            jsonschema.Draft202012Validator(schema).validate(answer.json())

    def _promise(self, method: str, path: str, status: int) -> dict[str, Any] | None:
        for template, pattern in self._paths.items():
            operation = self.document["paths"][template].get("get" if method == "HEAD" else method.lower())
            if operation and pattern.fullmatch(path) and str(status) in operation["responses"]:
                promised: dict[str, Any] = operation["responses"][str(status)]
                return promised
        return None


CONTRACT = Contract()


class Caller:
    """How tests talk to an API: a method per verb, JSON in, `Answer` out."""

    def call(
        self, method: str, path: str, body: bytes = b"", key: str | None = ADMIN_KEY, headers: Headers = ()
    ) -> Answer:
        raise NotImplementedError

    def get(self, path: str, key: str | None = ADMIN_KEY, **query: Any) -> Answer:
        return self.call("GET", path + ("?" + urlencode(query) if query else ""), key=key)

    def post(self, path: str, body: Any = None, key: str | None = ADMIN_KEY) -> Answer:
        return self.call("POST", path, b"" if body is None else json.dumps(body).encode(), key=key)

    def delete(self, path: str, key: str | None = ADMIN_KEY) -> Answer:
        return self.call("DELETE", path, key=key)

    def create(self, **job: Any) -> dict[str, Any]:
        """A job that must be accepted; one that does nothing unless a target is given."""
        answer = self.post("/v1/jobs", {"target": {"kind": "noop"}} | job)
        assert answer.status == 201, answer
        created: dict[str, Any] = answer.json()
        return created

    def job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The job as it stands."""
        shown: dict[str, Any] = self.get(f"/v1/jobs/{job['id']}").json()
        return shown

    def executions(self, job: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The job's executions, latest first."""
        listed: list[dict[str, Any]] = self.get(f"/v1/jobs/{job['id']}/executions").json()["items"]
        return listed

    def execution(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The job's latest execution, with its attempts."""
        shown: dict[str, Any] = self.get(f"/v1/executions/{self.executions(job)[0]['id']}").json()
        return shown

    def wait_for(self, job: Mapping[str, Any], *states: str, patience: float = PATIENCE) -> dict[str, Any]:
        """The job's latest execution, once it is in one of these states."""
        wait_for(
            lambda: any(item["state"] in states for item in self.executions(job)[:1]),
            patience,
            f"an execution of {job['id']} is not {' or '.join(states)}",
        )
        return self.execution(job)

    def pages(self, path: str, **query: Any) -> Iterator[list[dict[str, Any]]]:
        """Every page of a listing, one after the other."""
        cursor: dict[str, str] = {}
        while True:
            page = self.get(path, **query, **cursor).json()
            yield page["items"]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}


class InProcessApi(Caller):
    """The application itself, called without a socket, on an event loop of its own."""

    row_security = "auto"

    def __init__(self, url: str, policy: AddressPolicy) -> None:
        self._url = url
        self._policy = policy
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def __enter__(self) -> Self:
        self.run(self.open())
        return self

    def __exit__(self, *exc: object) -> None:
        self.run(self.close())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def call(
        self, method: str, path: str, body: bytes = b"", key: str | None = ADMIN_KEY, headers: Headers = ()
    ) -> Answer:
        return self.run(self.ask(method, path, body, key, headers))

    async def ask(
        self, method: str, path: str, body: bytes = b"", key: str | None = ADMIN_KEY, headers: Headers = ()
    ) -> Answer:
        """One request. A defect shows as 500, as it does to users."""
        parts = urlsplit(path)
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
            "method": method, "path": unquote(parts.path), "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
            "headers": [*_authorization(key), *headers, (b"host", b"test")],  # the first of a name counts
        }  # fmt: skip
        pending = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            if not pending and path.endswith("/claim"):  # whose client waits; of a stream it is gone at once
                return await asyncio.get_running_loop().create_future()
            return pending.pop() if pending else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        try:
            await self.app(scope, receive, send)
        except Exception:
            if not sent:  # else it was answered with 500 and raised again for the server's log
                raise
        fields = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        answer = Answer(sent[0]["status"], fields, b"".join(message.get("body", b"") for message in sent[1:]))
        CONTRACT.check(method, parts.path, answer)
        return answer

    def fetch(self, query: str, *args: Any) -> list[Any]:
        return self.run(self.database.fetch(query, *args))

    def tables(self) -> dict[str, str | None]:
        """What the tables hold, as a digest each."""
        digest = "(SELECT md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM {0} t) AS {0}"
        columns = ", ".join(digest.format(table) for table in WRITTEN_BY_USERS)
        return dict(self.fetch(f"SELECT {columns}")[0])

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

    async def close(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self.walled.close()
        await self.database.close()

    async def open(self) -> None:
        self.database = await open_database(self._url, name="api under test", size=4)
        await KeyStore(self.database).put_bootstrap(ADMIN_KEY)
        # As in production: requests are answered behind row-level security, the test itself looks from
        # outside.
        self.walled, wall = await open_walled(
            self._url, name="api under test", timeout=15.0, size=4, mode=self.row_security
        )
        assert (wall is None) == (self.row_security == "auto"), wall
        clock, telemetry = DatabaseClock(), Telemetry()
        self.gateway = make_gateway(
            self.database, LeaseStore(self.database, 10.0), clock, Settings(), telemetry, Failpoints(),
            node_id=await LeaseStore(self.database, 10.0).register("api under test", ["api"], "test"), cell=CELL,
        )  # fmt: skip
        self._loops = [asyncio.create_task(loop.run()) for loop in self.gateway.loops]
        self.context = make_context(
            self.walled, clock, telemetry, self._policy, shard_count=DEFAULT_SHARDS, lease_ttl=10.0,
            operator=self.database, box=SecretBox([b"a master key of tests, 32 bytes."]), gateway=self.gateway.gateway,
            callers={"noop": NoopCaller()},
        )  # fmt: skip
        self.app = Application(self.context)


def in_process_api(url: str, **policy: Any) -> InProcessApi:
    """The API over a database, with loopback targets allowed unless said otherwise."""
    return InProcessApi(url, AddressPolicy(**({"allow_loopback": True} | policy)))


class RealApi(Caller):
    """An API over its socket."""

    def __init__(self, port: int, key: str = ADMIN_KEY) -> None:
        self.port = port
        self.key = key

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(
        self, method: str, path: str, body: bytes = b"", key: str | None = ADMIN_KEY, headers: Headers = ()
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            given = (*_authorization(self.key if key == ADMIN_KEY else key), *headers)
            connection.request(method, path, body or None, {n.decode(): v.decode() for n, v in given})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, found, response.read())
        CONTRACT.check(method, urlsplit(path).path, answer)
        return answer

    def is_ready(self) -> bool:
        """Whether it answers and has its database."""
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def wait_until_ready(self, of: Process, patience: float = PATIENCE) -> None:
        """Until it answers; if its process dies first, show what it said."""
        wait_for(
            lambda: self.is_ready() or not of.alive, patience, f"{of.name} is not ready\n{of.last_words()}"
        )
        assert of.alive, of.last_words()


@contextlib.contextmanager
def fleet(url: str, *, engines: int = 1, **settings: str) -> Iterator[RealApi]:
    """`tocsin api` and `tocsin engine` processes over a migrated database."""
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    shared = {"database_url": url, "allow_loopback": "true"} | settings
    with tempfile.TemporaryDirectory() as logs, Processes(Path(logs)) as processes:
        found = RealApi(free_port())
        api = processes.tocsin("api", "api", "--port", str(found.port), **shared)
        running = [api, *(processes.tocsin(f"engine-{n}", "engine", **shared) for n in range(engines))]
        for process in running:
            process.start()
        found.wait_until_ready(api)
        yield found
        for process in running:
            process.terminate()
        for process in running:
            assert process.wait(PATIENCE) == 0, process.last_words()


def with_database(url: str, work: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Do something with a database, on an event loop of its own."""

    async def run() -> T:
        database = await open_database(url, name="test", size=2)
        try:
            return await work(database)
        finally:
            await database.close()

    return uvloop.run(run())


def _authorization(key: str | None) -> list[tuple[bytes, bytes]]:
    return [] if key is None else [(b"authorization", f"Bearer {key}".encode("latin-1"))]
