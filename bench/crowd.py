"""A crowd of jobs and a long history, made by set-based SQL, and how long every list and view of the
dashboard takes over it.

    .venv/bin/python -m bench.crowd [--jobs 1000000] [--history 10000000] [--rounds 20] [--keep DIRECTORY]

Three tenants: one has 89 % of it, one 10 %, one 1 %. To make it takes minutes; with `--keep` it stays for the
next time, which migrates it. Answers are timed in process, from the request to its body, over a real
PostgreSQL; the slowest of the middle 95 % is held against its budget (DASHBOARD budgets: lists 200 ms, views
300 ms, three letters of a name 500 ms, any other request 1 s). Ends with status 1 if one is over.
"""

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.api import CONTRACT, InProcessApi, in_process_api

from bench.crowd_data import TENANTS, fill, foresee
from bench.crowd_looks import Look, looks, looks_of_operators
from bench.installation import installation
from tocsin.domain.instant import DAY, format_instant, parse_instant

_BY_FIRE_TIME = ("/v1/executions", "/v1/dead-letters")
"""Lists whose range is of fire times."""


def measure(api: InProcessApi, look: Look, key: str, rounds: int) -> tuple[float, float]:
    """The median and the 95th of a hundred, in milliseconds."""
    took = []
    for _ in range(rounds):
        api.context.fresh._kept.clear()  # noqa: SLF001 - nothing is remembered: each answer is a first one
        began = time.perf_counter()
        if look.body is None:
            answer = api.get(look.path, key=key, **look.query)
        else:
            answer = api.post(look.path, look.body, key=key)
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

    over: list[str] = []

    def measured(url: str) -> None:
        with in_process_api(url) as api:
            for tenant in TENANTS:
                over.extend(ask(api, tenant, given.rounds, given.only))

    asyncio.run(prepare(given.jobs, given.history, given.keep, measured))
    if over:
        sys.exit(f"{len(over)} over their budgets: {', '.join(over)}")


def ask(api: InProcessApi, tenant: str, rounds: int, only: str) -> list[str]:
    """All looks of one tenant; of the first also those of operators. Returns which took too long."""
    scopes = ("read", "write", "admin") if tenant == TENANTS[0] else ("read", "write")
    key, over = api.new_key(*scopes, tenant=tenant), []
    item = api.get("/v1/executions", key=key, state="dead", limit=1).json()["items"][0]
    tick = api.get("/v1/jobs/by-name/tick", key=key).json()["id"]
    now = api.get("/v1/stats/summary", key=key).json()["now"]
    ago, week = (format_instant(parse_instant(now, "now") + days * DAY) for days in (-1, 6))
    print(f"tenant {tenant}")
    wanted = looks(tick, item["job_id"], item["id"], {"from": ago}, week)
    if "admin" in scopes:
        wanted += looks_of_operators(tenant, api.get("/v1/whoami", key=key).json()["key_id"])
    for look in wanted:
        if only not in look.name:
            continue
        query = {
            ("fire_from" if name == "from" and look.path in _BY_FIRE_TIME else name): value
            for name, value in look.query.items()
        }
        median, high = measure(api, look._replace(query=query), key, rounds)
        verdict = "" if high <= look.budget_ms else f"  OVER {look.budget_ms} ms"
        if verdict:
            over.append(f"{look.name} ({tenant})")
        print(f"  {look.name:40} p50 {median:7.1f} ms  p95 {high:7.1f} ms{verdict}", flush=True)
    return over


if __name__ == "__main__":
    main()
