"""The job that a change begins with: locked, read, or refused because of the state it is in."""

from uuid import UUID

from tocsin.db.pool import Record, Session
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.stored_job import read_policies, read_schedule
from tocsin.store.jobs import no_job
from tocsin.store.statements import sql


async def lock_job(session: Session, tenant_id: int, job_id: UUID) -> Record:
    """Take a job for the rest of the transaction."""
    row = await find_and_lock(session, tenant_id, job_id)
    if row is None:
        raise no_job(job_id)
    return row


async def find_and_lock(session: Session, tenant_id: int, job_id: UUID) -> Record | None:
    """The same for those to whom it is no fault if the job is gone."""
    return await session.fetchrow(sql("lock_job"), CELL, job_id, tenant_id)


def wrong_state(action: str, job: Record) -> Conflict:
    """The answer for an action that the job's state forbids."""
    kind = "one-off" if job["kind"] == "once" else "job"
    return Conflict(f"cannot {action} a {kind} that is {job['state']}")


def managed(owner: str) -> Conflict:
    """The answer to a change of a job that another one declares."""
    return Conflict(
        f"the job is declared by {owner}",
        hint=f"change it where {owner} declares it; pausing it is a person's",
        code="managed",
    )


def schedule_of(job: Record) -> Schedule:
    """The schedule that the job has."""
    return read_schedule(job["schedule"])


def policies_of(job: Record) -> Policies:
    """The policies that the job has."""
    return read_policies(job["policies"])
