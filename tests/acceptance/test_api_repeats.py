"""Requests that are repeated: with an Idempotency-Key nothing is done twice, also by two at once; and a batch
that breaks off says what became of each item."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.support.api import Answer, InProcessApi, in_process_api
from tocsin.api.batch_items import arriving
from tocsin.api.problems import OUTCOME_UNKNOWN, type_of
from tocsin.domain.errors import OutcomeUnknown, Refused, Unavailable
from tocsin.store.jobs import JobStore, Keyed

NOOP: dict[str, Any] = {"target": {"kind": "noop"}}
KEY = ((b"idempotency-key", b"monday"),)
LINES = ((b"content-type", b"application/x-ndjson"),)
PAST = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has at most 120 items, of which 50 are written at a time."""
    for place in ("tocsin.api.batch", "tocsin.api.batch_items"):
        monkeypatch.setattr(f"{place}.MAX_ITEMS", 120)
    monkeypatch.setattr("tocsin.api.batch._WRITE", 50)


def _items(number: int, **more: Any) -> list[dict[str, Any]]:
    return [NOOP | {"name": f"job {n}", "schedule": {"in": 3600 + n}} | more for n in range(number)]


def _batch(
    api: InProcessApi, items: Sequence[Any], query: str = "", *, lines: bool = False, key: bool = True
) -> Answer:
    body = "\n".join(map(json.dumps, items)) if lines else json.dumps(items)
    headers = (*(KEY if key else ()), *(LINES if lines else ()))
    return api.call("POST", f"/v1/jobs:batch{query}", body.encode(), headers=headers)


def _count(api: InProcessApi) -> int:
    return sum(len(page) for page in api.pages("/v1/jobs", limit=500))


def _again(api: InProcessApi, path: str, body: Any = None, number: int = 2) -> list[Answer]:
    """The same request with the same key, at once and once more."""
    sent = b"" if body is None else json.dumps(body).encode()

    async def at_once() -> list[Answer]:
        return await asyncio.gather(*(api.ask("POST", path, sent, headers=KEY) for _ in range(number)))

    return [*api.run(at_once()), api.call("POST", path, sent, headers=KEY)]


