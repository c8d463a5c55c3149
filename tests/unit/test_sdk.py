"""The SDK without a server: payloads follow signatures, exceptions become settlements, calls are repeated and
refused."""

import asyncio
import dataclasses
import subprocess
import sys
from typing import Any
from uuid import UUID

import httpx2
import msgspec
import pydantic
import pytest

import tocsin
from tocsin import App, AsyncClient, Client, Limit, Refused, Retry, Unavailable
from tocsin.api import client_code
from tocsin.domain.protocol import MAX_LOG_LINES, LogLine, Progress, TaskClaim
from tocsin.sdk import statement
from tocsin.sdk.client.core import pause_before, request_of
from tocsin.sdk.client.faces import sync_faces
from tocsin.sdk.context import Context, current, running
from tocsin.sdk.options import Options
from tocsin.sdk.outcomes import (
    Cancelled,
    ChildDied,
    Postpone,
    Rejected,
    RetryAfter,
    Skip,
    Stopped,
    TimedOut,
    failed,
    succeeded,
)
from tocsin.sdk.signature import PayloadError

NOON = "2030-01-31T12:00:00Z"
CLAIM = TaskClaim(
    "exec_1", "7", "shop.add", {"a": 1}, 1, NOON, NOON, 30_000, NOON, "exec_1", "00-0-0-01", "default"
)
app = App("shop", url="http://tocsin.test", api_key="k" * 20)


@dataclasses.dataclass
class Order:
    number: int
    lines: list[str]


@app.task(queue="mail", limit=Limit("order:{order}", max_parallel=2), timeout="1m", tags=("receipts",))
def send(order: int, *, copy_to: str | None = None) -> str:
    return f"{order} {copy_to}"


@app.task
def ship(order: Order, urgent: bool = False) -> Order:
    return order


def test_a_payload_has_the_names_of_the_parameters_however_they_were_given() -> None:
    assert send.args(17, copy_to="a@b.c").payload == {"order": 17, "copy_to": "a@b.c"}
    assert send.args(order=17).payload == {"order": 17}
    assert ship.args(Order(1, ["x"]), True).payload == {
        "order": {"number": 1, "lines": ["x"]},
        "urgent": True,
    }


def test_a_payload_is_read_by_the_types_of_the_parameters_and_defaults_are_the_functions_own() -> None:
    given = ship.signature.arguments({"order": {"number": 1, "lines": []}, "of_a_newer_version": 1})
    assert given == {"order": Order(1, [])}
    assert ship.signature.result({"number": 2, "lines": []}) == Order(2, [])


@pytest.mark.parametrize("call", [lambda: send.args("17"), send.args, lambda: send.args(1, other=2)])  # type: ignore[call-arg, arg-type]
def test_a_call_that_the_function_would_not_take_is_refused_before_it_is_sent(call: Any) -> None:
    with pytest.raises(PayloadError, match=r"shop\.send"):
        call()


def test_a_payload_that_cannot_be_read_fails_and_may_be_retried_by_a_newer_worker() -> None:
    with pytest.raises(PayloadError):
        ship.signature.arguments({"order": 7})
    assert failed(CLAIM, PayloadError("no"), ()).verdict == "failed"


class Line(pydantic.BaseModel):
    sku: str
    count: int = 1


class Basket(pydantic.BaseModel):
    number: int
    lines: list[Line] = []


@app.task
def pack(basket: Basket, others: list[Basket] | None = None) -> Basket:
    return basket


