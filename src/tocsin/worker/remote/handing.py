"""A claim as its remote worker gets it."""

from tocsin.domain.instant import MILLISECOND, format_instant
from tocsin.domain.protocol import TaskClaim
from tocsin.domain.task_target import TaskTarget
from tocsin.domain.traces import traceparent
from tocsin.queue.claims import Claim
from tocsin.worker.runner import assignment_of


def task_claim(claim: Claim) -> TaskClaim:
    """All that a worker needs to make the attempt. The key is the same over retries."""
    work, assignment = claim.work, assignment_of(claim)
    target, execution = work.target, assignment.execution
    if not isinstance(target, TaskTarget):
        raise TypeError(f"{execution} is no task")
    return TaskClaim(
        id=execution,
        token=str(claim.token),
        task=target.task,
        payload=target.payload,
        attempt=claim.attempt,
        fire_at=format_instant(assignment.nominal_fire_at),
        started_at=format_instant(assignment.started_at),
        timeout_ms=work.timeout // MILLISECOND,
        deadline_at=format_instant(claim.deadline_at),
        idempotency_key=execution,
        traceparent=target.trace or traceparent(execution, claim.attempt),
        queue=claim.queue,
    )
