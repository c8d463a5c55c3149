"""Traces: one per execution, a span per attempt, in the words of OTLP."""

import builtins
from typing import Any

import pytest

from tests.support.otlp import attributes, collecting
from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND
from tocsin.domain.traces import (
    Parent,
    read_traceparent,
    span_of_attempt,
    span_of_execution,
    trace_of,
    traceparent,
)
from tocsin.tracing import TracedAttempt, Tracing, open_tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{SPAN}-01"


def attempt(number: int, verdict: str, ended: str | None = None, execution: str = "exec_1") -> TracedAttempt:
    return TracedAttempt(
        execution=execution,
        job="job_1",
        tenant_id=1,
        queue="mail",
        kind="http",
        attempt=number,
        due_at=10 * SECOND,
        started_at=(10 + number) * SECOND,
        finished_at=(10 + number) * SECOND + 5,
        verdict=verdict,
        error=None if verdict == "succeeded" else "the target answered 500",
        ended=ended,
    )


def opened(url: str, share: float = 1.0) -> Tracing:
    tracing = open_tracing(url, share, "node-1")
    assert tracing is not None
    return tracing


def test_attempts_are_spans_below_their_execution_and_keep_their_trace_over_retries() -> None:
    with collecting() as collector:
        tracing = opened(collector.url)
        tracing.attempts([attempt(1, "failed")])
        tracing.attempts([attempt(2, "succeeded", "succeeded")])
        tracing.close()
        first, second = collector.spans("attempt http")
        (root,) = collector.spans("execution")
    assert {span.trace_id.hex() for span in (first, second, root)} == {trace_of("exec_1")}
    assert [first.span_id.hex(), second.span_id.hex()] == [span_of_attempt("exec_1", n) for n in (1, 2)]
    assert {first.parent_span_id, second.parent_span_id} == {root.span_id}
    assert (first.status.message, second.status.message) == ("the target answered 500", "")
    assert root.start_time_unix_nano == 10 * SECOND * 1000
    assert attributes(root)["tocsin.state"] == "succeeded"
    assert attributes(second)["tocsin.attempt"] == 2


def test_a_target_is_told_the_span_of_its_attempt() -> None:
    assert traceparent("exec_1", 2) == f"00-{trace_of('exec_1')}-{span_of_attempt('exec_1', 2)}-01"


def test_a_creation_belongs_to_its_callers_trace_and_leads_to_the_execution() -> None:
    with collecting() as collector:
        tracing = opened(collector.url)
        tracing.created(CALLER, "job_1", "exec_1", SECOND, 2 * SECOND)
        tracing.created(None, "job_2", None, SECOND, 2 * SECOND)
        tracing.created(CALLER[:-1] + "0", "job_3", None, SECOND, 2 * SECOND)
        tracing.close()
        (span,) = collector.spans("create")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    (link,) = span.links
    assert (link.trace_id.hex(), link.span_id.hex()) == (trace_of("exec_1"), span_of_execution("exec_1"))


def test_of_a_share_whole_traces_are_kept() -> None:
    with collecting() as collector:
        tracing = opened(collector.url, 0.5)
        for number in range(200):
            tracing.attempts([attempt(1, "failed", None, f"exec_{number}")])
            tracing.attempts([attempt(2, "failed", "dead", f"exec_{number}")])
        tracing.close()
        roots, attempts = collector.spans("execution"), collector.spans("attempt")
    assert 50 < len(roots) < 150
    assert len(attempts) == 2 * len(roots)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        CALLER + "x",
        CALLER.replace(TRACE, "0" * 32),
        CALLER.replace(SPAN, "0" * 16),
        "ff" + CALLER[2:],
    ],
)
def test_a_header_that_names_no_span_is_as_good_as_none(text: str | None) -> None:
    assert read_traceparent(text) is None
    assert read_traceparent(CALLER) == Parent(TRACE, SPAN, sampled=True)


def test_without_an_endpoint_nothing_is_imported_and_without_the_extra_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert open_tracing(None, 1.0, "node-1") is None
    with pytest.raises(Refused) as refused:
        open_tracing("http://127.0.0.1:4318", 1.0, "node-1")
    assert refused.value.field == "TOCSIN_OTLP_ENDPOINT"
    assert "tocsin[otel]" in str(refused.value.hint)
