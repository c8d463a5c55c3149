"""Operations: one action on many, how far it has come, and what it would do."""

from typing import Annotated, Any, Literal

import msgspec

from tocsin.api.endpoint import MAX_REASON
from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time
from tocsin.domain.ids import ExecutionText, JobText
from tocsin.domain.operation import LARGEST_STEP, MOST_STEPS, MOST_WATCHED, Do, Of
from tocsin.domain.target_kind import TargetKind
from tocsin.domain.written import SpanText, UpToAnHour, at_most, between, line

MOST_IDS = 10_000
_Text = Annotated[str, line(200)] | None


class OperationFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an operation acts on: the parameters of the listing of jobs, of executions or of dead letters.
    Without any, all."""

    state: _Text = None
    queue: _Text = None
    kind: Literal["once", "recurring"] | None = None
    tags: tuple[str, ...] = ()
    tag_match: Literal["all", "any"] | None = None
    name: _Text = None
    target: TargetKind | None = None
    created_from: Time | None = None
    created_to: Time | None = None
    next_fire_from: Time | None = None
    next_fire_to: Time | None = None
    job: JobText | None = None
    fire_from: Time | None = None
    fire_to: Time | None = None
    min_lag: SpanText | None = None
    error: _Text = None
    fingerprint: _Text = None


class Brake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hold when `share` of the last `of` outcomes are failures."""

    share: Annotated[float, between(0, 1)]
    of: Annotated[int, between(1, MOST_WATCHED)] = 50


class NewOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operation to make: on what matches `where`, or on `ids`."""

    do: Do
    of: Of
    where: OperationFilter | None = None
    ids: Annotated[tuple[str, ...], at_most(MOST_IDS)] | None = None
    reason: Annotated[str, line(MAX_REASON)] | None = None
    pace: UpToAnHour = 0
    steps: Annotated[tuple[Annotated[int, between(1, LARGEST_STEP)], ...], at_most(MOST_STEPS)] = ()
    stop_at: Brake | None = None
    dry_run: bool = False


class OperationError(msgspec.Struct, frozen=True):
    """Why something could not be done, or how an execution failed; how often, and of what first."""

    error: str
    count: int
    sample: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation and how far it has come."""

    id: int
    do: Do
    of: Of
    where: dict[str, Any] | None
    """As it was asked for; null if the things were named one by one."""
    state: Literal["running", "paused", "completed", "cancelled"]
    state_reason: str | None
    reason: str | None
    matched: int
    gathering: bool
    """Whether more match than `matched` says: they are still being looked up, and nothing is acted on."""
    done: int
    cannot: int
    """Things for which the action was refused."""
    left: int
    under_way: int
    """Executions that it fired and that have not ended."""
    succeeded: int
    failed: int
    """Executions that it fired and that ended otherwise."""
    step: int
    """The step it is at, from 1 on; the last one is all the rest."""
    steps: list[int]
    stop_at: Brake | None
    pace: str
    rate: float | None
    """How many a second it has acted on since it began."""
    errors: list[OperationError]
    by: str
    created_at: Time
    updated_at: Time
    finished_at: Time | None


class Refusal(msgspec.Struct, frozen=True):
    """Why the action is not possible, and for how many."""

    reason: str
    count: int


class Thing(msgspec.Struct, frozen=True):
    """One that matches."""

    id: JobText | ExecutionText
    name: str | None
    state: str


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An operation, or what it would act on."""

    operation: Operation | None
    count: int
    capped: bool
    """Whether more match than were counted; the operation acts on all."""
    cannot: list[Refusal]
    """For which of them the action is not possible, as far as that can be told beforehand."""
    oldest_at: Time | None
    """The earliest fire time among executions."""
    sample: list[Thing]
    """The first of them."""


class OperationPage(Page, frozen=True, kw_only=True):
    """Operations, newest first."""

    items: list[Operation]
