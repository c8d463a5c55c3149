"""What stops, starts and fires a job: how it is asked for, and what it did."""

import msgspec

from tocsin.api.wire.actions import Reason
from tocsin.api.wire.jobs import Job
from tocsin.api.wire.scalars import Time
from tocsin.domain.policy import Misfire, MisfirePolicy


class Pause(Reason, frozen=True):
    """A pause, for good or until an instant."""

    until: Time | None = None
    dry_run: bool = False


class Cancel(Reason, frozen=True):
    """With `dry_run` nothing is changed."""

    dry_run: bool = False


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With `dry_run` nothing is changed. `misfire` decides this once instead of the job's own policy."""

    dry_run: bool = False
    misfire: Misfire | MisfirePolicy | None = None


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With `override_overlap` it runs although the job must not overlap."""

    override_overlap: bool = False


class CancelAnswer(msgspec.Struct, frozen=True):
    """What a cancellation did."""

    job: Job | None
    cancelled: int
    """Executions that were never called and never will be."""
    asked_to_stop: int
    """Executions that were running."""
    not_retried: int
    """Executions that had been called and waited for another attempt."""
    dry_run: bool = False
    """Whether nothing of it was done."""


class PauseAnswer(msgspec.Struct, frozen=True):
    """What a pause took back out of the queue."""

    job: Job
    held: int
    dry_run: bool = False


class ResumeAnswer(msgspec.Struct, frozen=True):
    """What resuming fired at once and left out."""

    job: Job
    dry_run: bool
    fired: int
    skipped: int
    fire_times: list[Time]
    """The missed fire times that run, the first hundred of them."""


class SkipAnswer(msgspec.Struct, frozen=True):
    """Which fire was left out."""

    job: Job
    skipped: Time
