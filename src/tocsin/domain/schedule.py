"""When a job fires: the value users write, and the rule that answers "what comes next?".

`Schedule` is the written form, the same in requests, answers and the database. `Rule` is what it means: a
function from an instant to the next fire time strictly after it. Rules hold no state and never ask what time
it is; the cursor in the database and `planning` decide what to do with their answers.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Final, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tocsin.domain.blackout import MAX_CALENDARS, MAX_DATES, Exclude, Range, ranges_of_dates
from tocsin.domain.cron import Cron, Dst
from tocsin.domain.errors import Refused
from tocsin.domain.instant import (
    DAY,
    LATEST,
    SECOND,
    Instant,
    Span,
    format_instant,
    parse_instant,
    parse_span,
)
from tocsin.domain.written import (
    UpToADay,
    WrittenCron,
    WrittenInstant,
    WrittenInterval,
    WrittenSpan,
    WrittenZone,
    at_most,
    between,
)

MIN_INTERVAL: Final = SECOND
MAX_RULES: Final = 16
MAX_FIRES: Final = 1_000_000_000
_RECURRING: Final = ("every", "cron", "any_of")
_AT_ONCE: Final = ("now", "immediately", "asap", "once")
_SPAN_WORDS: Final = re.compile(r"(every|each|in|after|@every)? *([0-9][0-9.]*(?:ms|s|m|h|d|w)[0-9a-z.]*)")
_ONE_OFF: Final = ("at", "in", "now")


class Schedule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"in_": "in"}
):
    """Exactly one of `at`, `in`, `now`, `every`, `cron`, `any_of`, and what narrows it."""

    at: WrittenInstant | None = None
    in_: WrittenSpan | None = None
    now: bool | None = None
    every: WrittenInterval | None = None
    cron: WrittenCron | None = None
    time_zone: WrittenZone | None = None
    dst: Dst | None = None
    starts_at: WrittenInstant | None = None
    ends_at: WrittenInstant | None = None
    max_fires: Annotated[int, between(1, MAX_FIRES)] | None = None
    jitter: UpToADay | None = None
    any_of: Annotated[tuple["Schedule", ...], at_most(MAX_RULES, minItems=1)] | None = None
    exclude: Exclude | None = None

    @property
    def recurring(self) -> bool:
        """Whether it names more than one fire time."""
        return self.every is not None or self.cron is not None or self.any_of is not None

    @property
    def calendars(self) -> tuple[str, ...]:
        """Names of the calendars whose ranges it leaves out."""
        return () if self.exclude is None else self.exclude.calendars


def read_schedule(written: "Written", now: Instant) -> Schedule:
    """Check what a user wrote and settle what depends on the moment of writing (`in`, `now`)."""
    schedule = _read_written(written, now)
    if schedule.at is not None and schedule == Schedule(at=schedule.at):
        parse_instant(schedule.at, "schedule.at")
        return schedule
    given = [name for name in (*_ONE_OFF, *_RECURRING) if _given(_value(schedule, name))]
    if len(given) != 1:
        said = "none of them" if not given else " and ".join(given)
        raise Refused(f"give exactly one of at, in, now, every, cron; got {said}", field="schedule")
    _check_fit(schedule, given[0])
    if schedule.now:
        return msgspec.structs.replace(schedule, now=None, at=format_instant(now))
    if schedule.in_ is not None:
        span = parse_span(schedule.in_, "schedule.in")
        return msgspec.structs.replace(schedule, in_=None, at=format_instant(now + span))
    rule = rule_of(schedule)
    if schedule.recurring and rule.next_fire(now) is None:
        raise Refused("the schedule never fires again", field="schedule", hint="check ends_at and the dates")
    return schedule


Written = Schedule | str | list[Schedule | str]
"""What users may write for a schedule."""


class Rule(Protocol):
    """What a schedule means."""

    def next_fire(self, after: Instant) -> Instant | None:
        """The first fire time strictly after `after`, or None when there is none."""


def rule_of(schedule: Schedule) -> Rule:
    """The meaning of a checked schedule; equal schedules share one rule, and with it its memory of
    answers."""
    return _rule_of(schedule)


def fire_times(rule: Rule, first: Instant) -> Iterator[Instant]:
    """Fire times from `first` on, `first` itself included: the caller knows that it is one."""
    fire: Instant | None = first
    while fire is not None:
        yield fire
        fire = rule.next_fire(fire)


def offset_of(schedule: Schedule, job_id: UUID) -> Span:
    """A job's own place inside the jitter window: always the same one, spread evenly over jobs."""
    if schedule.jitter is None:
        return 0
    window = parse_span(schedule.jitter, "schedule.jitter")
    return (job_id.int >> 8 & 0xFFFF_FFFF) * window >> 32


