"""Quartz: a `job-scheduling-data` file (XML) with jobs and their cron, simple and calendar triggers.

Each trigger becomes a job of its own, which runs a task under the name of the job's class with the merged
data map as its payload.
"""

from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree as ET

from tocsin.cli.importing.fields import clock_notes
from tocsin.cli.importing.quartz_cron import quartz_schedule
from tocsin.cli.importing.reading import Found, Left, Reading, Unfit, left_of, named_apart
from tocsin.domain.errors import Refused

_UNITS: Final = {"SECOND": "s", "MINUTE": "m", "HOUR": "h", "DAY": "d", "WEEK": "w"}
_MISFIRE: Final = {"MISFIRE_INSTRUCTION_DO_NOTHING": "skip", "MISFIRE_INSTRUCTION_FIRE_ONCE_NOW": "fire_once"}

_CLOCKS: Final = (
    "where clocks go back, what they repeat fires the first time here, and the second time in Quartz"
)


def read_quartz(text: str, *, time_zone: str | None) -> Reading:
    """The triggers of a file."""
    try:
        root = ET.fromstring(text)  # noqa: S314 - a file of the user's own, and the parser bounds expansions
    except ET.ParseError as error:
        raise Unfit(f"not XML: {error}") from None
    jobs = {_key(job): job for job in _all(root, "job")}
    found: list[Found] = []
    left: list[Left] = []
    for trigger in _all(root, "trigger"):
        for one in trigger:
            name = _text(one, "name") or "trigger"
            try:
                found.append(_job(one, name, jobs, time_zone))
            except (Unfit, Refused) as error:
                left.append(left_of(f"trigger {name}", _text(one, "cron-expression") or _tag(one), error))
    return Reading(named_apart(found), tuple(left), clock_notes(found, _CLOCKS))


def _job(trigger: ET.Element, name: str, jobs: dict[tuple[str, str], ET.Element], zone: str | None) -> Found:
    key = _text(trigger, "job-group") or "DEFAULT", _text(trigger, "job-name") or ""
    job = jobs.get(key)
    task = (_text(job, "job-class") or key[1]) if job is not None else key[1]
    payload = (_data(job) if job is not None else {}) | _data(trigger)
    target = {"kind": "task", "task": task} | ({"payload": payload} if payload else {})
    body: dict[str, Any] = {"schedule": _schedule(trigger, zone), "target": target}
    if policy := _MISFIRE.get(_text(trigger, "misfire-instruction") or ""):
        body["misfire"] = policy
    if description := _text(trigger, "description") or (
        _text(job, "description") if job is not None else None
    ):
        body["description"] = description[:2000]
    return Found(f"trigger {name}", name, body, (f"needs a remote worker with the task {task}",))


def _schedule(trigger: ET.Element, zone: str | None) -> dict[str, Any]:
    window = {
        ours: _instant(text)
        for ours, theirs in (("starts_at", "start-time"), ("ends_at", "end-time"))
        if (text := _text(trigger, theirs))
    }
    match _tag(trigger):
        case "cron":
            text = _text(trigger, "cron-expression") or ""
            return quartz_schedule(text, _text(trigger, "time-zone") or zone, seconds=True) | window
        case "simple":
            repeats = int(_text(trigger, "repeat-count") or 0)
            interval = int(_text(trigger, "repeat-interval") or 0)
            if repeats == 0:
                raise Unfit("it fires once", "create it by hand: tocsin jobs create --at")
            most = {"max_fires": repeats + 1} if repeats > 0 else {}
            return {"every": f"{interval}ms"} | window | most
        case "calendar-interval":
            unit = _UNITS.get(_text(trigger, "repeat-interval-unit") or "")
            if unit is None:
                raise Unfit("its interval is in months or years", "write it as a cron expression")
            return {"every": f"{_text(trigger, 'repeat-interval')}{unit}"} | window
    raise Unfit(f"{_tag(trigger)} triggers have nothing like them here")


def _instant(text: str) -> str:
    return text if text.endswith("Z") or "+" in text else f"{text}Z"


def _data(element: ET.Element) -> dict[str, str]:
    return {
        key: _text(entry, "value") or "" for entry in _all(element, "entry") if (key := _text(entry, "key"))
    }


def _key(job: ET.Element) -> tuple[str, str]:
    return _text(job, "group") or "DEFAULT", _text(job, "name") or ""


def _all(element: ET.Element, tag: str) -> Iterator[ET.Element]:
    return (one for one in element.iter() if _tag(one) == tag)


def _text(element: ET.Element, tag: str) -> str | None:
    found = next((one for one in element if _tag(one) == tag), None)
    return None if found is None or found.text is None else found.text.strip()


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
