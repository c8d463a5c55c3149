"""The client, asynchronous. The synchronous face (`sync`) is made from this file: `python -m
tocsin.sdk.client.faces`. Most operations are in `resources`, which follows from the OpenAPI document; here
are those that are better said otherwise."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec

from tocsin.sdk.client import resources
from tocsin.sdk.client.core import request_of
from tocsin.sdk.client.sending import AsyncSender

if TYPE_CHECKING:
    from tocsin.sdk.client import types


class AsyncClient(AsyncSender, resources.AsyncResources):
    """Talks to one API with one key. `timeout` is how many seconds a call may take in all, repetitions
    included."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        AsyncSender.__init__(self, url, api_key, timeout=timeout, transport=transport)
        resources.AsyncResources.__init__(self, self)
        self.jobs: AsyncJobs = AsyncJobs(self)
        self.executions: AsyncExecutions = AsyncExecutions(self)


class AsyncJobs(resources.AsyncJobs):
    """``/v1/jobs``."""

    async def create(
        self, *, schedule: Any, target: Any, idempotency_key: str | None = None, **job: Any
    ) -> "types.Job":
        """Create a job: `schedule` and `target` as the API takes them, and any other field of a job."""
        body = {"schedule": schedule, "target": msgspec.to_builtins(target), **job}
        made: types.Job = await self._client.send(
            request_of("POST", "jobs", body=body, idempotency_key=idempotency_key)
        )
        return made

    async def create_many(
        self, jobs: Sequence[Mapping[str, Any]], *, atomic: bool = False, idempotency_key: str | None = None
    ) -> "types.BatchAnswer":
        """Create up to 10,000 jobs in one request, item by item or all or none."""
        made: types.BatchAnswer = await self._client.send(
            request_of(
                "POST", "jobs:batch", body=jobs, query={"atomic": atomic}, idempotency_key=idempotency_key
            )
        )
        return made


class AsyncExecutions(resources.AsyncExecutions):
    """``/v1/executions``."""

    async def get(self, execution_id: str, *, wait: float | None = None) -> "types.Execution":
        """One execution with its attempts; with `wait`, once it is over or after `wait` seconds."""
        query = {"wait": None if wait is None else f"{wait:.3f}s"}
        timeout = None if wait is None else wait + self._client.timeout
        execution: types.Execution = await self._client.send(
            request_of("GET", "executions", execution_id, query=query), timeout
        )
        return execution

    async def cancel(self, execution_id: str, reason: str | None = None) -> "types.CancelledExecution":
        """Cancel an execution; a running one is asked to stop."""
        request = request_of("POST", "executions", execution_id, "cancel", body={"reason": reason})
        execution: types.CancelledExecution = await self._client.send(request)
        return execution

    async def explain(self, execution_id: str) -> "Sequence[str]":
        """Why it is where it is, in sentences."""
        told: types.Explanation = await self._client.send(
            request_of("GET", "executions", execution_id, "explain")
        )
        return told["explanation"]
