"""What a user may have meant by a field or a value that does not exist.

First what users of other schedulers write, which no likeness would find: `run_at`, `cron_expr`,
`max_retries`. Then the nearest of the names or values that are possible at that place, as the types of the
API know them.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from msgspec import inspect

from tocsin.domain.policy import Misfire, Retry
from tocsin.domain.schedule import Schedule

_PART: Final = re.compile(r"[^.\[\]]+|\[[^\]]*\]")
_MOST_LISTED: Final = 12
_AT: Final = 'schedule: {"at": …} fires once at an instant'
_CRON: Final = 'schedule: {"cron": …} fires by a cron expression'
_EVERY: Final = 'schedule: {"every": …} fires again and again'
_IN: Final = 'schedule: {"in": …} fires once after a while'
_ZONE: Final = "schedule.time_zone is the zone of a cron schedule"
_ATTEMPTS: Final = "retry.max_attempts counts all attempts, the first one too"
_URL: Final = 'target: {"kind": "http", "url": …} is what is called'
_TASK: Final = 'target: {"kind": "task", "task": …, "payload": …} runs a function of yours'
_OVERLAP: Final = (
    "overlap says what happens while an earlier execution runs: allow, skip, queue, collapse, replace"
)
_PAUSED: Final = "create the job, then pause it: POST /v1/jobs/{job_id}/pause"
_OF_JOBS: Final = {
    "runat": _AT, "at": _AT, "executeat": _AT, "scheduledfor": _AT, "scheduledtime": _AT, "startat": _AT, "eta": _AT,
    "cron": _CRON, "cronexpr": _CRON, "cronexpression": _CRON, "crontab": _CRON, "expression": _CRON,
    "every": _EVERY, "interval": _EVERY, "repeat": _EVERY, "rate": _EVERY,
    "in": _IN, "delay": _IN, "countdown": _IN, "now": 'schedule: {"now": true} fires at once',
    "timezone": _ZONE, "tz": _ZONE,
    "maxretries": _ATTEMPTS, "retries": _ATTEMPTS, "maxattempts": _ATTEMPTS, "attempts": _ATTEMPTS,
    "backofflimit": _ATTEMPTS, "retrypolicy": "retry is the retry policy", "backoff": "retry.initial_backoff and retry.max_backoff",
    "url": _URL, "endpoint": _URL, "webhook": _URL, "callback": _URL, "callbackurl": _URL, "uri": _URL, "method": _URL,
    "headers": _URL, "body": _URL, "http": _URL,
    "task": _TASK, "func": _TASK, "function": _TASK, "handler": _TASK, "args": _TASK, "kwargs": _TASK, "payload": _TASK,
    "concurrencypolicy": _OVERLAP, "maxinstances": _OVERLAP, "coalesce": "misfire.policy says which missed fires run",
    "startingdeadlineseconds": "start_within bounds the wait for a start",
    "expires": "start_within bounds the wait for a start", "ttl": "start_within bounds the wait for a start",
    "misfiregracetime": "misfire.grace is how late a fire counts as missed",
    "suspend": _PAUSED, "paused": _PAUSED, "enabled": _PAUSED, "labels": "tags are words that jobs are found by",
    "concurrency": "limit: {key, max_parallel} bounds what runs at once", "id": "ids are made by Tocsin; name is yours",
}  # fmt: skip
_OF_OTHERS: Final[dict[str, dict[str, str]]] = {
    Schedule.__name__: {
        "timezone": "time_zone", "tz": "time_zone", "expression": "cron", "expr": "cron", "cronexpr": "cron",
        "cronexpression": "cron", "crontab": "cron", "interval": "every", "seconds": "every", "runat": "at",
        "time": "at", "datetime": "at", "delay": "in", "countdown": "in", "start": "starts_at", "startdate": "starts_at",
        "startsat": "starts_at", "end": "ends_at", "enddate": "ends_at", "until": "ends_at", "count": "max_fires",
        "repeatcount": "max_fires", "limit": "max_fires",
    },
    Retry.__name__: {
        "maxretries": "max_attempts", "retries": "max_attempts", "attempts": "max_attempts", "limit": "max_attempts",
        "backoff": "initial_backoff", "delay": "initial_backoff", "initialinterval": "initial_backoff",
        "minbackoff": "initial_backoff", "maxdelay": "max_backoff", "maximuminterval": "max_backoff",
        "factor": "multiplier", "coefficient": "multiplier", "backoffcoefficient": "multiplier",
    },
    Misfire.__name__: {"gracetime": "grace", "misfiregracetime": "grace", "strategy": "policy"},
}  # fmt: skip


def for_field(kind: Any, place: str, unknown: str) -> str | None:
    """A hint about a field that the object at `place` does not have."""
    here = list(_at(kind, place))
    structs = [one for one in here if isinstance(one, inspect.StructType)]
    said = _plain(unknown)
    for one in structs:
        if _is_job(one) and said in _OF_JOBS:
            return _OF_JOBS[said]
        if (meant := _OF_OTHERS.get(one.cls.__name__, {}).get(said)) is not None:
            return f"did you mean {meant}?"
    owners = [one for one in structs if any(field.encode_name == unknown for field in one.fields)]
    if owners:
        return f"only a target of kind {' or '.join(str(one.tag) for one in owners)} has it"
    names = sorted({field.encode_name for one in structs for field in one.fields})
    return nearest(unknown, names)


def for_value(kind: Any, place: str, wrong: str) -> str | None:
    """A hint about a value that is none of those that are possible at `place`."""
    names: list[str] = []
    *_, last = ["", *_PART.findall(place)]
    owner = place[: -len(last)].rstrip(".") if last else place
    for one in (*_at(kind, place), *_at(kind, owner)):
        if isinstance(one, inspect.EnumType):
            names += [str(member.value) for member in one.cls]
        elif isinstance(one, inspect.LiteralType):
            names += [str(value) for value in one.values]
        elif isinstance(one, inspect.StructType) and one.tag_field == last:
            names.append(str(one.tag))
    return nearest(wrong, list(dict.fromkeys(names)), listed=True)


def nearest(word: str, names: list[str], *, listed: bool = False) -> str | None:
    """A hint that names the nearest of these, or, where that is `listed`, all of a few."""
    shapes = {_plain(name): name for name in names}
    close = get_close_matches(_plain(word), shapes, n=1, cutoff=0.65)
    if close:
        return f"did you mean {shapes[close[0]]}?"
    return f"possible are {', '.join(names)}" if listed and 0 < len(names) <= _MOST_LISTED else None


def _plain(word: str) -> str:
    """A word without what writers of other languages do differently: case, dashes, underscores."""
    return re.sub(r"[_\-\s]", "", word[:64]).lower()


def _is_job(one: inspect.StructType) -> bool:
    return {"schedule", "target"} <= {field.name for field in one.fields}


def _at(kind: Any, place: str) -> Iterator[inspect.Type]:
    """The types of what stands at a place of a body of this type."""
    try:
        here = [_type_info(kind)]
    except TypeError:
        return
    for part in _PART.findall(place):
        here = [
            inner
            for one in here
            for alternative in _alternatives(one)
            for inner in _inside(alternative, part)
        ]
    yield from (alternative for one in here for alternative in _alternatives(one))


@lru_cache(maxsize=256)
def _type_info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _alternatives(one: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(one, inspect.Metadata):
        yield from _alternatives(one.type)
    elif isinstance(one, inspect.UnionType):
        for inner in one.types:
            yield from _alternatives(inner)
    else:
        yield one


def _inside(one: inspect.Type, part: str) -> Iterator[inspect.Type]:
    if part.startswith("["):
        if isinstance(one, inspect.CollectionType):
            yield one.item_type
        elif isinstance(one, inspect.DictType):
            yield one.value_type
    elif isinstance(one, inspect.StructType):
        yield from (field.type for field in one.fields if field.encode_name == part)
    elif isinstance(one, inspect.DictType):
        yield one.value_type
