"""One enqueued call: wait for its result, cancel it, ask how far it is."""

from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tocsin.domain.errors import TocsinError
from tocsin.domain.lifecycle import FINAL
from tocsin.sdk.client.sync import Client
from tocsin.sdk.signature import Signature

if TYPE_CHECKING:
    from tocsin.sdk.client import types

R = TypeVar("R")
_WAIT: Final = 20.0


class TaskFailed(TocsinError):
    """A task ended without a result. `state` and `reason` are those of its execution."""

    def __init__(self, execution_id: str, state: str, reason: str | None) -> None:
        super().__init__(f"{execution_id} is {state}: {reason}" if reason else f"{execution_id} is {state}")
        self.execution_id = execution_id
        self.state = state
        self.reason = reason


class Handle(Generic[R]):
    """A call of a task that is on disk. `client` is the app's own; its calls block."""

    def __init__(
        self,
        client: Client,
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
        """What the task returned, once it has. Raises `TaskFailed`, or `TimeoutError` after so many
        seconds."""
        until = None if timeout is None else monotonic() + timeout
        while True:
            left = _WAIT if until is None else min(_WAIT, max(0.0, until - monotonic()))
            execution = self._client.executions.get(self.id, wait=left)
            if execution["state"] in FINAL:
                return self._result(execution)
            if until is not None and monotonic() >= until:
                raise TimeoutError(f"{self.id} is {execution['state']} after {timeout:g} s")

    def _result(self, execution: "types.Execution") -> R:
        if execution["state"] != "succeeded":
            raise TaskFailed(self.id, execution["state"], execution["reason"])
        value = execution["attempts"][-1]["result"]
        found: R = value if self._signature is None else self._signature.result(value)
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
