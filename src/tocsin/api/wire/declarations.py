"""Declarations: jobs that a program or a file owns, sent as a whole, and what came of it."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from tocsin.api.problems import Problem
from tocsin.api.wire.jobs import JobBody
from tocsin.api.wire.pages import Listing
from tocsin.api.wire.scalars import Time
from tocsin.domain.ids import JobText
from tocsin.domain.written import at_most

MAX_DECLARED: Final = 2000
MAX_REVISION: Final = (1 << 53) - 1
Action = Literal["created", "revived", "changed", "unchanged", "removed", "differs", "undeclared", "refused"]


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All recurring jobs of an owner as they shall be, each with its name."""

    jobs: Annotated[list[JobBody], at_most(MAX_DECLARED)]
    revision: Annotated[int, Meta(ge=0, le=MAX_REVISION)] | None = None
    """A lower one than was declared before changes nothing."""
    dry_run: bool = False
    """Say what would be done, and do nothing."""
    update: bool = True
    """Whether jobs that exist are changed; if not, only missing ones are created."""
    prune: bool = False
    """Whether jobs of this owner that are not declared any more are cancelled."""
    adopt: bool = False
    """Whether jobs that have no owner become this owner's."""
    days: Annotated[int, Meta(ge=1, le=31)] = 7
    """How far ahead fires are compared."""


class FieldChange(msgspec.Struct, frozen=True):
    """A field of a job that becomes another."""

    field: str
    before: Any
    after: Any


class MovedFire(msgspec.Struct, frozen=True):
    """A fire that comes at another time."""

    before: Time
    after: Time


class ChangedFires(msgspec.Struct, frozen=True):
    """What happens to a job's coming fires: how many, and the first few of each."""

    gained: int
    lost: int
    moved: int
    kept: int
    first_gained: list[Time]
    first_lost: list[Time]
    first_moved: list[MovedFire]
    until: Time
    """Up to which instant fires were compared: as many days ahead as were asked for, or 500 fires."""


class DeclaredJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a job, or would with `dry_run`."""

    name: str
    action: Action
    id: JobText | None = None
    paused: bool = False
    """Whether a person has paused it: it stays paused."""
    fields: list[FieldChange] = []
    fires: ChangedFires | None = None
    problem: Problem | None = None


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a declaration."""

    owner: str
    revision: int | None
    """The one that is in force now."""
    applied: bool
    """Whether all that was declared is in force. False after a dry run, if it was superseded, and if
    something was refused: then nothing was written, unless `jobs` says so."""
    superseded: bool
    """Whether a higher revision was declared before."""
    dry_run: bool
    counts: dict[str, int]
    """How many jobs by action."""
    jobs: list[DeclaredJob]


class Owner(msgspec.Struct, frozen=True):
    """Who declares jobs."""

    owner: str
    revision: int | None
    jobs: int
    """How many of its jobs are active or paused."""
    declared_at: Time


class Owners(Listing, frozen=True, kw_only=True):
    """All owners of a tenant's jobs, by name."""

    items: list[Owner]


class Disowned(msgspec.Struct, frozen=True):
    """What had an owner and has none any more."""

    released: int
