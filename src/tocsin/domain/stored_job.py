"""A stored job's schedule, target and policies as values. Text that a newer version wrote raises
`Unreadable`, and nothing else.

`read_schedule` and `read_policies` also check what the text says, so a text that passes cannot fail later, in
the middle of a batch. `parse_schedule` and `parse_policies` only parse: they are for showing a job, whose
values need not make sense here.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final
from uuid import UUID

from tocsin.domain.errors import Refused, Unreadable
from tocsin.domain.policy import Policies, check_policies
from tocsin.domain.schedule import Schedule, blackout_dates, offset_of, rule_of
from tocsin.domain.stored import reader
from tocsin.domain.target import Target

_REMEMBERED: Final = 4096
_ANY_JOB: Final = UUID(int=0)

read_target: Final[Callable[[str], Target]] = reader(Target, "target")
parse_schedule: Final[Callable[[str], Schedule]] = reader(Schedule, "schedule")
parse_policies: Final[Callable[[str], Policies]] = reader(Policies, "policies")


@lru_cache(maxsize=_REMEMBERED)
def read_schedule(text: str) -> Schedule:
    """A schedule whose fire times, jitter and excluded dates are known here. Raises `Unreadable`."""
    schedule = parse_schedule(text)
    try:
        rule_of(schedule)
        offset_of(schedule, _ANY_JOB)
        blackout_dates(schedule)
    except Refused as error:
        raise Unreadable(f"this version cannot use the schedule: {error.detail}") from None
    return schedule


@lru_cache(maxsize=_REMEMBERED)
def read_policies(text: str) -> Policies:
    """Policies whose every field makes sense here. Raises `Unreadable`."""
    policies = parse_policies(text)
    try:
        check_policies(policies)
    except Refused as error:
        raise Unreadable(f"this version cannot use the policies: {error.detail}") from None
    return policies
