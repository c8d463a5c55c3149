"""Tasks that run where they are enqueued: no server, no database, no time.

A payload is written as JSON and read again on the way, so that what could not travel fails here, too. What a
task raises is raised by the `enqueue`. Delays, queues, limits and schedules mean nothing here.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.ids import ExecutionKey, execution_text, job_text, new_job_id, parse_execution_text
from tocsin.domain.instant import from_datetime
from tocsin.domain.protocol import TaskClaim
from tocsin.sdk.app import App
from tocsin.sdk.outcomes import Postpone, Rejected, Skip
from tocsin.sdk.signature import to_plain
from tocsin.sdk.task import NamedTask, Task
from tocsin.testing.attempts import Attempts, claim_of


class Called(msgspec.Struct):
    """A call that was enqueued, and what became of it at once."""

    id: str
    job_id: str
    task: str
    payload: Any
    state: str = "queued"
    """``queued`` for a task of another service, which does not run here."""
    result: Any = None
    reason: str | None = None
    attempts: int = 0


class Eager:
    """What the fixture `tocsin_eager` is."""

    def __init__(self) -> None:
        self.retries = False
        """Whether an attempt that fails is followed by others, without any waiting, as its retry policy
        says."""
        self.calls: list[Called] = []
        self._attempts = Attempts()
        self._by_key: dict[str, Called] = {}

    def of(self, task: Task[..., Any] | NamedTask | str) -> list[Called]:
        """The calls of a task."""
        name = task if isinstance(task, str) else task.name
        return [called for called in self.calls if called.task == name]

    def client_of(self, app: App) -> "EagerClient":
        """The client by which an app enqueues its tasks here."""
        return EagerClient(self, app)

    def close(self) -> None:
        """End the lifespans of apps that ran something."""
        self._attempts.close()

    def call(self, app: App, target: Mapping[str, Any], key: str | None) -> Called:
        """Run a task now. The same key again is the same call."""
        if key is not None and key in self._by_key:
            return self._by_key[key]
        now = from_datetime(datetime.now(UTC))
        task = app.tasks.get(target["task"])
        payload = target.get("payload")
        if task is None:
            job_id = new_job_id(now)
            called = Called(
                execution_text(ExecutionKey(job_id, now)), job_text(job_id), target["task"], payload
            )
        else:
            claim = claim_of(task, payload, now)
            job_id = parse_execution_text(claim.id).job_id
            called = Called(claim.id, job_text(job_id), task.name, claim.payload)
        self.calls.append(called)
        if key is not None:
            self._by_key[key] = called
        if task is not None:
            self._run(task, claim, called)
        return called

    def _run(self, task: Task[..., Any], claim: TaskClaim, called: Called) -> None:
        retry = task.options.retry
        most = retry.max_attempts if self.retries else 1
        for attempt in range(1, most + 1):
            called.attempts = attempt
            try:
                value = self._attempts.value(task, msgspec.structs.replace(claim, attempt=attempt))
            except Skip as skip:
                called.state, called.reason = "skipped", str(skip) or None
                return
            except Exception as error:
                called.state, called.reason = "dead", str(error)
                final = isinstance(error, (Rejected, Postpone, *retry.never))
                if final or attempt == most or (retry.on and not isinstance(error, tuple(retry.on))):
                    raise
            else:
                called.state, called.result, called.reason = "succeeded", to_plain(value), None
                return


class EagerClient:
    """As much of a client as tasks and handles use."""

    def __init__(self, eager: Eager, app: App) -> None:
        self.jobs = _Jobs(eager, app)
        self.executions = _Executions(eager)


class _Jobs:
    def __init__(self, eager: Eager, app: App) -> None:
        self._eager = eager
        self._app = app

    def create(
        self, *, target: Mapping[str, Any], idempotency_key: str | None = None, **_: Any
    ) -> dict[str, Any]:
        called = self._eager.call(self._app, target, idempotency_key)
        return {"id": called.job_id, "next_fire_at": None}

    def create_many(self, jobs: Sequence[Mapping[str, Any]], **_: Any) -> dict[str, Any]:
        return {"items": [self.create(**job) for job in jobs]}

    def executions(self, job_id: str, **_: Any) -> Iterator[dict[str, Any]]:
        yield from ({"id": called.id} for called in self._eager.calls if called.job_id == job_id)


class _Executions:
    def __init__(self, eager: Eager) -> None:
        self._eager = eager

    def get(self, execution_id: str, *, wait: float | None = None) -> dict[str, Any]:
        called = self._find(execution_id)
        if called.state == "queued" and wait is not None:
            raise TimeoutError(f"{called.task} is no task of this app: nothing runs it here")
        return {
            "id": called.id,
            "state": called.state,
            "reason": called.reason,
            "progress": None,
            "attempts": [{"result": called.result}] * called.attempts,
        }

    def cancel(self, execution_id: str, _: str | None = None) -> dict[str, Any]:
        called = self._find(execution_id)
        if called.state != "queued":
            raise Conflict(f"{execution_id} is {called.state}: it ran when it was enqueued")
        called.state = "cancelled"
        return {"answer": "cancelled"}

    def explain(self, execution_id: str) -> list[str]:
        called = self._find(execution_id)
        return [f"It is {called.state}. Eager tasks run when they are enqueued."]

    def _find(self, execution_id: str) -> Called:
        for called in self._eager.calls:
            if called.id == execution_id:
                return called
        raise NotFound(f"no execution {execution_id}")
