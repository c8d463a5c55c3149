"""OpenTelemetry: the span that enqueues a task and the span of its function are one trace."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tocsin import App, Skip
from tocsin.domain.ids import ExecutionKey, execution_text, new_job_id
from tocsin.domain.instant import MINUTE, SECOND, Span, format_instant
from tocsin.domain.protocol import TaskClaim, TaskSettlement
from tocsin.domain.traces import span_of_attempt, traceparent
from tocsin.domain.traces import trace_of as trace_of_execution
from tocsin.sdk import statement, traces
from tocsin.sdk.depends import Shared
from tocsin.sdk.options import Options
from tocsin.sdk.outbox import _body as body_of_row
from tocsin.sdk.worker.attempt import Attempt
from tocsin.sdk.worker.runners import AsyncRunner, ThreadRunner

NOW = 1_900_000_000 * SECOND
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
app = App("shop", url="http://tocsin.test", api_key="k" * 20)


@app.task
def add(number: int) -> str | None:
    match number:
        case 0:
            raise ValueError("no such order")
        case -1:
            raise Skip("empty")
    return traces.trace_here()


@app.task
async def add_async(number: int) -> str | None:
    await asyncio.sleep(0)
    return traces.trace_here()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def run(task: object, number: int, trace_of: str | None, waited: Span = SECOND) -> TaskSettlement:
    """An attempt, made as a worker makes it."""

    async def main() -> TaskSettlement:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[TaskSettlement] = loop.create_future()
        execution = execution_text(ExecutionKey(new_job_id(NOW), NOW))
        at = format_instant(NOW + waited)
        claim = TaskClaim(execution, "7", "shop.add", {"number": number}, 1, at, at, 30_000, at, execution, trace_of or traceparent(execution, 1), "default")  # fmt: skip

        def end(_: Attempt, settlement: TaskSettlement) -> None:
            loop.call_soon_threadsafe(ended.set_result, settlement)

        if task is add:
            runner: ThreadRunner | AsyncRunner = ThreadRunner(Shared(), lambda _: True, end)
        else:
            runner = AsyncRunner(loop, Shared(), lambda _: True, end)
        runner.start(Attempt(claim, task))
        settlement = await ended
        runner.close()
        return settlement

    return asyncio.run(main())


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def test_every_way_to_enqueue_takes_the_span_along_that_is_current(spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("test").start_as_current_span("order") as span:
        here = traces.trace_here()
        bodies = [
            add._body(add.options, {"number": 1}),
            add.having(priority=2)._body(add.options, {"number": 1}),
        ]
        sent = statement.one("shop.add", Options(), {}, new_job_id(NOW))
        many = statement.many("shop.add", Options(), [{}], [new_job_id(NOW)])
    assert here is not None
    assert f"{span.get_span_context().trace_id:032x}" in here
    assert {body["target"]["trace"] for body in bodies} == {here}
    for one in (sent, many):
        assert one.values["trace"] == here
        assert "trace => CAST(%s AS text)" in one.in_order()[0]
    assert body_of_row("shop.add", "{}", f'{{"trace": "{here}"}}')["target"]["trace"] == here


def test_without_a_span_nothing_is_taken_along_unless_it_is_given() -> None:
    assert "trace" not in add._body(add.options, {})["target"]
    assert "trace" not in statement.one("shop.add", Options(), {}, new_job_id(NOW)).text
    given = add.having(trace=GIVEN)
    assert given._body(given.options, {})["target"]["trace"] == GIVEN


@pytest.mark.parametrize("task", [add, add_async])
def test_a_function_runs_in_a_child_of_the_span_that_enqueued_it(
    spans: InMemorySpanExporter, task: object
) -> None:
    inside = run(task, 1, GIVEN).result
    span = only(spans)
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == tuple(GIVEN.split("-")[1:3])
    assert inside == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"
    assert span.name == "shop.add"
    assert span.status.status_code is StatusCode.UNSET


def test_what_starts_long_after_it_was_enqueued_has_a_trace_of_its_own_and_a_link(
    spans: InMemorySpanExporter,
) -> None:
    run(add, 1, GIVEN, waited=2 * MINUTE)
    span = only(spans)
    assert span.parent is None
    assert [f"{link.context.span_id:016x}" for link in span.links] == [GIVEN.split("-")[2]]


def test_what_nobody_enqueued_in_a_span_is_below_our_own_span_of_the_attempt(
    spans: InMemorySpanExporter,
) -> None:
    run(add, 1, None, waited=2 * MINUTE)  # as a fire of a job that is old is
    span = only(spans)
    assert span.attributes is not None
    execution = str(span.attributes["tocsin.execution"])
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == trace_of_execution(execution)
    assert f"{span.parent.span_id:016x}" == span_of_attempt(execution, 1)


def test_a_failure_is_told_and_a_skip_is_none(spans: InMemorySpanExporter) -> None:
    assert run(add, 0, GIVEN).verdict == "failed"
    span = only(spans)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no such order")
    assert [event.name for event in span.events] == ["exception"]
    spans.clear()
    assert run(add, -1, GIVEN).verdict == "skipped"
    assert only(spans).status.status_code is StatusCode.UNSET


def test_a_program_without_opentelemetry_loads_nothing_of_it() -> None:
    program = (
        "import sys, tocsin, tocsin.sdk.worker.worker; from tocsin.sdk.traces import trace_here\n"
        "assert trace_here() is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
