"""The trace of the caller that enqueues a task goes on in the task, by OpenTelemetry where the program has
it.

Nothing of OpenTelemetry is imported here. A program that has not imported it has no trace, and pays one look
into a dictionary.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from tocsin.domain.instant import SECOND, Span
from tocsin.domain.traces import Parent, read_traceparent, traceparent
from tocsin.sdk.outcomes import Postpone, RetryAfter, Skip

if TYPE_CHECKING:
    from tocsin.sdk.context import Context

_LIBRARY: Final = "opentelemetry.trace"
_SOON: Final[Span] = 60 * SECOND
"""What starts within this time after it was enqueued is a part of that trace; later, a trace of its own."""
_NOTHING: Final = nullcontext()
_NO_FAILURE: Final = (Postpone, RetryAfter, Skip)


def trace_here() -> str | None:
    """The ``traceparent`` of the span that is current here, if there is one."""
    library = sys.modules.get(_LIBRARY)
    if library is None:
        return None
    span = library.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 1:02x}"


def attempt_span(context: "Context") -> AbstractContextManager[Any]:
    """A span for an attempt, current while its function runs: a child of the span that enqueued it, or linked
    to that if it was long ago. Without such a span it is a child of Tocsin's own span of the attempt."""
    library = sys.modules.get(_LIBRARY)
    parent = None if library is None else read_traceparent(context.trace)
    if library is None or parent is None:
        return _NOTHING
    return _Span(library, parent, context)


class _Span:
    """The span of one attempt. An exception that only says how an attempt ends is no failure."""

    def __init__(self, library: Any, parent: Parent, context: "Context") -> None:
        self._library = library
        flags = library.TraceFlags(parent.sampled)
        theirs = library.SpanContext(
            int(parent.trace, 16), int(parent.span, 16), is_remote=True, trace_flags=flags
        )
        ours = context.trace == traceparent(context.execution_id, context.attempt)
        soon = ours or context.waited <= _SOON
        above = library.set_span_in_context(library.NonRecordingSpan(theirs)) if soon else None
        self._current = library.get_tracer("tocsin").start_as_current_span(
            context.task,
            context=above,
            kind=library.SpanKind.CONSUMER,
            links=None if soon else [library.Link(theirs)],
            attributes={"tocsin.execution": context.execution_id, "tocsin.attempt": context.attempt},
            record_exception=False,
            set_status_on_exception=False,
        )

    def __enter__(self) -> None:
        self._span = self._current.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, _NO_FAILURE):
            self._span.record_exception(error)
            self._span.set_status(self._library.StatusCode.ERROR, str(error))
        self._current.__exit__(kind, error, trace)
