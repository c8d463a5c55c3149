"""Clients that pause, resume, change, skip, run and cancel while planners and workers are at it.

Two real engines and the API run on one event loop over one database, each with connections of their own.
Clients do thousands of things at once, at random. Then the jobs are given an end, everything comes to rest,
and each fire time that a job's schedule has named must be accounted for exactly once: it ran, was called off,
or was skipped for a reason.
"""

import asyncio
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from tests.support.api import Answer, InProcessApi, in_process_api
from tests.support.sink import Sink
from tocsin.domain.ids import parse_execution_text, parse_job_text
from tocsin.domain.instant import SECOND, Instant, format_instant
from tocsin.roles.engine import ENGINE
from tocsin.roles.node import Node
from tocsin.settings import Settings

OPERATIONS = int(os.environ.get("TOCSIN_RACE_OPERATIONS", "1000"))
CLIENTS = 8
JOBS = 15
PATIENCE = 90.0
AHEAD = 600 * SECOND
REFUSALS = {404, 409, 412}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


def test_whatever_clients_do_no_fire_time_is_lost_or_comes_twice(url: str) -> None:
    with in_process_api(url) as api, Sink() as sink:
        crowd = Crowd(api, sink, seed=3)

        async def race() -> None:
            async with engines(url, 2):
                await crowd.define(JOBS)
                await crowd.rush(OPERATIONS)
                await crowd.come_to_rest()
            for job in crowd.jobs:
                crowd.check(job, await rows_of(api, job["id"]))
            assert crowd.done["acted"] > OPERATIONS / 4, "most of it must not have been refused"
            print(dict(crowd.done))

        api.run(race())