def blackout_dates(schedule: Schedule) -> list[Range]:
    """The excluded dates as ranges."""
    if schedule.exclude is None:
        return []
    return ranges_of_dates(schedule.exclude.dates, zone_of(schedule.time_zone or "UTC"))


class _Union:
    """Several rules as one; a fire time that several of them name is one fire."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules

    def next_fire(self, after: Instant) -> Instant | None:
        return min(
            (fire for rule in self._rules if (fire := rule.next_fire(after)) is not None), default=None
        )


class _Once:
    def __init__(self, at: Instant) -> None:
        self._at = at

    def next_fire(self, after: Instant) -> Instant | None:
        return self._at if self._at > after else None


class Every:
    """Multiples of the interval counted from the anchor: restarts and late planning cannot make it drift.
    They end with the last instant that can be written."""

    def __init__(self, interval: Span, starts_at: Instant | None, ends_at: Instant | None) -> None:
        self.interval = interval
        self._anchor = starts_at or 0
        self._starts_at = starts_at
        self._ends_at = LATEST if ends_at is None else ends_at

    def count(self, first: Instant, before: Instant) -> int:
        """How many fire times lie in [first, before), `first` being one."""
        before = min(before, self._ends_at + 1)
        return max(0, -(-(before - first) // self.interval))

    def next_fire(self, after: Instant) -> Instant | None:
        if self._starts_at is not None and after < self._starts_at:
            return self._starts_at if self._starts_at <= self._ends_at else None
        fire = self._anchor + ((after - self._anchor) // self.interval + 1) * self.interval
        return None if fire > self._ends_at else fire


class _Cron:
    """A cron expression in a zone. Answers are remembered: a herd of equal schedules asks the same
    question."""

    def __init__(self, cron: Cron, zone: ZoneInfo, dst: Dst) -> None:
        self._next = lru_cache(maxsize=64)(lambda after: cron.next_fire(after, zone, dst))

    def next_fire(self, after: Instant) -> Instant | None:
        return self._next(after)


class _Window:
    """Another rule, between `starts_at` and `ends_at` (both included)."""

    def __init__(self, rule: Rule, starts_at: Instant | None, ends_at: Instant | None) -> None:
        self._rule = rule
        self._starts_at = starts_at
        self._ends_at = ends_at

    def next_fire(self, after: Instant) -> Instant | None:
        if self._starts_at is not None:
            after = max(after, self._starts_at - 1)
        fire = self._rule.next_fire(after)
        return None if fire is None or (self._ends_at is not None and fire > self._ends_at) else fire


@lru_cache(maxsize=16_384)
def _rule_of(schedule: Schedule) -> Rule:
    starts_at = _instant(schedule.starts_at, "starts_at")
    ends_at = _instant(schedule.ends_at, "ends_at")
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise Refused("ends_at lies before starts_at", field="schedule.ends_at")
    rule = _bare_rule(schedule, starts_at, ends_at)
    if isinstance(rule, Every) or (starts_at is None and ends_at is None):
        return rule  # an interval knows its own window
    return _Window(rule, starts_at, ends_at)


def _bare_rule(schedule: Schedule, starts_at: Instant | None, ends_at: Instant | None) -> Rule:
    if schedule.any_of is not None:
        return _Union([_rule_of(part) for part in schedule.any_of])
    if schedule.at is not None:
        return _Once(parse_instant(schedule.at, "schedule.at"))
    if schedule.every is not None:
        interval = parse_span(schedule.every, "schedule.every")
        if interval < MIN_INTERVAL:
            raise Refused("the shortest interval is 1s", field="schedule.every")
        if interval > 3660 * DAY:
            raise Refused("the longest interval is ten years", field="schedule.every")
        return Every(interval, starts_at, ends_at)
    cron = Cron.parse(schedule.cron or "", "schedule.cron")
    return _Cron(cron, zone_of(schedule.time_zone or "UTC"), schedule.dst or Dst.CRON)


def zone_of(name: str) -> ZoneInfo:
    """An IANA time zone by name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Refused(
            f"{name[:64]!r} is not an IANA time zone",
            field="schedule.time_zone",
            hint="for example Europe/Berlin or UTC",
        ) from None