def test_models_of_pydantic_are_payloads_and_results_at_any_depth() -> None:
    sent = pack.args(Basket(number=1, lines=[Line(sku="a")]), [Basket(number=2)]).payload
    assert sent["basket"] == {"number": 1, "lines": [{"sku": "a", "count": 1}]}
    assert sent["others"] == [{"number": 2, "lines": []}]
    read = pack.signature.arguments(sent | {"of_a_newer_version": 1})
    assert read == {"basket": Basket(number=1, lines=[Line(sku="a")]), "others": [Basket(number=2)]}
    assert pack.signature.arguments({"basket": {"number": 3, "added_later": 1}}) == {
        "basket": Basket(number=3)
    }
    assert succeeded(CLAIM, Basket(number=4)).result == {"number": 4, "lines": []}
    assert pack.signature.result({"number": 4, "lines": []}) == Basket(number=4)


def test_a_model_of_pydantic_that_does_not_fit_is_refused_where_it_is_sent_and_where_it_is_read() -> None:
    with pytest.raises(PayloadError, match=r"(?s)shop\.pack.*valid integer"):
        pack.args({"number": "x"})  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match=r"(?s)shop\.pack.*valid integer"):
        pack.signature.arguments({"basket": {"number": "x"}})


def test_a_function_whose_parameters_have_no_names_is_no_task() -> None:
    with pytest.raises(TypeError, match="names each"):
        App("x").task(name="x")(lambda *args: None)
    with pytest.raises(TypeError, match="does not run as"):
        App("x").task(run="async")(send.function)
    with pytest.raises(Refused, match="already"):
        app.task(name="shop.send")(send.function)


def test_a_task_is_still_a_function() -> None:
    assert send(17) == "17 None"
    assert send.having(priority=1)(17) == "17 None"


def test_options_of_the_decorator_and_of_one_call_become_the_job() -> None:
    changed = send.having(delay="10m", priority=2, retry=Retry(max_attempts=8, on=[OSError]))
    body = changed._body(changed.options, {"order": 17})
    assert body["schedule"] == {"in": "10m"}
    assert (body["queue"], body["priority"], body["timeout"], body["tags"]) == ("mail", 2, "1m", ["receipts"])
    assert body["limit"] == {"key": "order:17", "max_parallel": 2}
    assert body["retry"]["max_attempts"] == 8
    assert "on" not in body["retry"]  # which exceptions are meant only the worker knows
    with pytest.raises(Refused, match="not both"):
        send.having(at=NOON, delay=1)._body(send.having(at=NOON, delay=1).options, {"order": 1})
    with pytest.raises(Refused, match="a timeout lies"):
        send.having(timeout="2d")._body(send.having(timeout="2d").options, {"order": 1})


def test_a_unique_key_may_name_parameters_and_goes_with_one_call() -> None:
    once = send.having(unique="order:{order}")
    assert once._body(once.options, {"order": 17})["unique"] == "order:17"
    pushed = send.having(debounce="doc", delay="2s", max_wait="30s")
    said = pushed._body(pushed.options, {"order": 17})
    assert (said["debounce"], said["max_wait"], said["schedule"]) == ("doc", "30s", {"in": "2s"})
    for refused in (Options(unique="a", debounce="a"), Options(max_wait="1s"), Options(unique="{nobody}")):
        with pytest.raises(Refused):
            refused.job({}, {})
    with pytest.raises(Refused, match="call of its own"):
        once.enqueue_many([once.args(1)])
    with pytest.raises(Refused, match="push back"):
        statement.one("shop.a", Options(debounce="a"), {}, UUID(int=0))
    one = statement.one("shop.a", Options(unique="a"), {}, UUID(int=0))
    assert one.values["unique"] == "a"
    assert "unique_key => CAST(%s AS text)" in one.in_order()[0]


@pytest.mark.parametrize(
    ("error", "verdict", "wait"),
    [
        (ConnectionError("x"), "failed", None),
        (ValueError("x"), "rejected", None),
        (RetryAfter("30s"), "failed", 30_000),
        (Postpone("5m", "file"), "postponed", 300_000),
        (Rejected("no"), "rejected", None),
        (Skip("empty"), "skipped", None),
        (Cancelled("asked"), "cancelled", None),
        (TimedOut("late"), "timed_out", None),
    ],
)
def test_what_a_task_raises_says_how_it_ends(error: Exception, verdict: str, wait: int | None) -> None:
    told = failed(CLAIM, error, [ValueError])
    assert (told.verdict, told.retry_after_ms) == (verdict, wait)


