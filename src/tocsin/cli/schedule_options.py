"""The options that say when a job fires, and the schedule they describe.

One rule is written as it is; several make a union. What narrows a schedule (a window, jitter, exclusions)
belongs to the whole of it, the time zone to each cron rule. The API checks it all; nothing is judged here.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import reduce
from typing import Any, Final

import click

from tocsin.domain.blackout import ExcludePolicy
from tocsin.domain.cron import Dst

Options = Mapping[str, Any]
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_WINDOW: Final = ("starts_at", "ends_at", "max_fires", "jitter")
_ZONE: Final = ("time_zone", "dst")
_EXCLUDE: Final = {"exclude_dates": "dates", "exclude_calendars": "calendars", "exclude_policy": "policy"}
_RULES: Final = ("at", "in_", "now", "every", "cron")
_RECURRING: Final = ("every", "cron")

SCHEDULE_OPTIONS: Final[tuple[Decorator, ...]] = (
    click.option("--at", metavar="INSTANT", help="Once, at this instant: 2030-01-31T09:00:00Z"),
    click.option("--in", "in_", metavar="DURATION", help="Once, after this long: 90s, 5m, 1h30m"),
    click.option("--now", is_flag=True, help="Once, now."),
    click.option(
        "--every", multiple=True, metavar="DURATION", help="Again and again: 30s, 5m, 1d; may be repeated."
    ),
    click.option(
        "--cron",
        multiple=True,
        metavar="EXPRESSION",
        help='By cron: "0 9 * * MON"; may be repeated, then the job fires when any of them says so.',
    ),
    click.option("--time-zone", metavar="ZONE", help="IANA time zone of --cron.  [default: UTC]"),
    click.option(
        "--dst",
        type=click.Choice([str(one) for one in Dst]),
        help="How --cron deals with a clock that is put forward or back.  [default: cron]",
    ),
    click.option(
        "--starts-at", metavar="INSTANT", help="No fire before this instant; --every counts from it."
    ),
    click.option("--ends-at", metavar="INSTANT", help="No fire after this instant."),
    click.option("--max-fires", type=int, metavar="N", help="Complete after this many fires."),
    click.option(
        "--jitter", metavar="DURATION", help="Fire at the job's own, fixed offset within this span."
    ),
    click.option(
        "--exclude-date",
        "exclude_dates",
        multiple=True,
        metavar="DATE",
        help="Do not fire on this day of the time zone: 2030-12-25; may be repeated.",
    ),
    click.option(
        "--exclude-calendar",
        "exclude_calendars",
        multiple=True,
        metavar="NAME",
        help="Do not fire in the ranges of this calendar; may be repeated.",
    ),
    click.option(
        "--exclude-policy",
        type=click.Choice([str(one) for one in ExcludePolicy]),
        help="Drop excluded fires, or hold the last one until the range ends.  [default: drop]",
    ),
)


def with_options(*options: Decorator) -> Decorator:
    """A decorator that gives a command these options, in this order."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


def given(value: Any) -> bool:
    """Whether an option was used. 0 and the empty text are values."""
    return value is not None and value is not False and value != ()


def says_when(options: Options) -> bool:
    """Whether any of these options was used."""
    return any(given(options[name]) for name in (*_RULES, *_ZONE, *_WINDOW, *_EXCLUDE))


def written_schedule(options: Options) -> dict[str, Any]:
    """The schedule that the options describe."""
    rules = [{name: text} for name in ("cron", "every") for text in options[name]]
    schedule: dict[str, Any] = {"any_of": rules} if len(rules) > 1 else dict(*rules)
    schedule |= {"at": options["at"]} if given(options["at"]) else {}
    schedule |= {"in": options["in_"]} if given(options["in_"]) else {}
    schedule |= {"now": True} if options["now"] else {}
    return _narrowed(schedule, options)


def changed_schedule(current: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """A job's schedule with what the options say in place of its own. New rules keep what narrowed the old
    ones."""
    if not any(given(options[name]) for name in _RULES):
        return _narrowed(deepcopy(dict(current)), options)
    if not any(given(options[name]) for name in _RECURRING):
        return written_schedule(options)
    kept = {name: value for name, value in _kept(current, options).items() if not given(options[name])}
    return written_schedule({**options, **kept})


def _kept(current: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """What new recurring rules take over from the schedule they replace, as options."""
    exclude = current.get("exclude", {})
    kept = {name: current.get(name) for name in _WINDOW}
    kept |= {option: exclude.get(field, options[option]) for option, field in _EXCLUDE.items()}
    if options["cron"]:
        crons = [part for part in _parts(current) if "cron" in part]
        kept |= {name: _common(name, crons or [current], options) for name in _ZONE}
    elif exclude.get("dates"):
        kept["time_zone"] = _common("time_zone", [current], options)
    return kept


def _common(name: str, rules: Iterable[Mapping[str, Any]], options: Options) -> str | None:
    values = {rule.get(name) for rule in rules}
    if len(values) > 1 and not given(options[name]):
        option = "--" + name.replace("_", "-")
        raise click.UsageError(f"the job's rules differ in {name}; say which one with {option}")
    return values.pop()


def _narrowed(schedule: dict[str, Any], options: Options) -> dict[str, Any]:
    parts = _parts(schedule)
    for name in _ZONE:
        if given(options[name]):
            for part in [part for part in parts if "cron" in part] or [schedule]:
                part[name] = options[name]
    schedule |= {name: options[name] for name in _WINDOW if given(options[name])}
    if given(options["starts_at"]):  # in a union, too, intervals count from it
        for part in [part for part in parts if "every" in part]:
            part["starts_at"] = options["starts_at"]
    exclude = {field: options[name] for name, field in _EXCLUDE.items() if given(options[name])}
    if exclude:
        schedule["exclude"] = schedule.get("exclude", {}) | exclude
    if given(options["time_zone"]) and schedule.get("exclude", {}).get("dates"):
        schedule["time_zone"] = options["time_zone"]  # in a union, it also says which days are excluded
    return schedule


def _parts(schedule: Any) -> list[Any]:
    """The rules of a schedule: those of a union, or the one it is."""
    return schedule.get("any_of") or [schedule]
