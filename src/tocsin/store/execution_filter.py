"""What a listing of executions is narrowed to, and the places where its pages end."""

from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.instant import Instant, Span
from tocsin.domain.lifecycle import FINAL, State

Rows: TypeAlias = list[Any]
"""Records of the database, or what has their shape."""


class ExecutionFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a listing is narrowed to. The range is of fire times; it includes its start and excludes its
    end."""

    state: State | None = None
    queue: str | None = None
    job_id: UUID | None = None
    fire_from: Instant | None = None
    fire_to: Instant | None = None
    min_lag: Span | None = None
    error: str | None = None
    job_ids: tuple[UUID, ...] | None = None
    """Only executions of these jobs: those that a name or tag was found to mean."""
    node_id: int | None = None
    fingerprint: str | None = None
    cause: str | None = None
    finished_from: Instant | None = None
    """Of history only, and so is `finished_to`; live ones are left out by `over`."""
    finished_to: Instant | None = None
    over: bool = False
    """Without live ones."""
    kept_only: bool = False
    """Without dead ones that a user discarded."""

    @property
    def may_be_live(self) -> bool:
        """Whether live executions can match; errors are known of what is over."""
        return not self.over and self.state not in FINAL and self.error is None and self.fingerprint is None


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of the listing ended: among the live ones (no finish time) or in history."""

    job_id: UUID
    fire_at: Instant
    finished_at: Instant | None = None


class ExecutionPage(msgspec.Struct, frozen=True):
    """Executions, and where the next page begins if there may be one."""

    rows: Rows
    next: Place | None
