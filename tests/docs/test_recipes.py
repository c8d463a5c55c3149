"""Code in the guides is code: all of it compiles, and what a reader is to write runs."""

import ast
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import fastapi
import flask
import pytest
from fastapi.testclient import TestClient

from tocsin import App
from tocsin.testing.eager import Eager

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMING_FROM = sorted(GUIDES.glob("from-*.md"))


def blocks(page: Path) -> dict[str, str]:
    """The Python of a page, by its first line."""
    return {code.splitlines()[0].removeprefix("# "): code for code in PYTHON.findall(page.read_text())}


def module(name: str, code: str, **names: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(names)
    exec(compile(code, f"{name}.py", "exec", dont_inherit=True), made.__dict__)
    return made


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Eager]:
    made = Eager()
    monkeypatch.setattr(App, "client", property(made.client_of))
    yield made
    made.close()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_python_of_a_page_compiles(page: Path) -> None:
    for code in PYTHON.findall(page.read_text()):
        compile(code, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


@pytest.mark.parametrize("page", COMING_FROM, ids=lambda page: page.stem)
def test_what_a_newcomer_is_to_write_runs(page: Path, eager: Eager) -> None:
    code = blocks(page)
    assert set(code) == {"before", "after"}
    written = module(page.stem.replace("-", "_"), code["after"])
    assert written.app.tasks, "it has a task"
    assert eager.calls or written.app.schedules, "it is enqueued, or has a schedule"
    assert all(called.state == "succeeded" for called in eager.calls)


def test_a_flask_application_enqueues_tasks_that_have_its_context(eager: Eager) -> None:
    shop = module("flask_shop", blocks(GUIDES / "frameworks.md")["flask_shop.py"])
    assert isinstance(shop.web, flask.Flask)
    with shop.web.test_client() as browser:
        asked = browser.post("/orders/17/receipt")
        assert asked.status_code == 202
        told = browser.get(f"/receipts/{asked.json['receipt']}").json
    assert told == {"state": "succeeded", "text": "receipt of order 17 from Bells & Co"}


def test_a_fastapi_application_has_a_client_as_a_dependency() -> None:
    name = "fastapi_shop"
    sys.modules[name] = made = ModuleType(name)
    try:
        exec(
            compile(blocks(GUIDES / "frameworks.md")["fastapi_shop.py"], name, "exec", dont_inherit=True),
            made.__dict__,
        )
        assert isinstance(made.web, fastapi.FastAPI)
        [operation] = made.web.openapi()["paths"]["/queues/{queue}/pause"].values()
        assert [one["name"] for one in operation["parameters"]] == ["queue"], "the client is no parameter"
    finally:
        del sys.modules[name]


def test_the_fastapi_application_pauses_a_queue_by_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, Any]] = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            asked.append((self.path, self.headers["Authorization"], json.loads(self.rfile.read(length))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as it is called there
            """Nobody reads it."""

    name = "fastapi_shop"
    sys.modules[name] = made = ModuleType(name)
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("TOCSIN_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("TOCSIN_API_KEY", "k" * 20)
        try:
            code = blocks(GUIDES / "frameworks.md")["fastapi_shop.py"]
            exec(compile(code, name, "exec", dont_inherit=True), made.__dict__)
            with TestClient(made.web) as browser:
                assert browser.post("/queues/mail/pause").json() == {"paused": "mail"}
        finally:
            server.shutdown()
            del sys.modules[name]
    reason = {"reason": "the mail server is away"}
    assert asked == [("/v1/queues/mail/pause", f"Bearer {'k' * 20}", reason)]


def test_the_settings_for_django_name_the_back_end_and_its_options() -> None:
    settings = module("settings", blocks(GUIDES / "frameworks.md")["settings.py"])
    options = settings.TASKS["default"]["OPTIONS"]
    source = (ROOT / "src/tocsin/contrib/django/backend.py").read_text()
    known = set(re.findall(r'"(\w+)"', source.split("_OPTIONS: Final =")[1].split("\n")[0]))
    assert options.keys() <= known
    described = (GUIDES / "frameworks.md").read_text().split("| Option |")[1].split("\n\n")[0]
    assert known == set(
        re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in described.splitlines()[2:]))
    )
