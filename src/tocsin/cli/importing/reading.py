"""What was found in another scheduler's file: jobs that can be taken over, and what cannot, with its reason.

A reader never drops anything silently. Whatever it meets is a `Found` or a `Left`; what changes its meaning
on the way is a note.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tocsin.domain.errors import Refused

_NOT_A_NAME: Final = re.compile(r"[^a-z0-9._/-]+")
_LONGEST_NAME: Final = 60


@dataclass(frozen=True)
class Found:
    """A job as the API takes it, without a name of its own yet if `name` is only a proposal."""

    where: str
    name: str
    job: dict[str, Any]
    notes: tuple[str, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict)
    """Values by the names that the job knows them by; to be stored before it."""
    suspended: bool = False

    @property
    def recurring(self) -> bool:
        """Whether the API knows it by its name."""
        return "at" not in self.job["schedule"]


@dataclass(frozen=True)
class Left:
    """Something that is not taken over, why, and what to do about it."""

    where: str
    what: str
    why: str
    hint: str = ""


@dataclass(frozen=True)
class Reading:
    """All that a file says."""

    found: tuple[Found, ...] = ()
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()


class Unfit(Exception):
    """What a reader cannot take over; it becomes a `Left`."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint


def left_of(where: str, what: str, error: Unfit | Refused) -> Left:
    """What an error says about something that is not taken over."""
    if isinstance(error, Unfit):
        return Left(where, what, error.why, error.hint)
    return Left(where, what, error.detail, error.hint or "")


def slug(text: str) -> str:
    """A name made of whatever people wrote."""
    return _NOT_A_NAME.sub("-", text.lower()).strip("-./_")[:_LONGEST_NAME].rstrip("-./_") or "job"


def named_apart(found: Iterable[Found]) -> tuple[Found, ...]:
    """The same with names that differ: of equal ones the second gets -2. The order of the file decides, so
    that the same file gives the same names."""
    taken: set[str] = set()
    apart = []
    for one in found:
        name, number = one.name, 1
        while name in taken:
            number += 1
            name = f"{one.name}-{number}"
        taken.add(name)
        apart.append(replace(one, name=name))
    return tuple(apart)
