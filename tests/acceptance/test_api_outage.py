"""When something behind the API fails: what callers are told, what the log says, and that it passes."""

import asyncio
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.api import ADMIN_KEY, in_process_api
from tests.support.postgres import temporary_directory
from tests.support.processes import wait_for
from tocsin.api.problems import OUTCOME_UNKNOWN
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.migrations import migrate
from tocsin.domain.errors import OutcomeUnknown, Unavailable
from tocsin.store.jobs import JobStore


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
            "target": {"kind": "http", "url": "http://127.0.0.1/?team=canary-in-url",
                       "headers": {"X-Team": "canary-in-header"}, "body": "canary-in-body"},
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


def test_a_creation_whose_answer_is_lost_is_not_said_to_have_failed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object, **__: object) -> None:
        raise OutcomeUnknown("the database did not answer in time")

    with in_process_api(url) as api:
        monkeypatch.setattr(JobStore, "define", lost)
        answer = api.post("/v1/jobs", {"schedule": {"in": "1h"}, "target": {"kind": "noop"}})
        assert (answer.status, answer.problem()["type"]) == (503, OUTCOME_UNKNOWN)


def test_a_change_that_was_made_is_not_denied_because_it_cannot_be_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("the database did not answer")

    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        with monkeypatch.context() as patch:
            patch.setattr(JobStore, "get", away)
            paused = api.post(f"/v1/jobs/{job['id']}/pause")
            shown = api.get(f"/v1/jobs/{job['id']}")
        assert (paused.status, paused.problem()["type"]) == (503, OUTCOME_UNKNOWN)
        assert (shown.status, shown.problem()["code"]) == (503, "unavailable")
        assert api.job(job)["state"] == "paused"


def test_strangers_do_not_hear_why_the_database_is_away_and_the_log_says_it_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        raise Unavailable("the database is not available", why='no entry for user "scheduler"')

    with in_process_api(url) as api, capture_logs() as logs:
        monkeypatch.setattr(type(api.context.database), "fetchrow", refused)
        for path in ("/readyz", "/readyz", "/v1/jobs"):
            answer = api.get(path, key=None if path == "/readyz" else "tocsin_unknown_key_0000000000000000")
            assert "scheduler" not in answer.body.decode()
    assert ["scheduler" in log["error"] for log in logs if log["event"] == "api.unavailable"] == [True]
