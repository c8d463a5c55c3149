"""Schedules of celery beat: a module with `beat_schedule`, which is read and not run, or what
`manage.py dumpdata django_celery_beat` wrote.

Celery's date and weekday must both match. Its intervals count from the last run; ours from the epoch, or from
`starts_at`, so that they do not drift. What clocks repeat fires once, the first time; what they skip fires
as much later as they skipped, and here at the end of the gap.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from tocsin.cli.importing.fields import (
    both_days,
    clock_notes,
    listed,
    month,
    unstarred,
    values,
    weekdays_of,
    zoned,
)
from tocsin.cli.importing.python_source import (
    Call,
    Unread,
    assignments,
    constants,
    parse,
    plain,
    seconds_of,
    value_of,
)
from tocsin.cli.importing.reading import Found, Left, Reading, Unfit, left_of, named_apart
from tocsin.domain.cron import Cron, Dst
from tocsin.domain.errors import Refused

_SCHEDULES: Final = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES: Final = ("timezone", "CELERY_TIMEZONE", "TIME_ZONE")
_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_PERIODS: Final = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1, "microseconds": 1e-6}
_SUN: Final = "the sun's rise and fall are no schedule of Tocsin"
_CLOCKS: Final = (
    "where clocks go forward, what they skip fires at the end of the gap here, and in beat as much later"
)
_INTERVALS: Final = "intervals count from the epoch, not from the last run"


def read_beat(text: str, *, time_zone: str | None) -> Reading:
    """The entries of a module, or of a dump in JSON."""
    if text.lstrip().startswith("["):
        return _Dump(text, time_zone).reading()
    return _module(text, time_zone)


def crontab_schedule(fields: Mapping[str, Any], time_zone: str | None) -> dict[str, Any]:
    """A crontab of celery as a schedule."""
    minute, hour, days, dates, months = (_written(fields.get(name, "*")) for name in _FIELDS)
    date, day = both_days(values(dates, 1, 31), weekdays_of(days))
    hourly = len(values(hour, 0, 23)) == 24
    if time_zone and not hourly:  # a fixed time, so that what clocks skip is made up for
        minute = "0-59" if minute in ("*", "*/1") else unstarred(minute, "0-59")
        hour = unstarred(hour, "0-23")
    cron = f"{minute} {hour} {date} {listed(values(months, 1, 12, month), 12)} {day}"
    Cron.parse(cron, "schedule")
    return zoned(cron, time_zone, Dst.ONCE if hourly else Dst.CRON)


def interval_schedule(seconds: float) -> dict[str, Any]:
    """An interval."""
    if seconds < 1:
        raise Unfit("the shortest interval is a second")
    return {"every": int(seconds) if seconds == int(seconds) else seconds}


def task_target(task: Any, args: Any, kwargs: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A task under its celery name. A payload names its arguments, so positional ones are kept as a list."""
    if not isinstance(task, str) or not task:
        raise Unfit("it names no task")
    if not (plain(args) and plain(kwargs)):
        raise Unfit("its arguments are more than values", "write them as literals")
    notes = [f"needs a remote worker with the task {task}"]
    payload = dict(kwargs or {})
    if args:
        payload["args"] = list(args)
        notes.append("positional arguments are given as the parameter args")
    target: dict[str, Any] = {"kind": "task", "task": task} | ({"payload": payload} if payload else {})
    return target, tuple(notes)


def _written(field: Any) -> str:
    if isinstance(field, list):
        return ",".join(str(one) for one in field)
    if isinstance(field, Unread):
        raise Unfit(f"{field.text} is more than a value")
    return str(field).replace(" ", "")


def _module(text: str, time_zone: str | None) -> Reading:
    tree = parse(text)
    names = constants(tree)
    zone = time_zone or next((value_of(names[name], names) for name in _ZONES if name in names), None)
    found: list[Found] = []
    left: list[Left] = []
    schedules = [(node, line) for name, node, line in assignments(tree) if name in _SCHEDULES]
    for node, line in schedules:
        entries = value_of(node, names)
        if not isinstance(entries, dict):
            left.append(Left(f"line {line}", "beat_schedule", "it is not written as a dict"))
            continue
        for name, entry in entries.items():
            try:
                found.append(_entry(str(name), entry, zone if isinstance(zone, str) else None))
            except (Unfit, Refused) as error:
                left.append(left_of(f"entry {name}", str(name), error))
    nothing = () if schedules else ("no beat_schedule was found in the module",)
    return Reading(named_apart(found), tuple(left), (*nothing, *clock_notes(found, _CLOCKS)))


