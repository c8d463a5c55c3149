"""What the SDK tells people: in the worker's log, in the errors of whoever waits, and of what it serves."""

import asyncio
import logging
import traceback
from typing import Any

import httpx2
import msgspec
import pytest

from tocsin import App, Client, Handle, Refused, Retry, TaskFailed
from tocsin.domain.protocol import TaskClaim, TaskSettlement
from tocsin.sdk.depends import Shared
from tocsin.sdk.outcomes import Cancelled, Rejected, failed
from tocsin.sdk.worker.attempt import Attempt
from tocsin.sdk.worker.runners import AsyncRunner, ThreadRunner
from tocsin.sdk.worker.telling import TRACES_A_SECOND, Telling

NOON = "2030-01-31T12:00:00Z"
CLAIM = TaskClaim("exec_1", "7", "shop.add", {}, 2, NOON, NOON, 30_000, NOON, "exec_1", "", "default")
app = App("shop", url="http://tocsin.test", api_key="k" * 20)


@app.task(queue="mail")
def add(number: int) -> int:
    return number + 1


def raised(error: Exception) -> TaskSettlement:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - with its trace
        return failed(CLAIM, caught, ())


def test_a_failure_is_told_with_its_trace_and_a_success_to_those_who_want_to_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telling, attempt = Telling(), Attempt(CLAIM, add)
    with caplog.at_level(logging.INFO, "tocsin.worker"):
        telling.ended(attempt, raised(ValueError("no such order")))
        telling.ended(attempt, raised(Rejected("never")))
        telling.ended(attempt, TaskSettlement("exec_1", "7", "succeeded"))
    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("shop.add (exec_1, attempt 2) failed\nTraceback")
    assert first.endswith("ValueError: no such order")
    assert "is not tried again" in second
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "tocsin.worker"):
        telling.ended(attempt, TaskSettlement("exec_1", "7", "succeeded"))
    assert "shop.add (exec_1, attempt 2) succeeded" in caplog.text


def test_of_many_failures_in_a_second_few_are_told_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [100.0]
    telling, attempt, settlement = Telling(lambda: now[0]), Attempt(CLAIM, add), raised(ValueError("no"))
    with caplog.at_level(logging.WARNING, "tocsin.worker"):
        for _ in range(1000):
            telling.ended(attempt, settlement)
        assert len(caplog.records) == TRACES_A_SECOND
        now[0] += 1
        telling.ended(attempt, settlement)
    assert caplog.records[TRACES_A_SECOND].getMessage().startswith(f"{1000 - TRACES_A_SECOND} more attempts")
    assert len(caplog.records) == TRACES_A_SECOND + 2


def handle_of(**execution: Any) -> Handle[int]:
    """A handle of a call that stands like this."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/explain"):
            return httpx2.Response(200, json={"explanation": ["no live worker serves the task shop.add"]})
        return httpx2.Response(200, json=execution)

    client = Client("http://tocsin.test", "k", transport=httpx2.MockTransport(answer))
    return Handle(client, "job_1", "exec_1", add.signature)


@pytest.mark.parametrize("waits", [False, True], ids=["blocking", "awaited"])
def test_whoever_waits_is_told_the_result_the_trace_or_what_it_waits_for(*, waits: bool) -> None:
    def result(handle: Handle[int]) -> int:
        return asyncio.run(handle.result_async(0)) if waits else handle.result(0)

    assert result(handle_of(state="succeeded", attempts=[{"result": 3}])) == 3
    attempt = {"detail": {"kind": "ValueError", "trace": "Traceback of the worker\nValueError: no\n"}}
    with pytest.raises(TaskFailed, match="exec_1 is dead: ValueError: no") as raised:
        result(handle_of(state="dead", reason="ValueError: no", attempts=[attempt]))
    assert raised.value.trace == "Traceback of the worker\nValueError: no\n"
    assert "In the worker:\nTraceback of the worker" in "".join(traceback.format_exception(raised.value))
    with pytest.raises(TimeoutError, match="exec_1 is queued after 0 s; no live worker serves"):
        result(handle_of(state="queued"))


def test_each_request_of_many_calls_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        jobs = msgspec.json.decode(request.content)
        return httpx2.Response(200, json={"items": [{"id": "job_1"} for _ in jobs]})

    client = Client("http://tocsin.test", "k", transport=httpx2.MockTransport(answer))
    monkeypatch.setattr(App, "client", property(lambda _: client))
    shop = App("many")

    @shop.task
    def work(number: int) -> None: ...

    handles = work.having(idempotency_key="import").enqueue_many(work.args(n) for n in range(10_001))
    assert len(handles) == 10_001
    assert [one.headers["idempotency-key"] for one in requests] == ["import", "import:1"]


def test_a_worker_serves_the_queues_that_its_tasks_and_schedules_name() -> None:
    shop = App("shop")
    assert shop.queues == ("default",)
    shop.task(queue="reports", name="shop.report")(lambda: None)
    shop.schedule("@daily", add.having(queue="nightly"), number=1)
    assert shop.queues == ("default", "nightly", "reports")


def test_a_result_that_nobody_wants_is_not_kept() -> None:
    shop = App("shop")
    quiet = shop.task(keep_result=False, name="shop.quiet")(lambda: "large")
    assert (quiet.kept("large"), quiet.having(priority=1).kept("large")) == (None, None)
    assert (add.kept(3), quiet()) == (3, "large")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": "Big Queue"}, "a queue name has"),
        ({"priority": 12}, "priority lies between"),
        ({"timeout": "soon"}, "is not a duration"),
        ({"retry": Retry(max_attempts=0)}, "max_attempts"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_the_task_is_written(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        App("wrong").task(name="wrong.one", **options)(lambda: None)


def test_a_trace_begins_with_the_users_own_code_and_a_waiting_coroutine_says_where_it_waits() -> None:
    places: list[str] = []

    async def inner() -> None:
        await asyncio.sleep(60)

    async def waits() -> None:
        await inner()

    def fails() -> None:
        raise ValueError("no such order")

    async def main() -> None:
        ended: asyncio.Queue[TaskSettlement] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(_: Attempt, settlement: TaskSettlement) -> None:
            loop.call_soon_threadsafe(ended.put_nowait, settlement)

        shop = App("traces")
        waiting = Attempt(CLAIM, shop.task(name="traces.waits")(waits))
        AsyncRunner(loop, Shared(), lambda _: True, tell).start(waiting)
        while "sleep(60)" not in waiting.where():
            await asyncio.sleep(0.01)
        places.append(waiting.where())
        waiting.stop(Cancelled("enough"))
        await ended.get()
        threads = ThreadRunner(Shared(), lambda _: True, tell)
        threads.start(Attempt(CLAIM, shop.task(name="traces.fails")(fails)))
        settlement = await ended.get()
        places.append((settlement.error and settlement.error.trace) or "")
        threads.close()

    asyncio.run(main())
    assert [line.strip() for line in places[0].splitlines()][1::2][:2] == [
        "await inner()",
        "await asyncio.sleep(60)",
    ]
    assert "runners.py" not in places[1]
    assert "calling.py" not in places[1]
    assert places[1].count("File ") == 1
