"""A task: a function known by a name, run by whichever remote worker has it.

The name is part of the route, so a task that no worker knows waits in a lane that no worker asks for: it
costs nothing, keeps its attempts, and is there for a newer worker.
"""

import re
from typing import Annotated, Any, ClassVar, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.nesting import check_depth, too_deep
from tocsin.domain.written import described

TASK_ROUTE: Final = "task:"
MAX_PAYLOAD: Final = 256 * 1024
TASK_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"
NAME: Final = re.compile(TASK_NAME)
_TRACE: Final = r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT: Final = re.compile(_TRACE)
WrittenTask = Annotated[str, described(pattern=f"^{TASK_NAME}$", examples=["shop.send_receipt"])]


class TaskTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="task"
):
    """A call of a task. `payload` is what the function is given; `trace` the caller's `traceparent`."""

    answers_at_once: ClassVar[bool] = False
    task: WrittenTask
    payload: Any = None
    trace: Annotated[str, described(pattern=f"^{_TRACE}$")] | None = None


def task_route(name: str) -> str:
    """Who can run a task: workers that know it."""
    return TASK_ROUTE + name


def task_of(route: str) -> str | None:
    """The task that a route is for, if it is for one."""
    return route.removeprefix(TASK_ROUTE) if route.startswith(TASK_ROUTE) else None


def check_task_name(name: str, field: str) -> None:
    """Refuse what cannot be a task's name."""
    if not NAME.fullmatch(name):
        raise Refused(
            "a task has 1 to 128 of A-Z a-z 0-9 _ . : - and begins with a letter, a digit or _", field=field
        )


def check_task(target: TaskTarget) -> None:
    """Refuse what no worker could be given."""
    check_task_name(target.task, "target.task")
    if target.trace is not None and not _TRACEPARENT.fullmatch(target.trace):
        raise Refused("trace is a traceparent such as 00-<32 hex>-<16 hex>-01", field="target.trace")
    try:
        payload = msgspec.json.encode(target.payload)
    except RecursionError:
        raise too_deep("the payload", "target.payload") from None
    if len(payload) > MAX_PAYLOAD:
        raise Refused(f"the payload is larger than {MAX_PAYLOAD // 1024} KiB", field="target.payload")
    check_depth(target.payload, payload, "the payload", "target.payload")
