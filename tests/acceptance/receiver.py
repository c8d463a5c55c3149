"""Real processes that call a real receiver: an API and an engine, and an HTTP server that remembers what it
was sent."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import msgspec

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.processes import Process, Processes, free_port
from tocsin.store.keys import KeyStore

TOKEN = "token-5b1e77"
NOW = {"now": True}


class Received(msgspec.Struct, frozen=True):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers by path: /status/410; /flaky is 503 and then 200; /echo repeats the request's headers as
    headers and body; /token gives a token."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Received] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append(Received(self.path, headers, body))
                status, answer, extra = receiver.answer(self.path, headers)
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        match path.strip("/").split("/"):
            case ["status", status, *_]:
                return int(status), b"", {}
            case ["flaky", *_]:
                return (503 if headers["tocsin-attempt"] == "1" else 200), b"", {}
            case ["token"]:
                return 200, json.dumps({"access_token": TOKEN, "expires_in": 3600}).encode(), {}
            case ["echo", status, *_]:
                sent = {name: value for name, value in headers.items() if name.startswith(("x-", "auth"))}
                echoed = {f"x-echo-{number}": value for number, value in enumerate(sent.values())}
                return int(status), json.dumps(sent).encode(), echoed
        return 200, b"", {}

    def of(self, path: str) -> list[Received]:
        return [request for request in self.requests if request.path == path]


class Place(msgspec.Struct, frozen=True):
    """An API and an engine that share a key, a receiver, and what the processes said."""

    api: RealApi
    receiver: Receiver
    processes: list[Process]

    def logs(self) -> str:
        return "".join(process.output() for process in self.processes)

    def put_secret(self, name: str, value: str) -> None:
        answer = self.api.call("PUT", f"/v1/secrets/{name}", json.dumps({"value": value}).encode())
        assert answer.status == 200, answer
        assert value not in answer.body.decode()

    def fire(self, path: str, *states: str, retry: Any = None, **target: Any) -> dict[str, Any]:
        """The execution of a one-off that calls the receiver, once it is over."""
        job = self.api.create(
            schedule=NOW,
            target={"kind": "http", "url": self.receiver.url + path, **target},
            retry=retry or {"max_attempts": 2, "initial_backoff": "50ms"},
        )
        return self.api.wait_for(job, *(states or ("succeeded",)))


@contextmanager
def running(url: str, logs: Path, **settings: str) -> Iterator[Place]:
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    shared = {"database_url": url, "allow_loopback": "true"} | settings
    with Processes(logs) as processes, Receiver() as receiver:
        api = RealApi(free_port())
        started = [
            processes.tocsin("api", "api", "--port", str(api.port), **shared),
            processes.tocsin("engine", "engine", **shared),
        ]
        for process in started:
            process.start()
        api.wait_until_ready(started[0])
        yield Place(api, receiver, started)