def test_only_exceptions_that_are_named_are_worth_another_attempt_if_some_are() -> None:
    assert failed(CLAIM, OSError(), (), [OSError]).verdict == "failed"
    assert failed(CLAIM, KeyError(), (), [OSError]).verdict == "rejected"
    assert failed(CLAIM, KeyError(), [LookupError], ()).verdict == "rejected"
    assert failed(CLAIM, FileNotFoundError(), [FileNotFoundError], [OSError]).verdict == "rejected"


@pytest.mark.parametrize("error", [PayloadError("shop.add: not read"), ChildDied("ended with -9")])
def test_what_is_no_fault_of_the_function_is_tried_again_whatever_its_rules_are(error: Exception) -> None:
    assert failed(CLAIM, error, [Exception], [OSError]).verdict == "failed"


def test_a_result_that_cannot_be_kept_is_rejected_in_words() -> None:
    assert succeeded(CLAIM, {"a": Order(1, [])}).result == {"a": {"number": 1, "lines": []}}
    large = succeeded(CLAIM, "x" * 10_000_000)
    assert (large.verdict, large.error and large.error.kind) == ("rejected", "ResultTooLarge")
    assert "10,000,002 bytes" in (large.error.message if large.error else "")
    assert succeeded(CLAIM, object()).verdict == "rejected"


def test_a_context_is_current_inside_and_says_when_to_stop() -> None:
    told: list[Any] = []
    context = Context(CLAIM, told.append)
    with pytest.raises(LookupError):
        current()
    with running(context):
        current().progress(1.7, "nearly")
        for number in range(10_000):
            current().log.info("line", number=number, what=object)
        current().check()
        context.stop(Cancelled("enough"))
        with pytest.raises(Stopped, match="enough"):
            current().check()
    assert told[0] == tocsin.sdk.context.Progress(1.0, "nearly")
    assert [line.seq for line in told[1:]] == list(range(1, MAX_LOG_LINES + 1))
    assert all(isinstance(line, LogLine) for line in told[1:])
    assert msgspec.json.encode(told)


def answers(*statuses: int) -> tuple[list[httpx2.Request], Any]:
    """A transport that gives these answers in turn, and the requests that it got. 0: no answer."""
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        status = statuses[min(len(requests), len(statuses)) - 1]
        if status == 0:
            raise httpx2.ReadError("lost")
        body = {"id": "job_1"} if status < 400 else {"detail": "no", "field": "queue", "hint": "other"}
        return httpx2.Response(status, json=body)

    return requests, httpx2.MockTransport(answer)


def test_a_call_is_repeated_with_its_key_until_it_is_answered() -> None:
    requests, transport = answers(503, 0, 429, 201)
    with Client("http://t.test", "k", transport=transport) as client:
        assert client.jobs.create(schedule={"in": 0}, target={"kind": "noop"}) == {"id": "job_1"}
    keys = {request.headers["idempotency-key"] for request in requests}
    assert (len(requests), len(keys)) == (4, 1)


def test_the_asynchronous_face_does_the_same() -> None:
    async def create() -> Any:
        _, transport = answers(502, 201)
        async with AsyncClient("http://t.test", "k", transport=transport) as client:
            return await client.jobs.create(schedule={"in": 0}, target={"kind": "noop"})

    assert asyncio.run(create()) == {"id": "job_1"}


def test_a_refusal_is_raised_at_once_with_its_field_and_hint() -> None:
    requests, transport = answers(422)
    with Client("http://t.test", "k", transport=transport) as client, pytest.raises(Refused) as refused:
        client.jobs.create(schedule=1, target=2)
    assert (refused.value.field, refused.value.hint, len(requests)) == ("queue", "other", 1)


