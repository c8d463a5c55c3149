"""Where a step of `explain` leads: the page of the dashboard with what an execution waited for, ran into or
came from."""

from typing import Any, Final
from urllib.parse import quote

from tocsin.domain.explain import Step
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import Instant
from tocsin.domain.waits import Reason

_FLEET: Final = frozenset(
    {
        Reason.PLACE,
        Reason.DESCRIPTORS,
        Reason.VERSION,
        Reason.OUTAGE,
        Reason.WORKER,
        Reason.PLANNING,
        "unserved",
    }
)
_TENANT: Final = frozenset({Reason.TENANT_LIMIT, Reason.SUSPENSION})
_DEFINITION: Final = frozenset({Reason.SLOT, Reason.RATE, Reason.HOST, "expired"})
_CALENDARS: Final = "/calendars"


def link_of(step: Step, row: Any, tenant: str, turn_held_by: Instant | None = None) -> str | None:
    """The page, or None where there is none. `turn_held_by` is the fire time of the execution that has the
    job's turn now."""
    job = f"/jobs/{job_text(row['job_id'])}"
    if step.kind in _FLEET:
        return "/fleet"
    if step.kind in _TENANT:
        return f"/tenants/{quote(tenant, safe='')}"
    if step.kind in _DEFINITION:
        return f"{job}?tab=definition"
    match step.kind:
        case Reason.QUEUE_PAUSED:
            return f"/queues/{quote(row['queue'], safe='')}"
        case Reason.TURN if step.until is None and turn_held_by is not None:
            return _execution(row, turn_held_by)
        case Reason.TURN:
            return f"{job}?tab=runs"
        case "origin":
            return _origin(row)
        case "skipped":
            return _CALENDARS if row["reason"] == "blackout" else f"{job}?tab=runs"
        case "dead":
            kind = row["error_fingerprint"]
            return "/dead-letters" if kind is None else f"/dead-letters?fingerprint={quote(kind, safe='')}"
        case _:
            return None


def _origin(row: Any) -> str | None:
    if row["origin_fire_at"] is not None:
        return _execution(row, row["origin_fire_at"])
    return "/operations" if row["backfill_id"] is not None else None


def _execution(row: Any, fire_at: Instant) -> str:
    return f"/executions/{execution_text(ExecutionKey(row['job_id'], fire_at))}"
