"""Schedules that a program declares beside its tasks: each is a recurring job that enqueues a call.

An error in one is told where it is written, at import. Nothing is sent before the app is declared.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND
from tocsin.domain.schedule import Schedule, read_schedule
from tocsin.sdk.options import Options
from tocsin.sdk.task import NamedTask, Task

When = str | Mapping[str, Any]
"""``0 3 * * *``, ``every 5m``, or a schedule as the API takes it."""
_EVERY: Final = "every "
_OF_SCHEDULE: Final = frozenset(Schedule.__struct_fields__)


class Planned(msgspec.Struct, frozen=True):
    """A schedule of a task: the recurring job that it becomes."""

    name: str
    job: dict[str, Any]


def planned(
    when: When,
    task: Task[Any, Any] | NamedTask,
    name: str | None,
    options: Mapping[str, Any],
    payload: Mapping[str, Any],
) -> Planned:
    """The job of a schedule. Its name is the task's, with a name of its own behind it if it has one."""
    full = task.name if name is None else f"{task.name}.{name}"
    given = {option: value for option, value in options.items() if value is not None}
    schedule = _schedule(when, {key: value for key, value in given.items() if key in _OF_SCHEDULE})
    if isinstance(task, Task):
        chosen, arguments = task.options, task.signature.payload((), payload)
    else:
        chosen, arguments = Options(), dict(payload)
    body = chosen.job({"kind": "task", "task": task.name, "payload": arguments}, arguments)
    policies = {key: value for key, value in given.items() if key not in _OF_SCHEDULE}
    return Planned(full, body | {"name": full, "schedule": schedule} | policies)


def _schedule(when: When, narrowed: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(when, str):
        said = dict(when)
    elif when.startswith(_EVERY):
        said = {"every": when.removeprefix(_EVERY).strip()}
    else:
        said = {"cron": when}
    said |= narrowed
    try:
        schedule = msgspec.convert(said, Schedule)
    except msgspec.ValidationError as error:
        raise Refused(f"schedule: {error}", field="schedule") from None
    if not read_schedule(schedule, round(time.time() * SECOND)).recurring:
        raise Refused("a declared schedule is recurring: give a cron expression or every", field="schedule")
    return said