def _entry(name: str, entry: Any, time_zone: str | None) -> Found:
    if not isinstance(entry, dict):
        raise Unfit("it is not written as a dict")
    target, notes = task_target(entry.get("task"), entry.get("args", ()) or [], entry.get("kwargs") or {})
    schedule = entry.get("schedule")
    if (seconds := seconds_of(schedule)) is not None:
        written, notes = interval_schedule(seconds), (*notes, _INTERVALS)
    elif isinstance(schedule, Call) and schedule.name == "schedule":
        seconds = seconds_of(schedule.named.get("run_every", *schedule.args[:1]))
        if seconds is None:
            raise Unfit("its interval is more than a value")
        written, notes = interval_schedule(seconds), (*notes, _INTERVALS)
    elif isinstance(schedule, Call) and schedule.name == "crontab":
        written = crontab_schedule(
            dict(zip(_FIELDS, schedule.args, strict=False)) | schedule.named, time_zone
        )
    elif isinstance(schedule, Call) and schedule.name == "solar":
        raise Unfit(_SUN)
    else:
        raise Unfit("its schedule is neither a crontab nor an interval")
    job: dict[str, Any] = {"schedule": written, "target": target}
    options = entry.get("options")
    if isinstance(options, dict):
        job |= _options(options)
    return Found(f"entry {name}", name, job, notes)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    job: dict[str, Any] = {}
    if isinstance(queue := options.get("queue"), str):
        job["queue"] = queue
    if isinstance(expires := options.get("expires"), int | float) and expires >= 1:
        job["start_within"] = expires
    return job


class _Dump:
    """Rows of django-celery-beat, by model and key."""

    def __init__(self, text: str, time_zone: str | None) -> None:
        self._zone = time_zone
        try:
            rows = json.loads(text)
            self._rows = {
                (row["model"].rpartition(".")[2], row["pk"]): row["fields"] for row in rows if "fields" in row
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Unfit(f"not a dump of django_celery_beat: {error}") from None

    def reading(self) -> Reading:
        found, left = [], []
        for (model, _), row in self._rows.items():
            if model != "periodictask" or row.get("task") == "celery.backend_cleanup":
                continue
            name = str(row.get("name") or "task")
            try:
                found.append(self._job(name, row))
            except (Unfit, Refused) as error:
                left.append(left_of(f"entry {name}", name, error))
        return Reading(named_apart(found), tuple(left), clock_notes(found, _CLOCKS))

    def _job(self, name: str, row: Mapping[str, Any]) -> Found:
        target, notes = task_target(row.get("task"), _json(row.get("args"), []), _json(row.get("kwargs"), {}))
        schedule, more = self._schedule(row)
        job: dict[str, Any] = {"schedule": schedule, "target": target}
        if row.get("description"):
            job["description"] = str(row["description"])[:2000]
        if "at" not in schedule:
            job["schedule"] |= {"starts_at": row["start_time"]} if row.get("start_time") else {}
            job["schedule"] |= {"ends_at": row["expires"]} if row.get("expires") else {}
            job["schedule"] |= {"max_fires": 1} if row.get("one_off") else {}
        job |= _options({"queue": row.get("queue"), "expires": row.get("expire_seconds")})
        return Found(f"entry {name}", name, job, (*notes, *more), suspended=row.get("enabled") is False)

    def _schedule(self, row: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        if row.get("crontab") is not None:
            fields = self._row("crontabschedule", row["crontab"])
            return crontab_schedule(fields, fields.get("timezone") or self._zone), ()
        if row.get("interval") is not None:
            fields = self._row("intervalschedule", row["interval"])
            return interval_schedule(float(fields["every"]) * _PERIODS[fields["period"]]), (_INTERVALS,)
        if row.get("clocked") is not None:
            return {"at": self._row("clockedschedule", row["clocked"])["clocked_time"]}, ()
        raise Unfit(_SUN if row.get("solar") is not None else "it has no schedule")

    def _row(self, model: str, key: Any) -> Mapping[str, Any]:
        row: Mapping[str, Any] | None = self._rows.get((model, key))
        if row is None:
            raise Unfit(
                f"the dump has no {model} {key}", "dump the whole app: manage.py dumpdata django_celery_beat"
            )
        return row


def _json(text: Any, otherwise: Any) -> Any:
    try:
        return json.loads(text) if text else otherwise
    except (ValueError, TypeError):
        raise Unfit("its arguments are not JSON") from None
