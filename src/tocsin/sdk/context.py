"""What a task may ask about the attempt that it is, and tell about it. A context variable: never a parameter,
so a function's signature is its payload and nothing else."""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import Any, Final

from tocsin.domain.ids import made_at, parse_execution_text
from tocsin.domain.instant import Span, parse_instant
from tocsin.domain.protocol import MAX_LOG_LINES, MAX_MESSAGE, MAX_NOTE, LogLine, Progress, TaskClaim
from tocsin.domain.storable import storable_text
from tocsin.sdk.outcomes import Stopped
from tocsin.sdk.traces import attempt_span

_current: ContextVar["Context | None"] = ContextVar("tocsin_task", default=None)
_NO_TASK: Final = "no task is running here"


class Log:
    """Lines that are kept with the attempt: up to 1,000, after which the last one says that there were
    more."""

    def __init__(self, keep: Callable[[LogLine], None]) -> None:
        self._keep = keep
        self._seq = 0
        self._lock = threading.Lock()

    def debug(self, message: str, **fields: Any) -> None:
        """Log details."""
        self._line("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """What happened."""
        self._line("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """What may be wrong."""
        self._line("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """What is wrong."""
        self._line("error", message, fields)

    def _line(self, level: Any, message: str, fields: dict[str, Any]) -> None:
        with self._lock:
            if self._seq >= MAX_LOG_LINES:
                return
            self._seq += 1
            at = datetime.now(UTC).isoformat()
            text = storable_text(message[:MAX_MESSAGE])
            self._keep(LogLine(self._seq, at, text, level, _plain(fields) or None))


class Context:
    """One attempt, as its task sees it. `keep` takes lines of its log and how far it is."""

    def __init__(
        self, claim: TaskClaim, keep: Callable[[LogLine | Progress], None], state: Any = None
    ) -> None:
        self.execution_id = claim.id
        self.idempotency_key = claim.idempotency_key
        self.token = claim.token
        """Proves that this attempt has the execution: see `succeed_in`."""
        self.attempt = claim.attempt
        self.task = claim.task
        self.queue = claim.queue
        self.trace = claim.traceparent
        self.timeout = claim.timeout_ms / 1000
        """Seconds that the attempt may take."""
        self.state = state
        """What the app's lifespan yielded in this process."""
        self._claim = claim
        self._keep = keep
        self._why: Stopped | None = None

    # What few tasks ask for is made when they do: it would take longer than many a task.

    @cached_property
    def fire_at(self) -> datetime:
        """When it was to run."""
        return datetime.fromisoformat(self._claim.fire_at)

    @cached_property
    def deadline(self) -> datetime:
        """When its time is over."""
        return datetime.fromisoformat(self._claim.started_at) + timedelta(seconds=self.timeout)

    @property
    def waited(self) -> Span:
        """From when it was asked for until the attempt began."""
        job_id = parse_execution_text(self.execution_id).job_id
        return parse_instant(self._claim.started_at, "started_at") - made_at(job_id)

    @cached_property
    def log(self) -> Log:
        """Lines that are kept with the attempt."""
        return Log(self._keep)

    @property
    def stopped(self) -> threading.Event:
        """Set when the attempt should end."""
        event: threading.Event = self.__dict__.setdefault("_stopped", threading.Event())
        if self._why is not None:
            event.set()
        return event

    def check(self) -> None:
        """Raises `Stopped` when the attempt was cancelled, timed out, or its claim is lost."""
        if self._why is not None:
            raise self._why

    def progress(self, share: float, note: str | None = None) -> None:
        """How far it is, from 0 to 1; the latest counts, and is told with the next heartbeat."""
        told = None if note is None else storable_text(note[:MAX_NOTE])
        self._keep(Progress(min(max(float(share), 0.0), 1.0), told))

    def stop(self, why: Stopped) -> None:
        """Ask the task to end: it finds out by `check` and `stopped`."""
        if self._why is None:
            self._why = why
        if (event := self.__dict__.get("_stopped")) is not None:
            event.set()

    @property
    def why(self) -> Stopped | None:
        """Why the attempt should end, if it should."""
        return self._why


def current() -> Context:
    """The attempt that runs here."""
    context = _current.get()
    if context is None:
        raise LookupError(_NO_TASK)
    return context


class running:  # noqa: N801 - reads as a statement: `with running(context):`
    """What is called inside is a part of this attempt."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _current.set(self._context)
        self._span = attempt_span(self._context)
        self._span.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._span.__exit__(kind, error, trace)
        _current.reset(self._token)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as JSON has them; whatever it has not, as text."""
    return {
        name: value if isinstance(value, int | float | bool | None) else storable_text(str(value))
        for name, value in fields.items()
    }
