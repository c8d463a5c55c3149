"""A job's definition: target, schedule and policies, checked as a whole before anything is written."""

import re
import unicodedata
from typing import Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.policy import Policies, check_policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import Target, check_name_is_there, check_target
from tocsin.domain.written import PLAIN_NAME

DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 5
MAX_NAME: Final = 200
MAX_DESCRIPTION: Final = 2000
MAX_TAG: Final = 64
MAX_TAGS: Final = 32
CATCH_UP_PRIORITY: Final = 10
"""The lane of missed fires: behind every priority a user can give, so that live fires keep their time."""
_PLAIN_NAME: Final = re.compile(PLAIN_NAME)
_UNSHOWABLE: Final = ("Cc", "Cs", "Zl", "Zp")  # control characters, surrogates, line and paragraph separators


class Definition(msgspec.Struct, frozen=True):
    """What a user defined, with the schedule already settled by `read_schedule`."""

    schedule: Schedule
    target: Target
    name: str | None = None
    description: str | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    tags: tuple[str, ...] = ()
    policies: Policies = Policies()

    @property
    def kind(self) -> str:
        """``once`` or ``recurring``."""
        return "recurring" if self.schedule.recurring else "once"


def check_definition(definition: Definition) -> None:
    """Refuse a definition that breaks a limit, naming the field."""
    check_text(definition.name, "name", MAX_NAME)
    check_text(definition.description, "description", MAX_DESCRIPTION, allow="\n\t")
    check_queue(definition.queue, definition.priority)
    if definition.tags:
        _check_tags(definition.tags)
    check_target(definition.target)
    check_name_is_there(definition.target, definition.name)
    check_policies(definition.policies)


def check_queue(queue: str, priority: int) -> None:
    """Refuse what is no place in a queue."""
    if queue != DEFAULT_QUEUE and not _PLAIN_NAME.fullmatch(queue):
        raise Refused(
            "a queue name has 1 to 63 of a-z 0-9 . _ - and begins with a letter or digit", field="queue"
        )
    if not 0 <= priority <= 9:
        raise Refused("priority lies between 0 (most urgent) and 9", field="priority")


def check_name(text: str, field: str) -> None:
    """Refuse what is not a plain name: a queue's, a calendar's."""
    if not _PLAIN_NAME.fullmatch(text):
        raise Refused(f"{field} has 1 to 63 of a-z 0-9 . _ - and begins with a letter or digit", field=field)


def _check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MAX_TAGS:
        raise Refused(f"at most {MAX_TAGS} tags", field="tags")
    for tag in tags:
        check_text(tag, "tags", MAX_TAG)
        if "," in tag:
            raise Refused("a tag has no comma: it separates tags in a search", field="tags")
    if len(set(tags)) != len(tags):
        raise Refused("a tag is given twice", field="tags")


def check_text(text: str | None, field: str, longest: int, *, allow: str = "") -> None:
    """Refuse words that are empty, too long, or would do something to the terminal they are shown on."""
    if text is None:
        return
    if not 1 <= len(text) <= longest:
        raise Refused(f"{field} has 1 to {longest} characters", field=field)
    if any(unicodedata.category(letter) in _UNSHOWABLE and letter not in allow for letter in text):
        raise Refused(f"{field} has control characters or line breaks", field=field)
