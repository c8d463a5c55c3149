"""Group commit: hundreds of creations share a commit, and each hears of its own fate only."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from tests.support.api import CONTRACT, Answer, InProcessApi, in_process_api
from tocsin.api.batch_items import lines_of
from tocsin.domain.errors import Refused
from tocsin.store.jobs import JobStore, NewJob

NOOP: dict[str, Any] = {"target": {"kind": "noop"}}


def _create(api: InProcessApi, bodies: list[dict[str, Any]]) -> list[Answer]:
    async def all_at_once() -> list[Answer]:
        return await asyncio.gather(
            *(api.ask("POST", "/v1/jobs", json.dumps(NOOP | body).encode()) for body in bodies)
        )

    return api.run(all_at_once())


def test_hundreds_of_creations_at_once_all_succeed_and_each_answer_is_its_own_jobs(url: str) -> None:
    with in_process_api(url) as api:
        bodies = [
            {"name": f"job {n}", "tags": [f"t{n}"], "priority": n % 10, "schedule": {"every": 60 + n}}
            if n % 2
            else {"name": f"job {n}", "tags": [f"t{n}"], "priority": n % 10, "schedule": {"in": 60 + n}}
            for n in range(400)
        ]
        answers = _create(api, bodies)
        assert {answer.status for answer in answers} == {201}
        stored = {row["id"]: row for page in api.pages("/v1/jobs", limit=500) for row in page}
        assert len(stored) == len(bodies)
        for body, answer in zip(bodies, answers, strict=True):
            created = answer.json()
            for job in (created, stored[created["id"]]):
                assert {name: job[name] for name in ("name", "tags", "priority")} == {
                    name: body[name] for name in ("name", "tags", "priority")
                }
        assert len(api.fetch("SELECT FROM executions")) == 200


def test_creations_share_transactions(url: str) -> None:
    with in_process_api(url) as api:
        _create(api, [{"schedule": {"in": "1h"}} for _ in range(400)])
        (row,) = api.fetch("SELECT count(DISTINCT xmin::text) AS transactions FROM jobs")
        assert row["transactions"] <= 10


def test_a_taken_name_in_a_batch_is_refused_alone(url: str) -> None:
    with in_process_api(url) as api:
        api.create(name="taken", schedule={"every": "1h"})
        names = ["taken" if n % 10 == 0 else f"free {n}" for n in range(200)]
        answers = _create(api, [{"name": name, "schedule": {"every": "1h"}} for name in names])
        for name, answer in zip(names, answers, strict=True):
            assert answer.status == (409 if name == "taken" else 201), name
            if answer.status == 409:
                assert answer.problem()["field"] == "name"
        assert len(api.fetch("SELECT FROM jobs")) == 181


def test_of_many_creations_with_one_name_exactly_one_succeeds(url: str) -> None:
    with in_process_api(url) as api:
        names = [f"name {n}" for n in range(20)] * 10
        random.Random(1).shuffle(names)
        answers = _create(api, [{"name": name, "schedule": {"every": "1h"}} for name in names])
        created = [answer.json()["name"] for answer in answers if answer.status == 201]
        assert sorted(created) == sorted(set(names))
        assert {answer.status for answer in answers} == {201, 409}


def test_two_api_processes_creating_the_same_names_never_fail_for_each_other(url: str) -> None:
    """New names and new lanes in opposite orders: a lock taken in another order would be a deadlock."""
    with in_process_api(url) as api:
        bodies = [
            {"name": f"name {n}", "queue": f"q{n % 40}", "schedule": {"every": "1h"}} for n in range(300)
        ]

        async def both() -> list[Answer]:
            other = in_process_api(url)
            await other.open()
            try:
                calls = [
                    one.ask("POST", "/v1/jobs", json.dumps(NOOP | body).encode())
                    for one, order in ((api, bodies), (other, bodies[::-1]))
                    for body in order
                ]
                return await asyncio.gather(*calls)
            finally:
                await other.close()

        statuses = [answer.status for answer in api.run(both())]
        assert statuses.count(201) == 300
        assert statuses.count(409) == 300


def test_a_job_that_cannot_be_written_fails_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_process_api(url) as api:
        define = JobStore.define

        async def refusing(store: JobStore, jobs: Sequence[NewJob], now: int) -> set[UUID]:
            if any(job.definition.name == "poison" for job in jobs):
                raise ValueError("a value that no check has foreseen")
            return await define(store, jobs, now)

        monkeypatch.setattr(JobStore, "define", refusing)
        monkeypatch.setattr(CONTRACT, "check", lambda *_: None)  # no operation promises a defect
        names = ["poison" if n == 20 else f"name {n}" for n in range(50)]
        answers = _create(api, [{"name": name, "schedule": {"every": "1h"}} for name in names])
        assert [answer.status for answer in answers] == [500 if name == "poison" else 201 for name in names]
        assert len(api.fetch("SELECT FROM jobs")) == 49


def test_a_creation_that_waited_in_line_for_too_long_is_given_up_and_not_written(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    define, names = JobStore.define, []

    async def slow(store: JobStore, jobs: Sequence[NewJob], *rest: Any, **more: Any) -> set[UUID]:
        names.extend(job.definition.name for job in jobs)
        api.context.intake._patience = -1.0  # a long time has passed
        return await define(store, jobs, *rest, **more)

    with in_process_api(url) as api:
        monkeypatch.setattr("tocsin.api.intake._BATCH", 1)
        monkeypatch.setattr(JobStore, "define", slow)
        answers = _create(api, [{"name": f"job {n}", "schedule": {"every": "1h"}} for n in range(4)])
        assert sorted(answer.status for answer in answers) == [201, 503, 503, 503]
        assert [a.headers["retry-after"] for a in answers if a.status == 503] == ["1"] * 3
        assert [job["name"] for job in api.get("/v1/jobs").json()["items"]] == names


def test_declarations_of_one_name_at_once_are_all_carried_out_and_one_of_them_stays(url: str) -> None:
    bodies = [NOOP | {"schedule": {"every": f"{n + 1}h"}, "priority": n % 10} for n in range(24)]

    async def all_at_once(api: InProcessApi) -> list[Answer]:
        path = "/v1/jobs/by-name/report"
        return await asyncio.gather(*(api.ask("PUT", path, json.dumps(body).encode()) for body in bodies))

    with in_process_api(url) as api:
        statuses = [answer.status for answer in api.run(all_at_once(api))]
        assert sorted(statuses) == [200] * 23 + [201]
        [job] = api.get("/v1/jobs").json()["items"]
        assert {"schedule": job["schedule"], "priority": job["priority"]} in [
            {"schedule": body["schedule"], "priority": body["priority"]} for body in bodies
        ]


def test_a_client_that_goes_away_leaves_a_whole_job_or_none(url: str) -> None:
    with in_process_api(url) as api:

        async def go_away() -> None:
            body = json.dumps(NOOP | {"schedule": {"in": "1h"}}).encode()
            tasks = [asyncio.create_task(api.ask("POST", "/v1/jobs", body)) for _ in range(60)]
            for n, task in enumerate(tasks):
                for _ in range(n % 7):
                    await asyncio.sleep(0)
                if n % 3 == 0:
                    task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            answered = [answer.status for answer in done if isinstance(answer, Answer)]
            assert set(answered) == {201}
            assert 40 <= len(answered) < 60, "nobody went away in the middle"

        api.run(go_away())
        rows = api.fetch("SELECT j.id, e.job_id FROM jobs j FULL JOIN executions e ON e.job_id = j.id")
        assert all(row["id"] == row["job_id"] for row in rows)
        assert 40 <= len(rows) <= 60
        assert api.create(schedule={"in": "1h"})["state"] == "active"


def test_a_batch_that_is_all_or_none_writes_nothing_for_one_bad_item_and_names_it(url: str) -> None:
    with in_process_api(url) as api:
        jobs = [
            NOOP | {"schedule": {"in": "1h"}},
            NOOP | {"schedule": {"in": "-1h"}},
            NOOP | {"schedule": {}},
        ]
        answer = api.post("/v1/jobs:batch?atomic=true", jobs)
        assert answer.status == 422
        problems = [item.get("problem") for item in answer.json()["items"]]
        assert [problem and problem["field"] for problem in problems] == [None, "schedule.in", "schedule"]
        assert api.fetch("SELECT FROM jobs") == []
        assert [api.post("/v1/jobs:batch", jobs).json()[name] for name in ("created", "refused")] == [1, 2]


def test_a_batch_that_is_no_list_is_refused_in_plain_words(url: str) -> None:
    with in_process_api(url) as api:
        refused = api.post("/v1/jobs:batch", {"schedule": "@daily", "target": {"kind": "noop"}})
        assert refused.status == 422
        assert refused.problem()["detail"] == "expected a list, got an object"


def test_a_line_of_a_batch_that_never_ends_is_refused_early() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(900):
            yield b"x" * 65536

    async def read() -> None:
        async for _ in lines_of(endless()):
            raise AssertionError("a line without an end is no line")

    with pytest.raises(Refused, match="a line is at most 1 MiB"):
        asyncio.run(asyncio.wait_for(read(), 5))
