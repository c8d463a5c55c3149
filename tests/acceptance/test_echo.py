"""`/v1/echo`: there only where it is switched on; answers what it got, slowly or with a failure if it is told
to."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.api import echo
from tocsin.api.app import Application


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def ask(
    api: InProcessApi, method: str = "GET", query: str = "", body: bytes = b"", **headers: str
) -> tuple[int, dict[str, Any]]:
    """The echo's answer where it is switched on; nobody shows a key."""
    app = Application(msgspec.structs.replace(api.context, echo=True))
    parts, sent = urlsplit(f"{echo.PATH}?{query}"), []
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
        "method": method, "path": parts.path, "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(name.encode(), text.encode()) for name, text in ({"host": "test"} | given).items()],
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    api.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


def test_it_is_off_unless_it_is_switched_on(api: InProcessApi) -> None:
    for method in echo.METHODS:
        assert api.call(method, echo.PATH).status == 404
        assert api.call(method, echo.PATH, key=None).status == 404


@pytest.mark.parametrize("method", echo.METHODS)
def test_it_answers_what_it_received_but_no_credentials(api: InProcessApi, method: str) -> None:
    status, told = ask(
        api, method, body=b'{"n": 1}', x_mine="yes", authorization="Bearer secret", cookie="tocsin=secret"
    )
    assert (status, told["method"], told["body"]) == (200, method, '{"n": 1}')
    assert told["headers"]["x-mine"] == "yes"
    assert "secret" not in json.dumps(told)


def test_it_shows_no_more_than_the_beginning_of_a_large_body(api: InProcessApi) -> None:
    assert ask(api, "POST", body=b"x" * 100_000)[1]["body"] == "x" * 16_384


@pytest.mark.parametrize(
    ("query", "status"),
    [("status=503", 503), ("status=404", 404), ("status=201", 200), ("status=302", 200), ("status=999", 200),
     ("status=nonsense", 200), ("status=-5", 200)],
)  # fmt: skip
def test_it_fails_with_the_status_that_is_asked_for(api: InProcessApi, query: str, status: int) -> None:
    assert ask(api, query=query)[0] == status


def test_it_fails_the_first_attempts_of_an_execution(api: InProcessApi) -> None:
    answered = [ask(api, "POST", "fail_first=2", tocsin_attempt=str(number))[0] for number in (1, 2, 3)]
    assert answered == [503, 503, 200]
    chosen = [ask(api, "POST", "fail_first=1&status=429", tocsin_attempt=str(number))[0] for number in (1, 2)]
    assert chosen == [429, 200]


def test_it_takes_as_long_as_it_is_told_to_but_a_minute_at_most(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    for query in ("delay=2.5", "delay=3600", "delay=soon", "delay=0"):
        assert ask(api, query=query)[0] == 200
    assert slept == [2.5, 60.0]
