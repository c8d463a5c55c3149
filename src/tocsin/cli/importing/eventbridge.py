"""Schedules of EventBridge Scheduler: what `aws scheduler get-schedule` answers, one of them or a list.

What they call (a function, a queue of the provider) cannot be called from here, so each becomes a task under
the name of what it called, with its input as the payload.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tocsin.cli.importing.quartz_cron import quartz_schedule
from tocsin.cli.importing.reading import Found, Reading, Unfit, left_of, named_apart
from tocsin.domain.errors import Refused
from tocsin.domain.schedule import zone_of

_EXPRESSION: Final = re.compile(r"(cron|rate|at)\((.*)\)")
_RATE: Final = re.compile(r"(\d+) (minute|hour|day)s?")
_UNITS: Final = {"minute": "m", "hour": "h", "day": "d"}
_NOT_OF_A_TASK: Final = re.compile(r"[^A-Za-z0-9_.:-]+")


def read_schedules(text: str) -> Reading:
    """The schedules of a JSON document."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unfit(f"not JSON: {error}") from None
    found, left = [], []
    for one in _schedules(document):
        name = _name(one)
        try:
            found.append(_job(one, name))
        except (Unfit, Refused) as error:
            left.append(left_of(f"schedule {name}", str(one.get("ScheduleExpression", "")), error))
    return Reading(named_apart(found), tuple(left))


def _schedules(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, list):
        for one in document:
            yield from _schedules(one)
    elif isinstance(document, Mapping):
        if isinstance(document.get("Schedules"), list):
            yield from _schedules(document["Schedules"])
        else:
            yield document


def _name(one: Mapping[str, Any]) -> str:
    name, group = str(one.get("Name") or "schedule"), one.get("GroupName")
    return f"{group}/{name}" if group and group != "default" else name


def _job(one: Mapping[str, Any], name: str) -> Found:
    if "ScheduleExpression" not in one:
        raise Unfit(
            "it has no ScheduleExpression", "list-schedules leaves it out: get each with get-schedule"
        )
    schedule, notes = _schedule(str(one["ScheduleExpression"]), one.get("ScheduleExpressionTimezone"))
    if "at" not in schedule:
        schedule |= {"starts_at": _instant(one["StartDate"])} if one.get("StartDate") else {}
        schedule |= {"ends_at": _instant(one["EndDate"])} if one.get("EndDate") else {}
        window = one.get("FlexibleTimeWindow") or {}
        if window.get("Mode") == "FLEXIBLE":
            schedule["jitter"] = f"{int(window.get('MaximumWindowInMinutes', 1))}m"
            notes.append("its flexible window became a jitter: always the same offset in it")
        if "every" in schedule and "starts_at" not in schedule:
            notes.append("without a StartDate its interval counts from the epoch")
    target = one.get("Target") or {}
    work, task = _work(target)
    notes.append(f"needs a remote worker with the task {task}")
    job: dict[str, Any] = {"schedule": schedule, "target": work} | _retries(target.get("RetryPolicy") or {})
    if one.get("Description"):
        job["description"] = str(one["Description"])[:2000]
    return Found(f"schedule {name}", name, job, tuple(notes), suspended=one.get("State") == "DISABLED")


def _schedule(text: str, time_zone: str | None) -> tuple[dict[str, Any], list[str]]:
    found = _EXPRESSION.fullmatch(text.strip())
    if found is None:
        raise Unfit(f"{text!r} is neither cron(…), rate(…) nor at(…)")
    kind, inner = found[1], found[2].strip()
    if kind == "cron":
        return quartz_schedule(inner, time_zone, seconds=False), []
    if kind == "rate":
        rate = _RATE.fullmatch(inner)
        if rate is None:
            raise Unfit(f"{text!r} is not a rate in minutes, hours or days")
        return {"every": f"{rate[1]}{_UNITS[rate[2]]}"}, []
    local = datetime.fromisoformat(inner).replace(tzinfo=zone_of(time_zone or "UTC"))
    return {"at": local.isoformat()}, []


def _instant(value: Any) -> str:
    moment = (
        datetime.fromtimestamp(value, UTC)
        if isinstance(value, int | float)
        else datetime.fromisoformat(str(value))
    )
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _work(target: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    arn = str(target.get("Arn") or "")
    if not arn:
        raise Unfit("it names no target")
    task = _NOT_OF_A_TASK.sub("-", re.split(r"[:/]", arn)[-1]).strip("-.:") or "task"
    text = target.get("Input")
    try:
        payload = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        payload = text
    return {"kind": "task", "task": task} | ({} if payload is None else {"payload": payload}), task


def _retries(policy: Mapping[str, Any]) -> dict[str, Any]:
    most = policy.get("MaximumRetryAttempts")
    return {} if most is None else {"retry": {"max_attempts": min(100, int(most) + 1)}}
