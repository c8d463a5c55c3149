"""When something behind the API fails: what callers are told, what the log says, and that it passes."""

import asyncio
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.api import ADMIN_KEY, in_process_api
from tests.support.postgres import temporary_directory
from tests.support.processes import wait_for
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.migrations import migrate


def test_without_its_database_the_api_asks_for_patience_and_then_goes_on() -> None:
    directory = temporary_directory()
    server = EmbeddedServer(directory / "data")
    asyncio.run(server.start())
    try:
        asyncio.run(migrate(server.url))
        with in_process_api(server.url) as api:
            job = api.create(schedule={"in": "1h"})
            asyncio.run(server.stop())
            ready = api.get("/readyz", key=None)
            assert (ready.status, ready.json()["status"], ready.headers["retry-after"]) == (
                503,
                "unavailable",
                "1",
            )
            assert api.get("/healthz", key=None).status == 200
            body = json.dumps({"schedule": {"in": "1h"}, "target": {"kind": "noop"}}).encode()
            for method, path, sent in (
                ("POST", "/v1/jobs", body),
                ("GET", "/v1/jobs", b""),
                ("GET", f"/v1/jobs/{job['id']}", b""),
                ("POST", f"/v1/jobs/{job['id']}/cancel", b""),
                ("GET", "/metrics", b""),
            ):
                answer = api.call(method, path, sent)
                assert (answer.status, answer.headers["retry-after"]) == (503, "1"), path
                assert "Traceback" not in answer.problem()["detail"]
                assert str(directory) not in answer.problem()["detail"]
            asyncio.run(server.start())
            wait_for(lambda: api.get("/readyz", key=None).status == 200, 10, "it does not recover")
            assert [item["id"] for item in api.get("/v1/jobs").json()["items"]] == [job["id"]]
            assert api.post(f"/v1/jobs/{job['id']}/cancel").status == 200
    finally:
        asyncio.run(server.stop())
        shutil.rmtree(directory, ignore_errors=True)


DEFECT = """
    import sys
    from tests.support.api import CONTRACT, in_process_api
    from tocsin.telemetry import set_up_logging
    set_up_logging(sys.argv[2], "info")
    CONTRACT.check = lambda *_: None  # no operation promises a defect
    with in_process_api(sys.argv[1]) as api:
        def broken(*_, **__):
            raise RuntimeError("a defect")
        type(api.context.intake).define = broken
        answer = api.post("/v1/jobs", {
            "schedule": {"now": True},
            "target": {"kind": "http", "url": "http://127.0.0.1/?token=canary-in-url",
                       "headers": {"X-Token": "canary-in-header"}, "body": "canary-in-body"},
        })
        print(answer.status, answer.problem()["request_id"])
"""


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_defect_is_answered_with_an_id_and_logged_without_the_secrets_of_the_request(
    url: str, form: str
) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", textwrap.dedent(DEFECT), url, form]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    status, request_id = done.stdout.split()
    assert status == "500"
    assert request_id in done.stderr
    assert "a defect" in done.stderr
    for secret in (ADMIN_KEY, "canary-in-url", "canary-in-header", "canary-in-body"):
        assert secret not in done.stderr