class Crowd:
    """Clients with a common memory of what they were promised."""

    def __init__(self, api: InProcessApi, sink: Sink, seed: int) -> None:
        self._api = api
        self._sink = sink
        self._rng = random.Random(seed)
        self.jobs: list[dict[str, Any]] = []
        self.runs: Counter[tuple[str, Instant]] = Counter()
        self.changes: dict[str, list[Change]] = {}
        self.done: Counter[str] = Counter()

    async def define(self, count: int) -> None:
        for number in range(count):
            body = {
                "schedule": {"every": "1s"},
                # Some calls outlast the next fire time.
                "target": {
                    "kind": "http",
                    "url": f"{self._sink.url}/slow/{self._rng.choice((0.1, 0.5, 1.2))}",
                },
                "misfire": {"policy": ("fire_all", "fire_once", "skip")[number % 3], "max": 1000},
                "overlap": ("allow", "queue", "skip", "collapse", "replace")[number // 3 % 5],
            }
            began = now()
            job = (await self._ask("POST", "/v1/jobs", body)).json()
            self.jobs.append(job)
            # Half of the jobs keep their schedule, so that nothing is left to interpretation.
            self.changes[job["id"]] = [Change(1, 1, began, now())]

    async def rush(self, operations: int) -> None:
        """Everybody does something, again and again."""
        left = iter(range(operations))

        async def client() -> None:
            for _ in left:
                job = self._rng.choice(self.jobs)
                action = self._rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
                answer = await action(self, job["id"])
                assert answer.status < 300 or answer.status in REFUSALS, answer
                self.done["acted" if answer.status < 300 else "refused"] += 1
                self.done[action.__name__] += answer.status < 300

        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    async def come_to_rest(self) -> None:
        """Let every job end soon, and wait until nothing is left."""
        for job in self.jobs:
            every = max(self.changes[job["id"]], key=lambda change: change.version).seconds
            job["ends_at"] = (now() // SECOND + 4) * SECOND
            ending = {"every": f"{every}s", "ends_at": format_instant(job["ends_at"])}
            began = now()
            answer = await self._ask("PATCH", f"/v1/jobs/{job['id']}", {"schedule": ending})
            assert answer.status == 200, answer
            self.changes[job["id"]].append(Change(answer.json()["version"], every, began, now()))
            resumed = await self._ask("POST", f"/v1/jobs/{job['id']}/resume")
            assert resumed.status in {200, 409}
        async with asyncio.timeout(PATIENCE):
            while await self._api.database.fetchrow(
                "SELECT true FROM jobs WHERE state <> 'completed' UNION ALL SELECT true FROM executions LIMIT 1"
            ):
                await asyncio.sleep(0.05)

    def check(self, job: dict[str, Any], rows: list[Any]) -> None:
        """Each fire time that a version named is there once; nothing else is, but what was run by hand."""
        by_hand = Counter((job["id"], row["fire_at"]) for row in rows if row["cause"] in {"manual", "rerun"})
        assert by_hand == Counter({key: n for key, n in self.runs.items() if key[0] == job["id"]})
        found: Counter[Instant] = Counter()
        changes = sorted(self.changes[job["id"]], key=lambda change: change.version)
        for row in rows:
            if row["cause"] in {"manual", "rerun"}:
                continue
            if row["fire_until"] is None:
                found[row["fire_at"]] += 1
            else:
                found.update(times_in(changes, row["fire_at"], row["fire_until"], row["fire_count"]))
        assert max(found.values()) == 1, [format_instant(time) for time, n in found.items() if n > 1]
        for certain, times in named(changes, job["ends_at"]):
            missing = [format_instant(time) for time in times if certain and time not in found]
            assert not missing, f"{job['id']} lost {missing}, changes: {changes}"
        possible = {time for _, times in named(changes, job["ends_at"]) for time in times}
        extra = [format_instant(time) for time in found if time not in possible]
        assert not extra, f"{job['id']} fired at {extra} without a reason"

    async def pause(self, job_id: str) -> Answer:
        until = {"until": format_instant(now() + self._rng.randrange(300_000, 2_000_000))}
        return await self._ask("POST", f"/v1/jobs/{job_id}/pause", self._rng.choice([None, until]))

    async def resume(self, job_id: str) -> Answer:
        return await self._ask("POST", f"/v1/jobs/{job_id}/resume", {"dry_run": self._rng.random() < 0.2})

    async def edit(self, job_id: str) -> Answer:
        version = (await self._ask("GET", f"/v1/jobs/{job_id}")).headers["etag"]
        body = {"description": f"edited {self._rng.random()}", "priority": self._rng.randrange(10)}
        return await self._ask("PATCH", f"/v1/jobs/{job_id}", body, version)

    async def reschedule(self, job_id: str) -> Answer:
        if self._number(job_id) % 2 == 0:
            return await self.edit(job_id)
        every, began = self._rng.choice((1, 2, 3)), now()
        answer = await self._ask("PATCH", f"/v1/jobs/{job_id}", {"schedule": {"every": f"{every}s"}})
        if answer.status == 200:
            self.changes[job_id].append(Change(answer.json()["version"], every, began, now()))
        return answer

    async def skip_next(self, job_id: str) -> Answer:
        return await self._ask("POST", f"/v1/jobs/{job_id}/skip-next")

    async def run(self, job_id: str) -> Answer:
        answer = await self._ask(
            "POST", f"/v1/jobs/{job_id}/run", {"override_overlap": self._rng.random() < 0.5}
        )
        if answer.status == 202:
            self.runs[job_id, parse_execution_text(answer.json()["id"]).fire_at] += 1
        return answer

    async def cancel_queued(self, job_id: str) -> Answer:
        return await self._ask("POST", f"/v1/jobs/{job_id}/cancel-queued")

    async def cancel_one(self, job_id: str) -> Answer:
        return await self._to_an_execution(job_id, "cancel", {"queued", "claimed", "running"})

    async def retry_one(self, job_id: str) -> Answer:
        return await self._to_an_execution(job_id, "retry", {"cancelled"})

    async def rerun_one(self, job_id: str) -> Answer:
        answer = await self._to_an_execution(job_id, "rerun", {"succeeded", "cancelled", "skipped"})
        if answer.status == 202:
            self.runs[job_id, parse_execution_text(answer.json()["id"]).fire_at] += 1
        return answer

    async def _to_an_execution(self, job_id: str, action: str, states: set[str]) -> Answer:
        page = await self._ask("GET", f"/v1/jobs/{job_id}/executions?limit=60")
        able = [item["id"] for item in page.json()["items"] if item["state"] in states]
        if not able:
            return page
        return await self._ask("POST", f"/v1/executions/{self._rng.choice(able)}/{action}")

    def _number(self, job_id: str) -> int:
        return next(place for place, job in enumerate(self.jobs) if job["id"] == job_id)

    async def _ask(self, method: str, path: str, body: Any = None, if_match: str | None = None) -> Answer:
        raw = b"" if body is None else json.dumps(body).encode()
        headers = [] if if_match is None else [(b"if-match", if_match.encode())]
        return await self._api.ask(method, path, raw, headers=headers)


ACTIONS: dict[Callable[[Crowd, str], Awaitable[Answer]], int] = {
    Crowd.pause: 16,
    Crowd.resume: 20,
    Crowd.edit: 12,
    Crowd.reschedule: 12,
    Crowd.skip_next: 10,
    Crowd.run: 8,
    Crowd.cancel_queued: 2,
    Crowd.cancel_one: 10,
    Crowd.retry_one: 6,
    Crowd.rerun_one: 4,
}


class Change:
    """A schedule that a job was given: the version it became, its seconds, and between which instants it
    happened."""

    def __init__(self, version: int, every: int, began: Instant, answered: Instant) -> None:
        self.version = version
        self.seconds = every
        self.began = began
        self.answered = answered

    def times(self, first: Instant, last: Instant) -> range:
        every = self.seconds * SECOND
        return range(-(-first // every) * every, last + 1, every)

    def __repr__(self) -> str:
        return f"<{self.version}: every {self.seconds}s at {format_instant(self.answered)}>"


def named(changes: list[Change], ends_at: Instant) -> list[tuple[bool, range]]:
    """What each version named while it was certainly, and while it was possibly, the current one."""
    found = []
    for change, after in zip(changes, [*changes[1:], None], strict=True):
        last = ends_at if after is None else after.began - 1
        found.append((True, change.times(change.answered + 1, last)))
        # The next fire can be skipped or called off long ahead, and then is decided whatever the next version
        # says.
        found.append(
            (False, change.times(change.began, ends_at if after is None else after.answered + AHEAD))
        )
    return found


def times_in(changes: list[Change], first: Instant, last: Instant, count: int) -> range:
    """The fire times of a run of skips: those of the one version that names so many there."""
    for change in changes:
        times = change.times(first, last)
        if len(times) == count and times[0] == first and times[-1] == last:
            return times
    raise AssertionError(f"no version names {count} fire times from {first} to {last}")


async def rows_of(api: InProcessApi, job_id: str) -> list[Any]:
    return await api.database.fetch(
        "SELECT fire_at, fire_until, fire_count, state, cause FROM history WHERE job_id = $1",
        parse_job_text(job_id),
    )


@asynccontextmanager
async def engines(url: str, count: int) -> AsyncIterator[None]:
    """Real engines on this event loop."""
    stop = asyncio.Event()
    nodes = [
        asyncio.create_task(Node(Settings(drain_timeout=5.0, allow_loopback=True), ENGINE, url).run(stop))
        for _ in range(count)
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(nodes, timeout=30)
        for node in nodes:
            node.cancel()


def now() -> Instant:
    return time.time_ns() // 1000


def test_of_two_editors_with_the_same_version_one_wins_and_the_other_loses_nothing(url: str) -> None:
    rounds = OPERATIONS // 25
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"}, name="edited", description="0", tags=["0"])
        path = f"/v1/jobs/{job['id']}"

        async def edit(version: str, body: dict[str, Any]) -> Answer:
            return await api.ask(
                "PATCH", path, json.dumps(body).encode(), headers=[(b"if-match", version.encode())]
            )

        async def race() -> None:
            for number in range(1, rounds + 1):
                version = (await api.ask("GET", path)).headers["etag"]
                edits: list[dict[str, Any]] = [{"description": str(number)}, {"tags": [str(number)]}]
                answers = await asyncio.gather(*(edit(version, body) for body in edits))
                assert sorted(answer.status for answer in answers) == [200, 412]
                lost = edits[0 if answers[0].status == 412 else 1]
                shown = await api.ask("GET", path)
                before = str(number - 1)
                fields = shown.json()["description"], shown.json()["tags"]
                assert fields == (
                    (before, [str(number)]) if "description" in lost else (str(number), [before])
                )
                again = await edit(shown.headers["etag"], lost)
                assert again.status == 200
                assert (again.json()["description"], again.json()["tags"]) == (str(number), [str(number)])
            assert (await api.ask("GET", path)).json()["version"] == 1 + 2 * rounds

        api.run(race())


def test_many_editors_without_a_version_all_have_their_change_applied(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        path = f"/v1/jobs/{job['id']}"

        async def race() -> None:
            bodies = [{"description": "words"}, {"tags": ["a"]}, {"priority": 1}]
            answers = await asyncio.gather(
                *(api.ask("PATCH", path, json.dumps(body).encode()) for body in bodies)
            )
            assert {answer.status for answer in answers} == {200}
            shown = (await api.ask("GET", path)).json()
            assert (shown["description"], shown["tags"], shown["priority"]) == ("words", ["a"], 1)

        api.run(race())
