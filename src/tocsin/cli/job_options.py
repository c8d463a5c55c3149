"""The options that define a job, and the request bodies they describe.

`jobs create` and `jobs put` write a whole definition; `jobs update` only what changes. The API replaces
nested objects whole, so a change is first put into the job's own: naming a lookback must not reset the
misfire policy.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import click

from tocsin.cli.schedule_options import (
    SCHEDULE_OPTIONS,
    Decorator,
    Options,
    changed_schedule,
    given,
    says_when,
    written_schedule,
)
from tocsin.domain.policy import MisfirePolicy, Overlap, Precision

NAME_OPTION: Final = click.option("--name", help="A name; unique among recurring jobs.")
TARGET_OPTIONS: Final[tuple[Decorator, ...]] = (
    click.option("--target-url", metavar="URL", help="Call this HTTP target.  (--noop for none)"),
    click.option("--task", metavar="NAME", help="Run this task on a remote worker that serves it."),
    click.option(
        "--payload", metavar="JSON", help="The task's payload: JSON if it parses as JSON, else text."
    ),
    click.option("--method", help="HTTP method.  [default: POST]"),
    click.option(
        "--header", "headers", multiple=True, metavar="NAME:VALUE", help="HTTP header; may be repeated."
    ),
    click.option("--body", help="HTTP body: JSON if it parses as JSON, else text."),
    click.option(
        "--target-timeout",
        metavar="DURATION",
        help="How long the HTTP call may take; --timeout can only shorten it.",
    ),
    click.option(
        "--expect",
        multiple=True,
        metavar="STATUS",
        help="What counts as success; may be repeated.  [default: 2xx]",
    ),
    click.option(
        "--bearer-secret", metavar="SECRET", help="Send the value of this secret as a bearer token."
    ),
    click.option("--auth", metavar="JSON", help='Credentials as the API takes them: {"kind": "oauth2", …}'),
    click.option(
        "--client-certificate",
        metavar="SECRET",
        help="Connect with the TLS certificate and key that this secret holds.",
    ),
    click.option("--noop", is_flag=True, help="Do nothing and succeed, for trying things out."),
    click.option(
        "--template", is_flag=True, help="Fill in {fire_at}, {execution}, {attempt}, {job} and {name}."
    ),
    click.option("--target", metavar="JSON", help='A target of any kind, as the API takes it: {"kind": …}'),
)
JOB_OPTIONS: Final[tuple[Decorator, ...]] = (
    click.option("--description", help="What it is for."),
    *SCHEDULE_OPTIONS,
    *TARGET_OPTIONS,
    click.option("--timeout", metavar="DURATION", help="How long an attempt may take.  [default: 30s]"),
    click.option(
        "--start-within",
        metavar="DURATION",
        help="Expire executions that have not started this long after they were due.",
    ),
    click.option("--queue", help="Queue.  [default: default]"),
    click.option("--priority", type=click.IntRange(0, 9), help="0 is the most urgent.  [default: 5]"),
    click.option("--tag", "tags", multiple=True, help="Tag; may be repeated."),
    click.option("--max-attempts", type=int, metavar="N", help="Attempts in all.  [default: 5]"),
    click.option(
        "--initial-backoff",
        metavar="DURATION",
        help="The wait after the first failed attempt.  [default: 1s]",
    ),
    click.option(
        "--max-backoff", metavar="DURATION", help="The longest wait between attempts.  [default: 5m]"
    ),
    click.option("--backoff-multiplier", type=float, help="Factor from each wait to the next.  [default: 2]"),
    click.option("--backoff-jitter", type=float, help="Random share of each wait, 0 to 1.  [default: 0.5]"),
    click.option(
        "--retry-max-age",
        metavar="DURATION",
        help="No retry begins later than this after the execution was due: 2h",
    ),
    click.option(
        "--retry-on",
        multiple=True,
        metavar="WHAT",
        help="Which failures are retried: network, timeout, a status such as 404 or 5xx; may be repeated.",
    ),
    click.option(
        "--misfire",
        type=click.Choice([str(one) for one in MisfirePolicy]),
        help="Which missed fires still run.  [default: fire_once]",
    ),
    click.option(
        "--lookback", metavar="DURATION", help="Missed fires older than this never run.  [default: 1h]"
    ),
    click.option(
        "--misfire-grace",
        metavar="DURATION",
        help="A fire that has not started this long after its instant was missed.  [default: 1m]",
    ),
    click.option(
        "--misfire-max",
        type=int,
        metavar="N",
        help="The most missed fires that fire_all runs.  [default: 100]",
    ),
    click.option(
        "--misfire-pace", metavar="DURATION", help="The time between missed fires that run.  [default: 0s]"
    ),
    click.option(
        "--overlap",
        type=click.Choice([str(one) for one in Overlap]),
        help="What to do while an earlier execution runs.  [default: allow]",
    ),
    click.option(
        "--precision",
        type=click.Choice([str(one) for one in Precision]),
        help="exact aims below a millisecond; what is cancelled later than 500 ms before may fire.  [default: normal]",
    ),
    click.option("--limit-key", metavar="KEY", help="Share a limit with all jobs that name this key."),
    click.option(
        "--pause-after",
        type=int,
        metavar="N",
        help="Pause the job after this many failures for good in a row.",
    ),
    click.option("--limit-parallel", type=int, metavar="N", help="The most executions of the key at once."),
    click.option("--limit-rate", type=int, metavar="N", help="The most starts of the key per --limit-per."),
    click.option("--limit-per", metavar="DURATION", help="The period of --limit-rate.  [default: 1s]"),
)

# Where an option's value belongs in the body.
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name",),
    "description": ("description",),
    "queue": ("queue",),
    "priority": ("priority",),
    "tags": ("tags",),
    "timeout": ("timeout",),
    "start_within": ("start_within",),
    "overlap": ("overlap",),
    "precision": ("precision",),
    "pause_after": ("pause_after",),
    "idempotency_key": ("idempotency_key",),
    "unique": ("unique",),
    "debounce": ("debounce",),
    "max_wait": ("max_wait",),
    "max_attempts": ("retry", "max_attempts"),
    "initial_backoff": ("retry", "initial_backoff"),
    "max_backoff": ("retry", "max_backoff"),
    "backoff_multiplier": ("retry", "multiplier"),
    "backoff_jitter": ("retry", "jitter"),
    "retry_max_age": ("retry", "max_age"),
    "retry_on": ("retry", "on"),
    "misfire": ("misfire", "policy"),
    "lookback": ("misfire", "lookback"),
    "misfire_grace": ("misfire", "grace"),
    "misfire_max": ("misfire", "max"),
    "misfire_pace": ("misfire", "pace"),
    "limit_key": ("limit", "key"),
    "limit_parallel": ("limit", "max_parallel"),
    "limit_rate": ("limit", "rate"),
    "limit_per": ("limit", "per"),
    "target_url": ("target", "url"),
    "method": ("target", "method"),
    "headers": ("target", "headers"),
    "body": ("target", "body"),
    "task": ("target", "task"),
    "payload": ("target", "payload"),
    "target_timeout": ("target", "timeout"),
    "expect": ("target", "expect"),
    "bearer_secret": ("target", "auth"),
    "auth": ("target", "auth"),
    "client_certificate": ("target", "tls"),
    "template": ("target", "template"),
}

# What an update can take away, and where it is.
_CLEARABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name",),
    "description": ("description",),
    "timeout": ("timeout",),
    "start-within": ("start_within",),
    "pause-after": ("pause_after",),
    "retry-max-age": ("retry", "max_age"),
    "tags": ("tags",),
    "limit": ("limit",),
    "headers": ("target", "headers"),
    "body": ("target", "body"),
    "payload": ("target", "payload"),
    "target-timeout": ("target", "timeout"),
    "expect": ("target", "expect"),
    "auth": ("target", "auth"),
    "client-certificate": ("target", "tls"),
    "template": ("target", "template"),
    "time-zone": ("schedule", "time_zone"),
    "dst": ("schedule", "dst"),
    "starts-at": ("schedule", "starts_at"),
    "ends-at": ("schedule", "ends_at"),
    "max-fires": ("schedule", "max_fires"),
    "jitter": ("schedule", "jitter"),
    "exclude": ("schedule", "exclude"),
}
CLEAR_OPTION: Final = click.option(
    "--clear",
    multiple=True,
    type=click.Choice(list(_CLEARABLE)),
    metavar="WHAT",
    help=f"Remove this; may be repeated. One of: {', '.join(_CLEARABLE)}.",
)


def new_job(options: Options) -> dict[str, Any]:
    """The whole definition. The API checks it; here only what it could not see is refused."""
    return {"schedule": written_schedule(options)} | new_target(options)


def new_target(options: Options) -> dict[str, Any]:
    """What the options say beside the schedule; a target is among it."""
    kind = _kind_of(options)
    if kind is None:
        raise click.UsageError("give --target-url, --task or --target, or --noop to try things out")
    body: dict[str, Any] = {"target": _whole_target(options) or {"kind": kind}}
    _put(body, options)
    return body


def changes(current: Mapping[str, Any], options: Options, clear: Sequence[str]) -> dict[str, Any]:
    """The fields of a job that the options change, each as a whole."""
    kind = _kind_of(options)
    job = deepcopy(dict(current))
    touched = {_take_away(job, _CLEARABLE[name]) for name in clear}
    if whole := _whole_target(options):
        job["target"] = whole
        touched.add("target")
    elif kind == "noop" or (kind is not None and job["target"]["kind"] != kind):
        job["target"] = {"kind": kind}
        touched.add("target")
    touched |= _put(job, options)
    if says_when(options):
        job["schedule"] = changed_schedule(job["schedule"], options)
        touched.add("schedule")
    if not touched:
        raise click.UsageError("nothing to change; name at least one option, see --help")
    return {name: job[name] for name in sorted(touched)}


def _kind_of(options: Options) -> str | None:
    """The kind of target that the options name, if they name one."""
    whole = _whole_target(options)
    kinds = {"http": options["target_url"], "task": options["task"], "noop": options["noop"]}
    named = [kind for kind, given_for in kinds.items() if given_for] + ([str(whole["kind"])] if whole else [])
    if len(named) > 1:
        raise click.UsageError("give one of --target-url, --task, --target and --noop")
    return named[0] if named else None


def _whole_target(options: Options) -> dict[str, Any] | None:
    """The target that is written out, if one is."""
    if options["target"] is None:
        return None
    target = _json_or_text(options["target"])
    if not isinstance(target, dict) or "kind" not in target:
        raise click.UsageError('--target is a JSON object such as {"kind": "http", "url": …}')
    return target


def _put(body: dict[str, Any], options: Options) -> set[str]:
    """Put the values of the options where they belong. Returns which fields of the body that touched."""
    if options.get("auth") and options.get("bearer_secret"):
        raise click.UsageError("give --auth or --bearer-secret, not both")
    used = {name: place for name, place in _PLACES.items() if given(options.get(name))}
    for name, (field, *rest) in used.items():
        value = _READ.get(name, lambda same: same)(options[name])
        if rest:
            body[field] = (body.get(field) or {}) | {rest[0]: value}
        else:
            body[field] = value
    return {place[0] for place in used.values()}


def _take_away(job: dict[str, Any], place: Sequence[str]) -> str:
    field, *rest = place
    if rest:
        for part in (job[field], *job[field].get("any_of", ())):
            part.pop(rest[0], None)
    else:
        job[field] = [] if field == "tags" else None
    return field


def _headers(texts: Sequence[str]) -> dict[str, str]:
    return dict(_header(text) for text in texts)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError(f"--header {text!r} has no colon; write NAME:VALUE")
    return name.strip(), value.strip()


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except ValueError:
        return text
    except RecursionError:
        raise click.UsageError("the JSON is nested too deeply") from None


def _not_json(constant: str) -> None:
    """NaN and Infinity are Python's idea of JSON, not the standard's."""
    raise ValueError(constant)


def _auth(text: str) -> Any:
    value = _json_or_text(text)
    if not isinstance(value, dict):
        raise click.UsageError(
            '--auth is a JSON object such as {"kind": "basic", "username": …, "password": …}'
        )
    return value


def _bearer(secret: str) -> dict[str, Any]:
    return {"kind": "bearer", "token": {"secret": secret}}


_READ: Final[Mapping[str, Any]] = {
    "headers": _headers,
    "body": _json_or_text,
    "payload": _json_or_text,
    "method": str.upper,
    "expect": list,
    "retry_on": list,
    "bearer_secret": _bearer,
    "auth": _auth,
    "client_certificate": lambda secret: {"client_certificate": {"secret": secret}},
}
