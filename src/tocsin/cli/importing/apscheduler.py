"""APScheduler: a module that calls `add_job(…)` or decorates with `scheduled_job(…)`, which is read and not
run.

Fields of its cron trigger that are not given are `*` above the least one that is, and the lowest value below
it. Weekdays count from Monday as 0, and date and weekday must both match.
"""

import ast
from collections.abc import Iterator
from typing import Any, Final

from tocsin.cli.importing.celery_beat import interval_schedule, task_target
from tocsin.cli.importing.fields import both_days, clock_notes, listed, month, values, zoned
from tocsin.cli.importing.python_source import Call, Unread, constants, last_name, parse, value_of
from tocsin.cli.importing.reading import Found, Left, Reading, Unfit, left_of, named_apart
from tocsin.domain.cron import Cron
from tocsin.domain.errors import Refused

_FIELDS: Final = ("month", "day", "day_of_week", "hour", "minute", "second")
_LOWEST: Final = {"month": "1", "day": "1", "day_of_week": "*", "hour": "0", "minute": "0", "second": "0"}
_FROM_MONDAY: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNITS: Final = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
_TRIGGERS: Final = {"CronTrigger": "cron", "IntervalTrigger": "interval", "DateTrigger": "date"}

_CLOCKS: Final = (
    "where clocks change: APScheduler fires what they skip as much later, and what they repeat twice; here a "
    "fixed time fires at the end of the gap and once, and others skip the gap"
)


def read_module(text: str, *, time_zone: str | None) -> Reading:
    """The jobs that a module adds."""
    tree = parse(text)
    names = constants(tree)
    found: list[Found] = []
    left: list[Left] = []
    for function, node in _calls(tree):
        call = value_of(node, names)
        where = f"line {node.lineno}"
        try:
            found.append(_job(where, function, call, time_zone))
        except (Unfit, Refused) as error:
            left.append(left_of(where, function or "add_job", error))
    nothing = () if found or left else ("no add_job and no scheduled_job was found in the module",)
    return Reading(named_apart(found), tuple(left), (*nothing, *clock_notes(found, _CLOCKS)))


def _calls(tree: ast.Module) -> Iterator[tuple[str | None, ast.Call]]:
    """The function that is scheduled, and the call that says when."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for one in node.decorator_list:
                if isinstance(one, ast.Call) and last_name(one.func) == "scheduled_job":
                    yield node.name, one
        elif isinstance(node, ast.Call) and last_name(node.func) == "add_job":
            given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "func")]
            yield (_function(given[0]) if given else None), node


def _function(node: ast.expr) -> str | None:
    """The name of what is scheduled: of a function, or of text such as `shop.tasks:send`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace(":", ".")
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else None


def _job(where: str, function: str | None, call: Call, time_zone: str | None) -> Found:
    if function is None:
        raise Unfit("what it calls has no name")
    args = call.args if call.name == "scheduled_job" else call.args[1:]
    trigger = call.named.get("trigger", args[0] if args else None)
    given = dict(call.named)
    if isinstance(trigger, Call):
        given |= trigger.named
        trigger = _TRIGGERS.get(trigger.name)
    target, notes = task_target(function, call.named.get("args") or [], call.named.get("kwargs") or {})
    zone = given["timezone"] if isinstance(given.get("timezone"), str) else time_zone
    match trigger:
        case "cron":
            schedule = _cron(given, zone)
        case "interval":
            spans = {unit: given[unit] for unit in _UNITS if unit in given}
            if not spans or not all(isinstance(number, int | float) for number in spans.values()):
                raise Unfit("its interval is not written as numbers")
            schedule = interval_schedule(sum(_UNITS[unit] * number for unit, number in spans.items()))
            notes = (*notes, "its interval counts from the epoch, not from the start of the process")
        case _:
            raise Unfit("only cron and interval triggers that are written out are taken over")
    job: dict[str, Any] = {"schedule": schedule, "target": target}
    if isinstance(grace := given.get("misfire_grace_time"), int | float) and grace >= 1:
        job["start_within"] = grace
    if given.get("max_instances", 1) == 1:
        job["overlap"] = "skip"
    name = next((given[key] for key in ("id", "name") if isinstance(given.get(key), str)), function)
    return Found(where, name, job, notes)


def _cron(given: dict[str, Any], time_zone: str | None) -> dict[str, Any]:
    if "week" in given or "year" in given:
        raise Unfit("weeks of the year and years are not part of a schedule here")
    if any(isinstance(given.get(name), Unread) for name in _FIELDS):
        raise Unfit("a field is more than a value")
    least = max((number for number, name in enumerate(_FIELDS) if name in given), default=-1)
    texts = {
        name: str(given.get(name, "*" if number < least else _LOWEST[name])).replace(" ", "")
        for number, name in enumerate(_FIELDS)
    }
    if texts["day"] == "last":
        texts["day"], date, day = "1", "L", listed(_weekdays(texts["day_of_week"]), 7)
        if day != "*":
            raise Unfit("the last day of a month and a weekday must both match there")
    else:
        date, day = both_days(values(texts["day"], 1, 31), _weekdays(texts["day_of_week"]))
    months = listed(values(texts["month"], 1, 12, month), 12)
    seconds = "" if texts["second"] == "0" else f"{texts['second']} "
    cron = f"{seconds}{texts['minute']} {texts['hour']} {date} {months} {day}"
    Cron.parse(cron, "schedule")
    return zoned(cron, time_zone)


def _weekdays(text: str) -> frozenset[int]:
    """Weekdays from Monday as 0, as ours from Sunday."""
    from_monday = values(
        text, 0, 6, lambda name: _FROM_MONDAY.index(name[:3].lower()) if name.isalpha() else int(name)
    )
    return frozenset((day + 1) % 7 for day in from_monday)