def test_a_job_that_is_fired_with_a_key_fires_once(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        answers = _again(api, f"/v1/jobs/{job['id']}/run")
        assert {answer.status for answer in answers} == {202}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert sum(answer.headers.get("idempotent-replayed") == "true" for answer in answers) == 2
        assert len(api.executions(job)) == 1
        other = api.create(schedule={"every": "1h"})
        refused = api.call("POST", f"/v1/jobs/{other['id']}/run", headers=KEY)
        assert (refused.status, refused.problem()["field"]) == (422, "idempotency_key")
        assert api.executions(other) == []


def test_a_repetition_is_answered_although_the_job_has_ended_meanwhile(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        first = api.call("POST", f"/v1/jobs/{job['id']}/run", headers=KEY).json()
        api.post(f"/v1/jobs/{job['id']}/cancel")
        again = api.call("POST", f"/v1/jobs/{job['id']}/run", headers=KEY)
        assert (again.status, again.json()["id"], again.json()["state"]) == (202, first["id"], "cancelled")


def test_an_execution_that_is_run_again_with_a_key_runs_again_once(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        first = api.post(f"/v1/jobs/{job['id']}/run").json()
        api.post(f"/v1/executions/{first['id']}/cancel")
        answers = _again(api, f"/v1/executions/{first['id']}/rerun")
        assert {answer.status for answer in answers} == {202}
        assert {answer.json()["rerun_of"] for answer in answers} == {first["id"]}
        assert len(api.executions(job)) == 2


def test_a_backfill_with_a_key_is_made_once(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        answers = _again(api, f"/v1/jobs/{job['id']}/backfills", PAST)
        assert len({answer.json()["backfill"]["id"] for answer in answers}) == 1
        assert len(api.get(f"/v1/jobs/{job['id']}/backfills").json()["items"]) == 1


def test_a_fire_is_skipped_once_and_an_execution_retried_once(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1h"})
        skips = _again(api, f"/v1/jobs/{job['id']}/skip-next")
        assert len({answer.json()["skipped"] for answer in skips}) == 1
        dead = api.post(f"/v1/jobs/{job['id']}/run").json()
        api.post(f"/v1/executions/{dead['id']}/cancel")
        other = ((b"idempotency-key", b"tuesday"),)
        path = f"/v1/executions/{dead['id']}/retry"
        assert [api.call("POST", path, headers=other).status for _ in range(2)] == [202, 202]


def test_a_key_is_refused_where_repeating_cannot_be_kept_from_doing_it_twice(url: str) -> None:
    with in_process_api(url) as api:
        body = json.dumps({"name": "ci", "scopes": ["read"]}).encode()
        refused = api.call("POST", "/v1/keys", body, headers=KEY)
        assert (refused.status, refused.problem()["field"]) == (422, "Idempotency-Key")


def test_a_batch_of_one_item_too_many_writes_nothing(url: str) -> None:
    with in_process_api(url) as api:
        answer = _batch(api, _items(10_001), key=False)
        assert (answer.status, _count(api)) == (422, 0)


@pytest.mark.usefixtures("small")
def test_lines_of_one_item_too_many_say_what_was_written(url: str) -> None:
    with in_process_api(url) as api:
        answer = _batch(api, _items(121), lines=True, key=False)
        body = answer.json()
        assert (answer.status, body["created"], body["refused"], body["complete"]) == (200, 120, 1, False)
        assert [item["index"] for item in body["items"] if "problem" in item] == [120]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("query", ["", "?atomic=true"])
@pytest.mark.parametrize("lines", [False, True])
def test_a_batch_that_is_repeated_with_its_key_creates_nothing_twice(
    url: str, query: str, lines: bool
) -> None:
    with in_process_api(url) as api:
        first, again = (_batch(api, _items(110), query, lines=lines) for _ in range(2))
        assert first.json()["items"] == again.json()["items"]
        assert (first.json()["created"], _count(api)) == (110, 110)
        assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (
            None,
            "true",
        )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("query", ["", "?atomic=true"])
def test_two_batches_with_one_key_at_once_create_everything_once(url: str, query: str) -> None:
    with in_process_api(url) as api:
        answers = _again(api, f"/v1/jobs:batch{query}", _items(115))
        assert [answer.status for answer in answers] == [200] * 3
        assert len({json.dumps(answer.json()["items"]) for answer in answers}) == 1
        assert _count(api) == 115


def test_a_batch_goes_on_where_it_broke_off_and_refuses_what_is_another_item(url: str) -> None:
    with in_process_api(url) as api:
        begun = _batch(api, _items(3)).json()["items"]
        changed = [*_items(2), *_items(1, queue="mail"), *_items(5)[3:]]
        items = _batch(api, changed).json()["items"]
        assert items[:2] == begun[:2]
        assert items[2]["problem"]["field"] == "idempotency_key"
        assert [("id" in item) for item in items[3:]] == [True, True]
        assert _count(api) == 5


def test_an_item_that_was_refused_may_be_repeated(url: str) -> None:
    with in_process_api(url) as api:
        taken = NOOP | {"name": "report", "schedule": {"every": "1h"}}
        job = api.create(**taken)
        assert _batch(api, [taken]).json()["items"][0]["problem"]["status"] == 409
        api.delete(f"/v1/jobs/{job['id']}")
        assert _batch(api, [taken]).json()["created"] == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("error", [Unavailable("away"), OutcomeUnknown("silent")])
def test_a_batch_that_loses_its_database_says_what_became_of_each_item(
    url: str, error: Unavailable, monkeypatch: pytest.MonkeyPatch
) -> None:
    define, written = JobStore.define_under, []

    async def once(store: JobStore, jobs: Sequence[Keyed], now: int) -> Any:
        if written:
            raise error
        written.extend(jobs)
        return await define(store, jobs, now)

    with in_process_api(url) as api:
        with monkeypatch.context() as patch:
            patch.setattr(JobStore, "define_under", once)
            body = _batch(api, _items(115), lines=True).json()
        assert (body["created"], body["complete"]) == (50, False)
        assert ["id" in item for item in body["items"]] == [True] * 50 + [False] * (len(body["items"]) - 50)
        assert {item["problem"]["status"] for item in body["items"][50:]} == {503}
        unknown = {item["problem"].get("type") for item in body["items"][50:100]}
        assert unknown == (
            {OUTCOME_UNKNOWN} if isinstance(error, OutcomeUnknown) else {type_of("unavailable")}
        )
        assert _batch(api, _items(115), lines=True).json()["created"] == 115
        assert _count(api) == 115


def test_a_body_that_stops_arriving_is_refused_before_the_connection_gives_up() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"{}"
        await asyncio.Event().wait()

    async def read() -> list[bytes]:
        return [chunk async for chunk in arriving(chunks(), window=0.05)]

    with pytest.raises(Refused) as refused:
        asyncio.run(read())
    assert refused.value.status == 408
