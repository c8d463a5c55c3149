"""`tocsin bench` against real processes: its figures are those that the installation recorded, and nothing is
left of it."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_cli import Terminal
from tests.support.api import ADMIN_KEY, RealApi, fleet
from tests.support.postgres import Cluster
from tests.support.processes import Process, Processes, wait_for
from tocsin.cli import bench_measures
from tocsin.domain.instant import SECOND, parse_instant

SMALL = ("--executions", "30", "--spread", "5", "--yes")
JOBS_OF_SMALL = 30 + 30 + 30 + 5 + 1


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[RealApi]:
    url = cluster.new_database()
    with fleet(url, queues="default") as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def tocsin(api: RealApi, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Herds are made a shorter while ahead than for users, who have more of them."""
    monkeypatch.setattr(bench_measures, "_AHEAD", 2 * SECOND)
    return Terminal(api)


def jobs(api: RealApi, tag: str = "tocsin-bench", tenant: str = "default") -> list[dict[str, Any]]:
    headers = [(b"tocsin-tenant", tenant.encode())]
    answer = api.call("GET", f"/v1/jobs?limit=500&tag={tag}", headers=headers)
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def measured(tocsin: Terminal, *words: str, code: int = 0, **environment: str | None) -> Any:
    """The report as JSON, of a run that ends with `code`."""
    result = tocsin("bench", *words, "--json", **environment)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def new_key(api: RealApi, tenant: str, *scopes: str, **limits: float) -> str:
    """A key of a new tenant with limits."""
    assert api.post("/v1/tenants", {"name": tenant, "limits": limits}).status == 201
    key = api.post("/v1/keys", {"name": "bench", "tenant": tenant, "scopes": scopes or ("read", "write")})
    text: str = key.json()["text"]
    return text


