"""Dead letters by kind of error."""

import msgspec

from tocsin.api.wire.scalars import Time
from tocsin.domain.ids import ExecutionText


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with the same kind of error. Its fingerprint selects them in listings and operations."""

    fingerprint: str | None
    status: str | None
    error: str | None
    count: int
    capped: bool
    """Whether there may be more: only the newest dead letters are counted."""
    jobs: int
    last_hour: int
    hourly: list[int]
    """How many ended in each of the 24 hours before the range's end, the latest last."""
    first_at: Time
    last_at: Time
    sample: ExecutionText
    """The latest one."""


class ErrorGroups(msgspec.Struct, frozen=True):
    """Kinds of errors, the most frequent first. Capped: older dead letters were not counted."""

    capped: bool
    items: list[ErrorGroup]
