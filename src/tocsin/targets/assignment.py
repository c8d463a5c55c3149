"""What the caller of a target is told about the attempt that it makes.

A worker builds the value from its claim, so no kind of target knows how executions are claimed and settled.
Targets may pass on what it says: it is the same over every worker, and the idempotency key is the same over
retries.
"""

from uuid import UUID

import msgspec

from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import MILLISECOND, Instant
from tocsin.domain.traces import traceparent


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """One attempt at one execution."""

    job_id: UUID
    fire_at: Instant
    """With the job the execution's identity."""
    tenant_id: int
    attempt: int
    token: int
    """Of the claim under which the attempt is made."""
    due_at: Instant
    """When the execution was to start at first; `run_at` is when this attempt was."""
    run_at: Instant
    started_at: Instant
    origin_fire_at: Instant | None = None
    """The fire time of the execution that this one runs again."""
    queue: str = ""
    name: str | None = None
    """The job's name, where it is known without asking: in a trial."""

    @property
    def key(self) -> ExecutionKey:
        """The execution's identity."""
        return ExecutionKey(self.job_id, self.fire_at)

    @property
    def execution(self) -> str:
        """The execution as users know it, and the idempotency key of every attempt at it."""
        return execution_text(self.key)

    @property
    def job(self) -> str:
        """The job as users know it."""
        return job_text(self.job_id)

    @property
    def nominal_fire_at(self) -> Instant:
        """The fire time that targets are told."""
        return self.fire_at if self.origin_fire_at is None else self.origin_fire_at

    @property
    def traceparent(self) -> str:
        """One trace per execution, one span per attempt, both computable from the execution alone."""
        return traceparent(self.execution, self.attempt)

    @property
    def lag_ms(self) -> int:
        """How late the attempt started."""
        planned = self.due_at if self.attempt == 1 else self.run_at
        return max(0, (self.started_at - planned) // MILLISECOND)