def test_the_figures_of_firing_are_those_that_were_recorded(tocsin: Terminal) -> None:
    found = measured(tocsin, *SMALL, "--keep")
    kept = jobs(tocsin.api, found["tag"])
    assert len(kept) == JOBS_OF_SMALL
    assert found["jobs"] == {"created": JOBS_OF_SMALL, "deleted": 0, "left": JOBS_OF_SMALL}
    fired: dict[str, list[dict[str, Any]]] = {}
    for job in kept:
        for execution in tocsin.api.executions(job):
            if execution["state"] == "succeeded":
                fired.setdefault(execution["fire_at"], []).append(execution)
    drained, herd = sorted((group for group in fired.values() if len(group) == 30), key=first_fire)
    alone = sorted((group[0] for group in fired.values() if len(group) == 1), key=lambda e: e["fire_at"])[1:]
    busy = (max(map(finish, drained)) - min(map(start, drained))) / SECOND
    assert found["drain"]["executions"] == 30
    assert found["drain"]["seconds"] == pytest.approx(busy)
    assert found["drain"]["per_second"] == pytest.approx(30 / busy)
    for name, group in (("herd", herd), ("spread", alone)):
        lags = sorted(execution["lag_ms"] for execution in group)
        assert found[name]["executions"] == len(lags)
        assert found[name]["max_ms"] == pytest.approx(lags[-1], abs=0.001)
        assert found[name]["p50_ms"] == pytest.approx(lags[(len(lags) + 1) // 2 - 1], abs=0.001)
    assert len(alone) == 5
    assert found["create"]["requests"] == 30
    assert 0 < found["create"]["p50_ms"] <= found["create"]["p99_ms"]
    assert found["create_batch"]["jobs"] == 30
    assert [note for note in found["notes"] if "too short to rely on" not in note] == []
    assert found["stopped"] is None
    # What was kept is what --clean takes, and nothing else.
    other = tocsin.api.create(schedule={"in": "1h"}, tags=["tocsin-benches"])
    assert tocsin.json("bench", "--clean") == {"deleted": JOBS_OF_SMALL}
    assert jobs(tocsin.api) == []
    assert tocsin.api.job(other)["state"] == "active"


def test_the_report_is_a_table_and_its_jobs_are_gone(tocsin: Terminal) -> None:
    result = tocsin("bench", *SMALL)
    assert result.exit_code == 0, result.output
    heading, *rows = result.stdout.splitlines()
    assert heading.split()[:2] == ["WHAT", "MEASURED"]
    what = [row.split("  ")[0] for row in rows if not row.startswith("note: ")]
    assert what == ["create", "create in batches", "drain", "herd", "spread"]
    assert f"About to create {JOBS_OF_SMALL} jobs" in result.stderr
    assert f"{JOBS_OF_SMALL} jobs deleted" in result.stderr
    assert jobs(tocsin.api) == []


@pytest.mark.parametrize(("shortest", "told"), [(0, 0), (3600 * SECOND, 1)])
def test_a_drain_too_short_to_be_a_rate_is_told(
    tocsin: Terminal, monkeypatch: pytest.MonkeyPatch, shortest: int, told: int
) -> None:
    monkeypatch.setattr(bench_measures, "_SHORTEST_DRAIN", shortest)
    found = measured(tocsin, "--executions", "3", "--spread", "0", "--yes")
    assert sum("too short to rely on its rate" in note for note in found["notes"]) == told


def test_a_backlog_larger_than_a_request_is_measured_in_several(
    tocsin: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_measures, "MOST_IN_A_BATCH", 20)
    found = measured(tocsin, "--executions", "50", "--spread", "0", "--yes")
    assert (found["drain"]["executions"], found["herd"]["executions"], found["spread"]) == (50, 50, None)
    assert found["create_batch"]["jobs"] == 50
    assert found["jobs"] == {"created": 151, "deleted": 151, "left": 0}


@pytest.mark.parametrize("operator", [True, False])
def test_a_queue_that_nobody_serves_is_told_and_nothing_is_left(
    tocsin: Terminal, monkeypatch: pytest.MonkeyPatch, operator: bool
) -> None:
    monkeypatch.setattr(bench_measures, "_PATIENCE_FOR_ONE", 0.5)
    key = ADMIN_KEY if operator else new_key(tocsin.api, "unserved")
    result = tocsin("bench", *SMALL, "--queue", "unserved", TOCSIN_API_KEY=key)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no worker serves its queue" in result.stderr
    assert "serve queue 'unserved'" in result.stderr if operator else "ask the operator" in result.stderr
    assert jobs(tocsin.api) == jobs(tocsin.api, tenant="unserved" if not operator else "default") == []


def test_what_was_measured_before_it_stopped_is_shown(tocsin: Terminal) -> None:
    key = new_key(tocsin.api, "crowded", pending_jobs=100)
    body = {"schedule": {"in": "1h"}, "target": {"kind": "noop"}}
    others = [tocsin.api.post("/v1/jobs", body, key=key).json()["id"] for _ in range(60)]
    found = measured(tocsin, "--executions", "30", "--spread", "0", "--yes", code=1, TOCSIN_API_KEY=key)
    assert found["create"]["requests"] == 30
    assert found["herd"] is None
    assert "limit pending_jobs" in found["stopped"]
    assert "--executions" in found["stopped"]
    assert found["jobs"]["left"] == 0
    left = tocsin.api.call("GET", "/v1/jobs?limit=500", headers=[(b"tocsin-tenant", b"crowded")])
    assert {job["id"] for job in left.json()["items"]} == set(others)


def test_too_little_room_is_told_before_anything_is_made(tocsin: Terminal) -> None:
    key = new_key(tocsin.api, "narrow", pending_jobs=50)
    said = tocsin.refuses("bench", *SMALL, TOCSIN_API_KEY=key)
    assert "tenant narrow may have 50 (limit pending_jobs)" in said
    assert "--executions 16 " in said
    assert "tocsin tenants change narrow --pending-jobs 96" in said
    audit = tocsin.json("audit", "list", "--tenant", "narrow")["items"]
    assert [entry["action"] for entry in audit if entry["action"].startswith("job.")] == []


def test_limits_that_the_figures_show_are_named_and_waited_for(tocsin: Terminal) -> None:
    key = new_key(tocsin.api, "slow", requests_per_second=20, fires_per_second=100)
    found = measured(
        tocsin, "--executions", "10", "--spread", "0", "--concurrency", "4", "--yes", TOCSIN_API_KEY=key
    )
    assert found["create"]["requests"] == 10
    assert found["jobs"] == {"created": 31, "deleted": 31, "left": 0}
    fires, waited = (note for note in found["notes"] if "limit " in note)
    assert "starts at most 100 executions per second (limit fires_per_second)" in fires
    assert "tocsin tenants change slow --fires-per-second" in fires
    assert "limit requests_per_second" in waited


def test_a_slow_limit_of_requests_is_told_before_it_begins(tocsin: Terminal) -> None:
    key = new_key(tocsin.api, "slowest", requests_per_second=1)
    said = tocsin.refuses("bench", "--executions", "200", code=2, TOCSIN_API_KEY=key)
    assert "limit requests_per_second" in said
    assert "minutes" in said


def test_a_key_that_may_not_write_is_told(tocsin: Terminal) -> None:
    key = new_key(tocsin.api, "reader", "read")
    assert "no write scope" in tocsin.refuses("bench", *SMALL, TOCSIN_API_KEY=key)


def test_without_a_terminal_it_begins_only_with_yes(tocsin: Terminal) -> None:
    said = tocsin.refuses("bench", "--executions", "30", code=2)
    assert "--yes" in said
    assert jobs(tocsin.api) == []


def test_at_a_terminal_it_asks_and_takes_no_for_an_answer(tocsin: Terminal) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"n\n")
        done = subprocess.run(
            [sys.executable, "-m", "tocsin", "bench", "--executions", "30", "--json"],
            env={**os.environ, "TOCSIN_URL": tocsin.api.url, "TOCSIN_API_KEY": ADMIN_KEY},
            stdin=theirs, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Go on? [y/N]" in done.stderr
    assert jobs(tocsin.api) == []


@pytest.fixture
def running(api: RealApi, tmp_path: Path) -> Iterator[Process]:
    """A run in a process of its own, in the middle of it."""
    with Processes(tmp_path) as processes:
        words = ("bench", "--executions", "5000", "--concurrency", "2", "--yes")
        process = processes.tocsin("bench", *words, url=api.url, api_key=ADMIN_KEY)
        process.start()
        wait_for(lambda: len(jobs(api)) > 50 or not process.alive, 30, "it creates nothing")
        assert process.alive, process.last_words()
        yield process


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_deletes_its_jobs_first(api: RealApi, running: Process, how: signal.Signals) -> None:
    os.kill(running.pid, how)
    assert running.wait(60) == 130, running.last_words()
    assert "interrupted; " in running.output()
    assert "jobs deleted" in running.output()
    assert "Traceback" not in running.output()
    assert jobs(api) == []


def test_interrupted_again_it_leaves_the_rest_and_says_so(tocsin: Terminal, running: Process) -> None:
    wait_for(lambda: len(jobs(tocsin.api)) >= 200, 30, "too few jobs to be interrupted at")
    some = jobs(tocsin.api)[::10]
    os.kill(running.pid, signal.SIGINT)
    gone = lambda: any(tocsin.api.get(f"/v1/jobs/{job['id']}").status == 404 for job in some)  # noqa: E731
    wait_for(gone, 30, "it deletes nothing")
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(60) == 130, running.last_words()
    assert "jobs were not deleted; tocsin bench --clean does it" in running.output()
    assert "Traceback" not in running.output()
    assert jobs(tocsin.api) != []
    tocsin.shows("bench", "--clean")
    assert jobs(tocsin.api) == []


def first_fire(group: list[dict[str, Any]]) -> int:
    return parse_instant(group[0]["fire_at"], "fire_at")


def start(execution: dict[str, Any]) -> int:
    return parse_instant(execution["started_at"], "started_at")


def finish(execution: dict[str, Any]) -> int:
    return parse_instant(execution["finished_at"], "finished_at")
