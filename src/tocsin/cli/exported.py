"""Jobs as a user would write them: from what the API answers to what it takes, without defaults."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tocsin.cli.client import Client
from tocsin.domain.job import DEFAULT_PRIORITY, DEFAULT_QUEUE
from tocsin.domain.policy import Limit, Misfire, Retry
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import Target

_PAGE: Final = 500
_TYPED: Final[dict[str, Any]] = {
    "schedule": Schedule, "target": Target, "retry": Retry, "misfire": Misfire, "limit": Limit,
}  # fmt: skip
_DEFAULTS: Final = {
    "queue": DEFAULT_QUEUE, "priority": DEFAULT_PRIORITY, "tags": [], "overlap": "allow", "precision": "normal",
    "description": None, "timeout": None, "start_within": None, "pause_after": None,
}  # fmt: skip
_ORDER: Final = (
    "name", "description", "schedule", "target", "queue", "priority", "tags", "timeout", "start_within", "retry",
    "misfire", "overlap", "limit", "precision", "pause_after",
)  # fmt: skip


def exported_jobs(client: Client, owner: str | None, tag: str | None) -> list[dict[str, Any]]:
    """The recurring jobs of an owner, or of none, that are active or paused, by name."""
    found = [as_written(job) for job in _jobs(client, tag) if job["managed_by"] == owner]
    return sorted(found, key=lambda job: str(job["name"]))


def as_written(job: dict[str, Any]) -> dict[str, Any]:
    """A job's definition in the fewest words. What this version does not know stays as it is."""
    written = {}
    for name in _ORDER:
        value = job.get(name)
        if name in _TYPED and value is not None:
            value = _shortest(value, _TYPED[name])
        if value != _DEFAULTS.get(name) and value not in (None, {}):
            written[name] = value
    return written


def _shortest(value: Any, kind: Any) -> Any:
    try:
        return _without_defaults(msgspec.convert(value, kind))
    except msgspec.ValidationError:
        return value


def _without_defaults(value: Any) -> Any:
    """Plain values, without fields that have their default. The encoder leaves out only what is the very same
    object."""
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        said = {} if tag is None else {str(value.__struct_config__.tag_field): tag}
        for field in msgspec.structs.fields(value):
            one = getattr(value, field.name)
            default = field.default_factory() if callable(field.default_factory) else field.default
            if one != default:
                said[field.encode_name] = _without_defaults(one)
        return said
    if isinstance(value, list | tuple):
        return [_without_defaults(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_defaults(one) for name, one in value.items()}
    return msgspec.to_builtins(value)


def _jobs(client: Client, tag: str | None) -> Iterator[dict[str, Any]]:
    for state in ("active", "paused"):
        cursor = None
        while True:
            page = client.get("jobs", kind="recurring", state=state, tag=tag, limit=_PAGE, cursor=cursor)
            yield from (job for job in page["items"] if job["name"] is not None)
            cursor = page["next_cursor"]
            if cursor is None:
                break