def _read_written(written: "Written", now: Instant) -> Schedule:
    if isinstance(written, str):
        return _read_bare(written)
    if isinstance(written, list):
        return Schedule(any_of=_read_union(written, now))
    if written.any_of is not None:
        return _zone_passed_on(msgspec.structs.replace(written, any_of=_read_union(written.any_of, now)))
    return written


def _zone_passed_on(union: Schedule) -> Schedule:
    """A zone beside `any_of` is that of the cron schedules in it that name none, and so is `dst`. It stays
    beside them where it also says which days are excluded."""
    parts = union.any_of or ()
    if not any(part.cron is not None for part in parts):
        return union
    passed = tuple(
        msgspec.structs.replace(
            part, time_zone=part.time_zone or union.time_zone, dst=union.dst if part.dst is None else part.dst
        )
        if part.cron is not None
        else part
        for part in parts
    )
    kept = union.time_zone if union.exclude is not None and union.exclude.dates else None
    return msgspec.structs.replace(union, any_of=passed, time_zone=kept, dst=None)


def _read_union(parts: Sequence["Schedule | str"], now: Instant) -> tuple[Schedule, ...]:
    if not 1 <= len(parts) <= MAX_RULES:
        raise Refused(f"a list of schedules has 1 to {MAX_RULES} entries", field="schedule")
    read = []
    for part in parts:
        schedule = read_schedule(part, now)
        if schedule.any_of is not None:
            raise Refused("a list of schedules cannot hold another list", field="schedule.any_of")
        for name in ("max_fires", "jitter", "exclude"):
            if _value(schedule, name) is not None:
                raise Refused(
                    f"{name} applies to the job: put it beside any_of", field=f"schedule.any_of.{name}"
                )
        read.append(schedule)
    return tuple(read)


def _read_bare(text: str) -> Schedule:
    """A bare string is an instant when it looks like a date, else a cron expression."""
    word = text.strip().lower()
    if word in _AT_ONCE:
        raise Refused(f"{text[:20]!r} is no schedule by itself", field="schedule", hint='write {"now": true}')
    if span := _SPAN_WORDS.fullmatch(word):
        name = "in" if span[1] in ("in", "after") else "every"
        raise Refused(
            f"{text[:40]!r} is neither an instant nor a cron expression",
            field="schedule",
            hint=f'write {{"{name}": "{span[2][:20]}"}}',
        )
    if len(text) > 10 and text[:4].isdigit() and text[4] == "-":
        return Schedule(at=text)
    return Schedule(cron=text)


def _check_fit(schedule: Schedule, kind: str) -> None:
    """Refuse what would be ignored: a zone on an instant says that the writer meant something else."""
    if kind != "cron":
        # A zone also says which days excluded dates are, so it may stand beside anything that excludes some.
        for name in (
            ("dst",) if schedule.exclude is not None and schedule.exclude.dates else ("time_zone", "dst")
        ):
            if _value(schedule, name) is not None:
                raise Refused(f"{name} only applies to cron schedules", field=f"schedule.{name}")
    if kind not in _RECURRING:
        for name in ("starts_at", "ends_at", "max_fires", "jitter", "exclude"):
            if _value(schedule, name) is not None:
                raise Refused(f"{name} only applies to recurring schedules", field=f"schedule.{name}")
    if schedule.max_fires is not None and not 1 <= schedule.max_fires <= MAX_FIRES:
        raise Refused(f"max_fires lies between 1 and {MAX_FIRES:,}", field="schedule.max_fires")
    if schedule.jitter is not None and parse_span(schedule.jitter, "schedule.jitter") > DAY:
        raise Refused("jitter is at most a day", field="schedule.jitter")
    if schedule.exclude is not None:
        _check_exclude(schedule.exclude)
        blackout_dates(schedule)


def _check_exclude(exclude: Exclude) -> None:
    if len(exclude.dates) > MAX_DATES:
        raise Refused(f"at most {MAX_DATES} dates", field="schedule.exclude.dates")
    if len(exclude.calendars) > MAX_CALENDARS:
        raise Refused(f"at most {MAX_CALENDARS} calendars", field="schedule.exclude.calendars")


def _given(value: object) -> bool:
    """0 is a value: a bad interval, a fine delay."""
    return value is not None and value is not False


def _value(schedule: Schedule, name: str) -> object:
    return getattr(schedule, "in_" if name == "in" else name)


def _instant(text: str | None, name: str) -> Instant | None:
    return None if text is None else parse_instant(text, f"schedule.{name}")