def test_a_call_without_an_answer_ends_with_its_time() -> None:
    _, transport = answers(0)
    client = Client("http://t.test", "k", timeout=0.2, transport=transport)
    with client, pytest.raises(Unavailable, match="no answer"):
        client.jobs.get("job_1")


def test_a_pause_is_as_long_as_the_server_asks_and_no_longer_than_there_is_time() -> None:
    assert pause_before(1, 10, "7") == 7
    assert pause_before(1, 5, "7") is None
    pause = pause_before(30, 10, None)
    assert pause is not None
    assert 0 <= pause <= 5


def test_words_in_a_path_stay_one_part_of_it() -> None:
    assert request_of("GET", "jobs", "../keys").path == "/v1/jobs/..%2Fkeys"


def test_both_faces_are_one_text() -> None:
    for path, text in sync_faces().items():
        assert path.read_text() == text, "run python -m tocsin.sdk.client.faces"


def test_the_client_has_every_operation_of_the_api_as_the_document_describes_it() -> None:
    for path, text in client_code.files().items():
        assert path.read_text() == text, "run python -m tocsin.api.client_code"


def test_an_operation_is_sent_as_its_arguments_say_and_lists_follow_their_cursors() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        following = "more" if "cursor" not in request.url.params else None
        return httpx2.Response(200, json={"items": [{"id": len(asked)}], "next_cursor": following})

    with Client("http://tocsin.test", "k" * 20, transport=httpx2.MockTransport(answer)) as client:
        entries = list(client.audit.list(actor="ada", from_="2030-01-01T00:00:00Z", limit=1))
        client.jobs.update("job_1", if_match='"3"', idempotency_key="once", queue="mail")
        client.queues.pause("a/b", reason="moving")
    assert entries == [{"id": 1}, {"id": 2}]
    first, second, change, pause = asked
    assert dict(first.url.params) == {"actor": "ada", "from": "2030-01-01T00:00:00Z", "limit": "1"}
    assert second.url.params["cursor"] == "more"
    assert (change.method, change.url.path, change.content) == (
        "PATCH",
        "/v1/jobs/job_1",
        b'{"queue":"mail"}',
    )
    assert (change.headers["if-match"], change.headers["idempotency-key"]) == ('"3"', "once")
    assert pause.url.raw_path == b"/v1/queues/a%2Fb/pause"


def test_importing_the_package_loads_neither_the_server_nor_the_client() -> None:
    loaded = "import sys, tocsin; print(sorted(m for m in sys.modules if m.split('.')[0] in ('httpx2', 'asyncpg', 'msgspec')))"
    assert (
        subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
    enqueues = "import sys; from tocsin import App; print(sorted({m.split('.')[0] for m in sys.modules} & {'asyncpg', 'click', 'httpx2', 'starlette', 'uvicorn'}))"
    assert (
        subprocess.run([sys.executable, "-c", enqueues], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
    assert {name for name in tocsin.__all__ if getattr(tocsin, name) is None} == set()


def test_an_error_and_a_log_that_are_no_utf_8_can_be_told_like_any_other() -> None:
    name = b"r\xe9sum\xe9.pdf".decode("utf-8", "surrogateescape")
    lines: list[LogLine | Progress] = []
    context = Context(CLAIM, lines.append)
    opening = f"opening {name}"
    context.log.info(opening, name=name)
    context.progress(0.5, name)
    try:
        raise FileNotFoundError(name)
    except FileNotFoundError as error:
        told = failed(CLAIM, error, ())
    settlement = msgspec.json.decode(msgspec.json.encode(told))
    assert settlement["error"]["message"] == "r\\udce9sum\\udce9.pdf"
    assert msgspec.json.decode(msgspec.json.encode(lines))[0]["message"] == "opening r\\udce9sum\\udce9.pdf"
