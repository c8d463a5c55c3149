"""What the places of a target are filled in with, for one attempt.

Everything but the job's name is known to the assignment. The name is asked for only by targets that use it,
so no other execution carries it.
"""

from typing import Any, Protocol
from uuid import UUID

from tocsin.domain.instant import format_instant
from tocsin.domain.template import wants_name
from tocsin.targets.assignment import Assignment


class Names(Protocol):
    """Knows what jobs are called."""

    async def name(self, tenant_id: int, job_id: UUID) -> str:
        """The job's name; empty if it has none by now. Raises Unavailable."""


class NoNames:
    """Knows no job."""

    async def name(self, tenant_id: int, job_id: UUID) -> str:  # noqa: ARG002 - of any job
        """None."""
        return ""


async def values_for(assignment: Assignment, parts: dict[str, Any], names: Names) -> dict[str, str]:
    """The values for the parts of a target."""
    values = {
        "fire_at": format_instant(assignment.nominal_fire_at),
        "execution": assignment.execution,
        "attempt": str(assignment.attempt),
        "job": assignment.job,
    }
    if wants_name(parts):
        known = assignment.name
        values["name"] = await names.name(assignment.tenant_id, assignment.job_id) if known is None else known
    return values
