"""Traces for OpenTelemetry, sent over OTLP.

An execution is a trace. Its root span lasts from the instant at which it was due to its end; below it is a
span per attempt, and below that whatever the target adds, which is told the attempt's span in `traceparent`.
A creation is a span of its own in the trace of the request that asked for it, and leads to the execution by a
link.

Nothing of OpenTelemetry is imported unless `TOCSIN_OTLP_ENDPOINT` is set. Spans are sent by a thread of the
library's, in batches; what cannot be sent is dropped, and work goes on.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import Instant
from tocsin.domain.traces import (
    Parent,
    read_traceparent,
    span_of_attempt,
    span_of_execution,
    trace_of,
)

_SETTING: Final = "TOCSIN_OTLP_ENDPOINT"
_PATH: Final = "/v1/traces"
_NANOSECONDS: Final = 1000
_WHOLE: Final = 2**64


class TracedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is over."""

    execution: str
    job: str
    tenant_id: int
    queue: str
    kind: str
    attempt: int
    due_at: Instant
    started_at: Instant
    finished_at: Instant
    verdict: str
    error: str | None = None
    ended: str | None = None
    """The execution's final state, if this was its last attempt."""


class Tracing:
    """Makes spans and hands them to the exporter."""

    def __init__(self, processor: Any, resource: Any, share: float) -> None:
        """`share`: of how many executions traces are kept."""
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - only where traces are wanted
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
        from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags  # noqa: PLC0415

        self._processor = processor
        self._resource = resource
        self._least_dropped = round(share * _WHOLE)
        self._span, self._context, self._link = ReadableSpan, SpanContext, Link
        self._scope = InstrumentationScope("tocsin")
        self._sampled = TraceFlags(TraceFlags.SAMPLED)
        self._kinds = SpanKind
        self._failed = Status(StatusCode.ERROR)
        self._status, self._code = Status, StatusCode

    def attempts(self, ended: Sequence[TracedAttempt]) -> None:
        """Tell attempts that are over, and the executions that are."""
        for one in ended:
            trace = trace_of(one.execution)
            if int(trace[16:], 16) < self._least_dropped:
                self._tell_attempt(trace, one)

    def _tell_attempt(self, trace: str, one: TracedAttempt) -> None:
        root = self._at(Parent(trace, span_of_execution(one.execution), sampled=True))
        known = {
            "tocsin.execution": one.execution,
            "tocsin.job": one.job,
            "tocsin.tenant": one.tenant_id,
            "tocsin.queue": one.queue,
        }
        span = Parent(trace, span_of_attempt(one.execution, one.attempt), sampled=True)
        self._end(
            f"attempt {one.kind}",
            self._at(span),
            root,
            {
                **known,
                "tocsin.attempt": one.attempt,
                "tocsin.verdict": one.verdict,
                "tocsin.target": one.kind,
            },
            self._kinds.CLIENT,
            (one.started_at, one.finished_at),
            error=None if one.verdict == "succeeded" else one.error or one.verdict,
        )
        if one.ended is not None:
            self._end(
                "execution",
                root,
                None,
                {**known, "tocsin.state": one.ended, "tocsin.attempts": one.attempt},
                self._kinds.INTERNAL,
                (min(one.due_at, one.started_at), one.finished_at),
                error=None if one.ended == "succeeded" else one.ended,
            )

    def created(
        self, caller: str | None, job: str, execution: str | None, began: Instant, ended: Instant
    ) -> None:
        """Tell the creation of a job, in the trace of the request that has such a `traceparent`."""
        parent = read_traceparent(caller)
        if parent is None or not parent.sampled:
            return
        span = Parent(parent.trace, span_of_execution(f"create {job}"), sampled=True)
        links = []
        if execution is not None:
            of = Parent(trace_of(execution), span_of_execution(execution), sampled=True)
            links.append(self._link(self._at(of)))
        self._end(
            "create job",
            self._at(span),
            self._at(parent),
            {"tocsin.job": job},
            self._kinds.SERVER,
            (began, ended),
            links=links,
        )

    def _end(
        self,
        name: str,
        context: Any,
        parent: Any,
        attributes: dict[str, Any],
        kind: Any,
        lasted: tuple[Instant, Instant],
        *,
        error: str | None = None,
        links: Sequence[Any] = (),
    ) -> None:
        began, ended = lasted
        self._processor.on_end(
            self._span(
                name,
                context=context,
                parent=parent,
                resource=self._resource,
                attributes=attributes,
                links=links,
                kind=kind,
                status=self._status() if error is None else self._status(self._code.ERROR, error),
                start_time=began * _NANOSECONDS,
                end_time=max(began, ended) * _NANOSECONDS,
                instrumentation_scope=self._scope,
            )
        )

    def _at(self, span: Parent) -> Any:
        return self._context(
            int(span.trace, 16), int(span.span, 16), is_remote=False, trace_flags=self._sampled
        )

    def close(self) -> None:
        """Send what is left, for a few seconds."""
        self._processor.shutdown()


def open_tracing(endpoint: str | None, share: float, node: str) -> Tracing | None:
    """The traces of a process that sends them to `endpoint`; None where none are wanted."""
    if endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        hint = "pip install 'tocsin[otel]'"
        raise Refused(
            "traces need OpenTelemetry, which is not installed", field=_SETTING, hint=hint
        ) from None
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    url = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
    resource = Resource.create(
        {"service.name": os.environ.get("OTEL_SERVICE_NAME", "tocsin"), "service.instance.id": node}
    )
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)), resource, share)
