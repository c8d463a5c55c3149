"""One enqueued call: wait for its result, cancel it, ask how far it is."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.domain.lifecycle import FINAL
from tocsin.sdk.signature import Signature

if TYPE_CHECKING:
    from tocsin.sdk.client import types
    from tocsin.sdk.client.sync import Client

R = TypeVar("R")
_WAIT: Final = 20.0
_WAIT_ASYNC: Final = 5.0
"""Seconds of one request: an abandoned one ends by itself."""


class TaskFailed(TocsinError):
    """A task ended without a result. `state` and `reason` are those of its execution, `trace` is where its
    last attempt raised."""

    def __init__(self, execution_id: str, state: str, reason: str | None, trace: str | None = None) -> None:
        super().__init__(f"{execution_id} is {state}: {reason}" if reason else f"{execution_id} is {state}")
        self.execution_id = execution_id
        self.state = state
        self.reason = reason
        self.trace = trace
        if trace:
            self.add_note(f"\nIn the worker:\n{trace.rstrip()}")


class Handle(Generic[R]):
    """A call of a task that is on disk. `client` is the app's own; its calls block."""

    def __init__(
        self,
        client: "Client",
        job_id: str,
        execution_id: str | None,
        signature: Signature | None,
        outcome: str | None = None,
    ) -> None:
        self.job_id = job_id
        self.outcome = outcome
        """Of a call with `unique` or `debounce`: ``created``, ``existed`` or ``moved``."""
        self._client = client
        self._execution_id = execution_id
        self._signature = signature

    def __repr__(self) -> str:
        return f"<Handle {self._execution_id or self.job_id}>"

    @property
    def id(self) -> str:
        """The execution's id."""
        if self._execution_id is None:
            first = next(iter(self._client.jobs.executions(self.job_id, limit=1)))
            self._execution_id = str(first["id"])
        return self._execution_id

    def result(self, timeout: float | None = None) -> R:
        """What the task returned, once it has. Raises `TaskFailed`, or `TimeoutError` after `timeout`
        seconds, which says what the task waits for."""
        until = monotonic() + (inf if timeout is None else timeout)
        while (ended := self._ended(until, _WAIT)) is None:
            if monotonic() >= until:
                raise TimeoutError(self._still(timeout))
        return self._result(ended)

    async def result_async(self, timeout: float | None = None) -> R:
        """`result`, without blocking the event loop. Each that waits has a thread of its own: those of the
        loop are few, and others need them."""
        until = monotonic() + (inf if timeout is None else timeout)
        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "tocsin result")
        try:
            while (ended := await loop.run_in_executor(thread, self._ended, until, _WAIT_ASYNC)) is None:
                if monotonic() >= until:
                    raise TimeoutError(await loop.run_in_executor(thread, self._still, timeout))
        finally:
            thread.shutdown(wait=False)
        return self._result(ended)

    def _ended(self, until: float, most: float) -> "types.Execution | None":
        """The execution, once it is over. None: not within this request."""
        wait = min(most, max(0.0, until - monotonic()))
        execution = self._client.executions.get(self.id, wait=wait)
        return execution if execution["state"] in FINAL else None

    def _still(self, timeout: float | None) -> str:
        """Where it stands, and why."""
        words = [f"{self.id} is {self.state()} after {timeout:g} s"]
        with contextlib.suppress(TocsinError):
            words += self.explain()[-1:]  # the others tell what is over
        return "; ".join(words)

    def _result(self, execution: "types.Execution") -> R:
        if execution["state"] != "succeeded":
            attempts = execution["attempts"]
            detail = (attempts[-1]["detail"] if attempts else None) or {}
            raise TaskFailed(self.id, execution["state"], execution["reason"], detail.get("trace"))
        value = execution["attempts"][-1]["result"]
        try:
            found: R = value if self._signature is None else self._signature.result(value)
        except msgspec.ValidationError as error:
            raise TypeError(
                f"what {self.id} returned is not of the type that its task has here: {error}"
            ) from None
        return found

    def state(self) -> str:
        """Where it stands."""
        return str(self._client.executions.get(self.id)["state"])

    def progress(self) -> "types.Progress | None":
        """How far it says it is, while it runs."""
        return self._client.executions.get(self.id)["progress"]

    def cancel(self, reason: str | None = None) -> str:
        """Call it off: ``cancelled`` if it never ran and never will, ``cancel_requested`` if it was asked to
        stop."""
        return str(self._client.executions.cancel(self.id, reason)["answer"])

    def explain(self) -> list[str]:
        """Why it is where it is, in sentences."""
        return list(self._client.executions.explain(self.id))
