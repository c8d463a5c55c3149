"""A crowd of jobs and a long history, made by set-based SQL, and how long every list and view of the
dashboard takes over it.

    .venv/bin/python -m bench.crowd [--jobs 1000000] [--history 10000000] [--rounds 20] [--keep DIRECTORY]

Three tenants: one has 89 % of it, one 10 %, one 1 %. To make it takes minutes; with `--keep` it stays for the
next time, which migrates it. Answers are timed in process, from the request to its body, over a real
PostgreSQL; the slowest of the middle 95 % is held against its budget (DASHBOARD budgets: lists 200 ms, views
300 ms, three letters of a name 500 ms).
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.support.api import CONTRACT, InProcessApi, in_process_api

from bench.crowd_data import fill, foresee
from bench.installation import installation
from tocsin.domain.instant import DAY, format_instant, parse_instant

LIST_MS, VIEW_MS, NAME_MS = 200, 300, 500


class Look(NamedTuple):
    """A request, and how long it may take."""

    name: str
    path: str
    budget_ms: int
    query: Mapping[str, Any] = MappingProxyType({})


def looks(job: str, quiet: str, execution: str, ago: dict[str, str], week: str) -> list[Look]:
    """Every list and view, with the filters that people use. `job` fires every five seconds, `quiet`
    rarely."""
    lists = [
        Look("jobs", "/v1/jobs", LIST_MS),
        Look("jobs with their last 20", "/v1/jobs", LIST_MS, {"with": "recent"}),
        *(
            Look(f"jobs by {sort}", "/v1/jobs", LIST_MS, {"sort": sort, "with": "recent"})
            for sort in ("name", "next_fire")
        ),
        *(
            Look(f"jobs {state}", "/v1/jobs", LIST_MS, {"state": state})
            for state in ("active", "paused", "cancelled")
        ),
        Look("jobs overdue", "/v1/jobs", LIST_MS, {"overdue": "true"}),
        Look("jobs of a queue", "/v1/jobs", LIST_MS, {"queue": "reports"}),
        Look("jobs with a rare target", "/v1/jobs", LIST_MS, {"target": "http"}),
        Look("jobs of a queue that has none", "/v1/jobs", LIST_MS, {"queue": "nobody"}),
        Look("jobs with a tag", "/v1/jobs", LIST_MS, {"tag": "etl"}),
        Look("a name that nobody has", "/v1/jobs", NAME_MS, {"name": "zzzz"}),
        Look("three letters of a name", "/v1/jobs", NAME_MS, {"name": "a1f"}),
        Look("a word of a name", "/v1/jobs", NAME_MS, {"name": "nightly"}),
        Look("jobs counted", "/v1/jobs/count", 600),
        Look("paused jobs counted", "/v1/jobs/count", 600, {"state": "paused"}),
        Look("executions", "/v1/executions", LIST_MS),
        Look("executions of a queue that has none", "/v1/executions", LIST_MS, {"queue": "nobody"}),
        Look("executions of a day that is over", "/v1/executions", LIST_MS, {"fire_to": ago["from"]}),
        Look("executions of a job", f"/v1/jobs/{job}/executions", LIST_MS),
        *(
            Look(f"executions {state}", "/v1/executions", LIST_MS, {"state": state})
            for state in ("dead", "skipped", "running", "cancelled")
        ),
        Look("executions by error", "/v1/executions", LIST_MS, {"error": "503"} | ago),
        Look("executions late", "/v1/executions", LIST_MS, {"min_lag": "10s"} | ago),
        Look("executions by job name", "/v1/executions", LIST_MS, {"job_name": "a1f2"} | ago),
        Look("executions counted", "/v1/executions/count", 1100),
        Look("an execution", f"/v1/executions/{execution}", LIST_MS),
        Look("explain", f"/v1/executions/{execution}/explain", LIST_MS),
        Look("dead letters", "/v1/dead-letters", LIST_MS),
        Look("queues", "/v1/queues", LIST_MS),
        Look("a queue", "/v1/queues/reports", LIST_MS),
        Look("a job and its last 20", f"/v1/jobs/{job}", LIST_MS, {"with": "recent"}),
        Look("a job's next fires", f"/v1/jobs/{job}/upcoming", LIST_MS),
        Look("backfills of a job", f"/v1/jobs/{job}/backfills", LIST_MS),
        Look("operations", "/v1/operations", LIST_MS),
        Look("alerts", "/v1/alerts", LIST_MS),
        Look("audit", "/v1/audit", LIST_MS),
        Look("audit of a rare action", "/v1/audit", LIST_MS, {"action": "secret.put"}),
        Look("audit of a job", "/v1/audit", LIST_MS, {"object": quiet}),
        *(
            Look(f"executions {state} counted", "/v1/executions/count", 600, {"state": state, "cap": 1000})
            for state in ("queued", "succeeded", "dead", "expired")
        ),
        Look("cancelled jobs counted", "/v1/jobs/count", 600, {"state": "cancelled", "cap": 1000}),
    ]
    views = [
        Look("summary", "/v1/stats/summary", VIEW_MS),
        Look("series of an hour", "/v1/stats/series", VIEW_MS),
        Look("series of a day", "/v1/stats/series", VIEW_MS, ago),
        Look("lag of a day", "/v1/stats/lag", VIEW_MS, ago),
        Look("series of a job", "/v1/stats/series", VIEW_MS, {"job": job} | ago),
        Look("timeline of 50 lanes", "/v1/timeline", VIEW_MS, {"limit": 50, "sort": "next_fire"} | ago),
        Look("timeline of dense lanes", "/v1/timeline", VIEW_MS, {"name": "tick"} | ago),
        Look("calendar of a job every 5 s", f"/v1/jobs/{job}/calendar", VIEW_MS),
        Look("calendar of a job", f"/v1/jobs/{quiet}/calendar", VIEW_MS),
        Look("groups of dead letters", "/v1/dead-letters/groups", VIEW_MS),
        Look("forecast", "/v1/forecast", VIEW_MS),
        Look("forecast of a week", "/v1/forecast", VIEW_MS, {"to": week, "step": "10m"}),
        Look("upcoming", "/v1/upcoming", VIEW_MS),
    ]
    return lists + views


def measure(api: InProcessApi, look: Look, key: str, rounds: int) -> tuple[float, float]:
    """The median and the 95th of a hundred, in milliseconds."""
    took = []
    for _ in range(rounds):
        api.context.fresh._kept.clear()  # noqa: SLF001 - nothing is remembered: each answer is a first one
        began = time.perf_counter()
        answer = api.get(look.path, key=key, **look.query)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status == 200, (look, answer.status, answer.body[:300])
    return statistics.median(took), sorted(took)[max(0, round(0.95 * len(took)) - 1)]


async def prepare(jobs: int, history: int, kept: Path | None, measured: Any) -> None:
    """Fill an installation, unless it is kept from before, then measure over it."""
    async with installation(kept) as place:
        if not await place.count("(SELECT FROM jobs LIMIT 1) AS any_job"):
            began = time.perf_counter()
            await fill(place.database, jobs, history)
            took = time.perf_counter() - began
            print(f"{jobs:,} jobs and {history:,} rows of history in {took:.0f} s", flush=True)
        print(f"the forecast of all shards took {await foresee(place.database):.1f} s", flush=True)
        await asyncio.to_thread(measured, place.url)


def main() -> None:
    """Fill, ask, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--history", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="where the data stays, and is found again")
    parser.add_argument("--only", default="", help="measure only what has this in its name")
    given = parser.parse_args()
    CONTRACT.check = lambda *_: None  # answers are timed here, and judged by tests

    def measured(url: str) -> None:
        with in_process_api(url) as api:
            for tenant in ("default", "hundredth"):
                ask(api, tenant, given.rounds, given.only)

    asyncio.run(prepare(given.jobs, given.history, given.keep, measured))


def ask(api: InProcessApi, tenant: str, rounds: int, only: str) -> None:
    """All looks of one tenant."""
    key = api.new_key("read", tenant=tenant)
    item = api.get("/v1/executions", key=key, state="dead", limit=1).json()["items"][0]
    tick = api.get("/v1/jobs/by-name/tick", key=key).json()["id"]
    now = api.get("/v1/stats/summary", key=key).json()["now"]
    ago, week = (format_instant(parse_instant(now, "now") + days * DAY) for days in (-1, 6))
    print(f"tenant {tenant}")
    for look in looks(tick, item["job_id"], item["id"], {"from": ago}, week):
        if only not in look.name:
            continue
        query = {
            ("fire_from" if name == "from" and "executions" in look.path else name): value
            for name, value in look.query.items()
        }
        median, high = measure(api, look._replace(query=query), key, rounds)
        verdict = "" if high <= look.budget_ms else f"  OVER {look.budget_ms} ms"
        print(f"  {look.name:32} p50 {median:7.1f} ms  p95 {high:7.1f} ms{verdict}", flush=True)


if __name__ == "__main__":
    main()
