"""Jobs that are imported fire when they fired before: against independent engines, over a year of which two
nights change the clocks."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import msgspec
import pytest
import yaml
from croniter import croniter
from cronsim import CronSim

from tocsin.cli.importing.apscheduler import read_module
from tocsin.cli.importing.celery_beat import read_beat
from tocsin.cli.importing.commands import Commands
from tocsin.cli.importing.crontab import read_crontab
from tocsin.cli.importing.eventbridge import read_schedules
from tocsin.cli.importing.kubernetes import read_cron_jobs
from tocsin.cli.importing.quartz import read_quartz
from tocsin.domain.instant import from_datetime, to_datetime
from tocsin.domain.schedule import Schedule, fire_times, rule_of

_BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
_END = datetime(2028, 1, 1, tzinfo=UTC)
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney")
_CHANGING = ("Europe/Berlin", "America/New_York", "Australia/Sydney")
_AT_CHANGES = ("30 2 * * *", "0 2 * * *", "30 1 * * *", "0,30 2,3 * * *", "0 */2 * * *", "30 * * * *")
"""Some fall into the hour that clocks skip, some into the one that they repeat, in any of these zones."""
_WEEKDAYS = ("0", "1-5", "7", "MON", "SAT,SUN", "2,4", "FRI")


def test_a_crontab_of_two_hundred_lines_fires_as_under_debians_cron():
    expressions = _expressions(200)
    zones = [_ZONES[number * len(_ZONES) // 200] for number in range(200)]
    lines = []
    for number, (zone, cron) in enumerate(zip(zones, expressions, strict=True)):
        if not number or zone != zones[number - 1]:
            lines.append(f"CRON_TZ={zone}")
        lines.append(f"{cron} curl -fsS https://example.com/{number}")
    reading = read_crontab("\n".join(lines), system=False, time_zone=None, commands=Commands.SKIP)
    assert (len(reading.found), reading.left) == (200, ())
    for zone, cron, found in zip(zones, expressions, reading.found, strict=True):
        assert _fires(found.job["schedule"]) == list(_debian(cron, zone)), f"{cron} in {zone}"


def test_twenty_cron_jobs_fire_as_before():
    expressions = [
        *(cron.replace(" */7 ", " 8,22 ") for cron in _expressions(10)),
        *_AT_CHANGES,
        "0 9 */2 * *",
        "15 3 * * */3",
        "30 12 1-31/4 6-8 *",
        "@daily",
    ]
    zones = [_CHANGING[number % len(_CHANGING)] for number in range(20)]
    documents = [
        {
            "kind": "CronJob",
            "metadata": {"name": f"job-{number}"},
            "spec": {
                "schedule": cron,
                "timeZone": zone,
                "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "shop:7"}]}}}},
            },
        }
        for number, (zone, cron) in enumerate(zip(zones, expressions, strict=True))
    ]
    reading = read_cron_jobs(yaml.safe_dump_all(documents), time_zone=None, commands=Commands.TASK)
    assert (len(reading.found), reading.left) == (20, ())
    for zone, cron, found in zip(zones, expressions, reading.found, strict=True):
        assert _fires(found.job["schedule"]) == _elapsed(cron, zone, twice=True), f"{cron} in {zone}"


def test_schedules_of_eventbridge_fire_as_before():
    expressions = [*_AT_CHANGES, "0 9 * * *", "15 3 1,15 * *"]
    zones = [_CHANGING[number % len(_CHANGING)] for number in range(len(expressions))]
    document = [
        {
            "Name": f"s-{number}",
            "ScheduleExpression": f"cron({cron.removesuffix(' *')} ? *)",
            "ScheduleExpressionTimezone": zone,
            "Target": {"Arn": "arn:aws:lambda:eu-west-1:1:function:f"},
        }
        for number, (zone, cron) in enumerate(zip(zones, expressions, strict=True))
    ]
    reading = read_schedules(json.dumps(document))
    assert (len(reading.found), reading.left, reading.notes) == (len(expressions), (), ())
    for zone, cron, found in zip(zones, expressions, reading.found, strict=True):
        assert _fires(found.job["schedule"]) == _elapsed(cron, zone, twice=False), f"{cron} in {zone}"


def test_triggers_of_quartz_fire_as_before_but_for_which_of_two_equal_hours():
    """What clocks repeat Quartz fires in the second of both hours, and this in the first; a note says so."""
    zones = [_CHANGING[number % len(_CHANGING)] for number in range(len(_AT_CHANGES))]
    triggers = "".join(
        f"<trigger><cron><name>t-{number}</name><job-name>j</job-name>"
        f"<cron-expression>0 {cron.removesuffix(' *')} ?</cron-expression>"
        f"<time-zone>{zone}</time-zone></cron></trigger>"
        for number, (zone, cron) in enumerate(zip(zones, _AT_CHANGES, strict=True))
    )
    reading = read_quartz(
        f"<job-scheduling-data><schedule>{triggers}</schedule></job-scheduling-data>", time_zone=None
    )
    assert (len(reading.found), reading.left) == (len(_AT_CHANGES), ())
    assert "the second time in Quartz" in reading.notes[0]
    for zone, cron, found in zip(zones, _AT_CHANGES, reading.found, strict=True):
        assert _fires(found.job["schedule"]) == _elapsed(cron, zone, twice=False), f"{cron} in {zone}"


def test_jobs_of_apscheduler_fire_as_before_but_when_clocks_change():
    """It makes up for what clocks skip, as much later, and fires twice what they repeat; a note says so."""
    zones = [_CHANGING[number % len(_CHANGING)] for number in range(len(_AT_CHANGES))]
    lines = []
    for number, (zone, cron) in enumerate(zip(zones, _AT_CHANGES, strict=True)):
        minute, hour = cron.split()[:2]
        lines.append(
            f"s.add_job(f, 'cron', id='j-{number}', minute={minute!r}, hour={hour!r}, timezone={zone!r})"
        )
    reading = read_module("\n".join(lines), time_zone=None)
    assert (len(reading.found), reading.left) == (len(_AT_CHANGES), ())
    assert "where clocks change: APScheduler" in reading.notes[0]
    for zone, cron, found in zip(zones, _AT_CHANGES, reading.found, strict=True):
        changes = _changes(zone)
        ours = [at for at in _fires(found.job["schedule"]) if not _beside(at, changes)]
        theirs = [at for at in _elapsed(cron, zone, twice=True) if not _beside(at, changes)]
        assert ours == theirs, f"{cron} in {zone}"
        assert _dates(_fires(found.job["schedule"]), zone) == _dates(theirs, zone) | _dates(
            [at for at in _moved(cron, zone) if _beside(at, changes)], zone
        )


def test_thirty_beat_entries_fire_as_before():
    draw = Random(30)
    entries, expected = [], []
    for number in range(20):
        minute, hour = draw.choice(("0", "30", "5,35", "*/20")), draw.choice(("3", "7-19/4", "*/6", "0,12"))
        days, months = draw.choice(("*", "mon-fri", "sunday", "1,3")), draw.choice(("*", "1-6", "*/3"))
        written = f"minute={minute!r}, hour={hour!r}, day_of_week={days!r}, month_of_year={months!r}"
        entries.append(f"'cron-{number}': {{'task': 't', 'schedule': crontab({written})}}")
        expected.append(_wall(f"{minute} {hour} * {months} {days.replace('sunday', 'sun')}"))
    for number, seconds in enumerate(
        (3600, 5400, 86_400, 43_200, 7200, 9000, 21_600, 604_800, 10_800, 14_400)
    ):
        entries.append(f"'every-{number}': {{'task': 't', 'schedule': timedelta(seconds={seconds})}}")
        first = -(-int(_BEGIN.timestamp()) // seconds) * seconds
        expected.append(
            [datetime.fromtimestamp(at, UTC) for at in range(first, int(_END.timestamp()), seconds)]
        )
    module = "app.conf.beat_schedule = {" + ",\n".join(entries) + "}"
    reading = read_beat(module, time_zone=None)
    assert (len(reading.found), reading.left, reading.notes) == (30, (), ())
    for fires, found in zip(expected, reading.found, strict=True):
        assert _fires(found.job["schedule"]) == fires, found.name


@pytest.mark.parametrize("zone", _CHANGING)
def test_beat_entries_in_a_zone_fire_as_before_but_at_the_end_of_a_gap(zone):
    """What clocks skip, beat makes up for as much later, and this at once; a note says so."""
    expressions = [*_AT_CHANGES, "0 9 * * *", "*/20 3-5 * * *", "* 2 * * *", "*/1 */1 * * *"]
    entries = []
    for number, cron in enumerate(expressions):
        minute, hour = cron.split()[:2]
        entries.append(f"'e-{number}': {{'task': 't', 'schedule': crontab({minute!r}, {hour!r})}}")
    reading = read_beat(
        f"app.conf.timezone = {zone!r}\napp.conf.beat_schedule = {{{', '.join(entries)}}}", time_zone=None
    )
    assert (len(reading.found), reading.left) == (len(expressions), ())
    assert "in beat as much later" in reading.notes[0]
    for cron, found in zip(expressions, reading.found, strict=True):
        swallowed = sorted({*_elapsed(cron, zone, twice=False), *_gap_ends(cron, zone)})
        assert _fires(found.job["schedule"]) == swallowed, cron


def test_the_oracles_say_what_the_engines_themselves_said():
    """Recorded from robfig/cron 3.0.1, Quartz 2.3.2 and celery 5.7.0, for Berlin, in UTC."""
    spring, autumn = "2027-03-28", "2027-10-31"
    assert _on(_elapsed("30 2 * * *", "Europe/Berlin", twice=True), spring) == []
    assert _on(_elapsed("30 2 * * *", "Europe/Berlin", twice=True), autumn) == ["00:30", "01:30"]
    assert _on(_elapsed("0,30 2,3 * * *", "Europe/Berlin", twice=True), spring) == ["01:00", "01:30"]
    assert _on(_elapsed("0 */2 * * *", "Europe/Berlin", twice=True), autumn)[:3] == [
        "00:00",
        "01:00",
        "03:00",
    ]
    assert _on(_elapsed("30 2 * * *", "Europe/Berlin", twice=False), autumn) == ["00:30"]
    assert _on(_moved("30 2 * * *", "Europe/Berlin"), spring) == ["01:30"]
    assert _on(_moved("0 */2 * * *", "Europe/Berlin"), spring)[:3] == ["01:00", "02:00", "04:00"]
    assert _on(_moved("0 * * * *", "Europe/Berlin"), autumn)[:3] == ["00:00", "02:00", "03:00"]


@pytest.mark.parametrize(
    ("dates", "days"),
    [
        ("1-7", "1"),
        ("8-14", "2,5"),
        ("1,15", "1-5"),
        ("13", "0,5"),
        ("*", "3"),
        ("*/10", "*"),
        ("22-28", "6"),
    ],
)
def test_date_and_weekday_of_beat_must_both_match(dates, days):
    module = f"beat_schedule = {{'x': {{'task': 't', 'schedule': crontab(0, 9, {days!r}, {dates!r})}}}}"
    (found,) = read_beat(module, time_zone=None).found
    wanted = _values(dates, 1, 31), _values(days, 0, 6)
    hours = (_BEGIN + timedelta(days=day, hours=9) for day in range(365))
    expected = [at for at in hours if at.day in wanted[0] and at.isoweekday() % 7 in wanted[1]]
    assert _fires(found.job["schedule"]) == expected


def test_a_step_over_days_is_no_star_in_kubernetes():
    document = {
        "kind": "CronJob",
        "metadata": {"name": "x"},
        "spec": {
            "schedule": "0 0 */10 * 1",
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}},
        },
    }
    (found,) = read_cron_jobs(yaml.safe_dump(document), time_zone=None, commands=Commands.TASK).found
    days = (_BEGIN + timedelta(days=day) for day in range(365))
    expected = [at for at in days if at.day in (1, 11, 21, 31) or at.isoweekday() == 1]
    assert _fires(found.job["schedule"]) == expected


def _expressions(count: int) -> list[str]:
    """Varied ones, the same in every run; each fires a few thousand times a year at most."""
    draw = Random(count)
    shorthands = ("@daily", "@weekly", "@monthly", "@yearly", "@midnight")
    found = []
    for number in range(count):
        if number % 40 == 39:
            found.append(shorthands[number // 40 % 5])
            continue
        minute = draw.choice(("0", "17", "30", "5,35", "59", "*/30"))
        hour = draw.choice(("2", "1", "3", "0", "9-17/4", "*/12", "23", "4,16"))
        date = draw.choice(("*", "*", "*", "1", "15,30", "*/7", "10-20"))
        month = draw.choice(("*", "*", "*", "JAN-JUN", "3,10", "*/4"))
        day = draw.choice(("*", "*", *_WEEKDAYS))
        found.append(f"{minute} {hour} {date} {month} {day}")
    return found


def _fires(schedule: dict) -> list[datetime]:
    rule = rule_of(msgspec.convert(schedule, Schedule))
    end = from_datetime(_END)
    first = rule.next_fire(from_datetime(_BEGIN) - 1)
    found = []
    for fire in fire_times(rule, first):
        if fire >= end:
            break
        found.append(to_datetime(fire))
    assert all(one < two for one, two in pairwise(found))
    return found


def _debian(cron: str, zone: str) -> Iterator[datetime]:
    local = (_BEGIN - timedelta(seconds=1)).astimezone(ZoneInfo(zone))
    for moment in CronSim(_spelled(cron), local):
        at = moment.astimezone(UTC)
        if at >= _END:
            return
        yield at


def _elapsed(cron: str, zone: str, *, twice: bool) -> list[datetime]:
    """All hours of the year one after the other, each with what the zone's clock shows in it. An hour that it
    shows a second time counts if `twice`."""
    found, minutes = [], sorted(_values(_spelled(cron).split()[0], 0, 59))
    for number in range(int((_END - _BEGIN).total_seconds()) // 3600):
        at = _BEGIN + timedelta(hours=number)
        local = at.astimezone(ZoneInfo(zone))
        if _in_its_hour(cron, local) and (twice or not local.fold):
            found.extend(at + timedelta(minutes=minute) for minute in minutes)
    return found


def _moved(cron: str, zone: str) -> list[datetime]:
    """All hours that a calendar has, each where the offset before a change puts it: what clocks skip comes
    later, what they repeat comes first."""
    found = set()
    day = datetime(2026, 12, 31, tzinfo=ZoneInfo(zone))
    for number in range(24 * 367):
        local = (day.replace(tzinfo=None) + timedelta(hours=number)).replace(tzinfo=ZoneInfo(zone))
        if _in_its_hour(cron, local):
            at = local.astimezone(UTC)
            found.update(
                at + timedelta(minutes=minute) for minute in _values(_spelled(cron).split()[0], 0, 59)
            )
    return sorted(at for at in found if _BEGIN <= at < _END)


def _gap_ends(cron: str, zone: str) -> set[datetime]:
    """The ends of gaps that swallow a fire, if its hours are not all hours."""
    if _spelled(cron).split()[1] in ("*", "*/1"):
        return set()
    return {change for change in _changes(zone) if _swallowed(change, cron, zone)}


def _swallowed(at: datetime, cron: str, zone: str) -> bool:
    """Whether a change at `at` skips an hour of the expression."""
    before = at - timedelta(hours=1)
    offset = before.astimezone(ZoneInfo(zone)).utcoffset()
    forward = at.astimezone(ZoneInfo(zone)).utcoffset() > offset
    return forward and _in_its_hour(cron, (at + offset).replace(minute=0))


def _changes(zone: str) -> list[datetime]:
    hours = [_BEGIN + timedelta(hours=number) for number in range(24 * 365)]
    return [
        two
        for one, two in pairwise(hours)
        if one.astimezone(ZoneInfo(zone)).utcoffset() != two.astimezone(ZoneInfo(zone)).utcoffset()
    ]


def _beside(at: datetime, changes: list[datetime]) -> bool:
    return any(abs(at - change) <= timedelta(hours=2) for change in changes)


def _dates(fires: list[datetime], zone: str) -> set[object]:
    return {at.astimezone(ZoneInfo(zone)).date() for at in fires}


def _on(fires: list[datetime], day: str) -> list[str]:
    return [f"{at:%H:%M}" for at in fires if f"{at:%Y-%m-%d}" == day]


def _in_its_hour(cron: str, local: datetime) -> bool:
    """Whether an expression fires in the hour that a clock shows; steps are no stars."""
    _, hour, dates, months, days = _spelled(cron).split()
    date, day = local.day in _values(dates, 1, 31), local.isoweekday() % 7 in _values(days, 0, 7)
    both = date and day if "*" in (dates, days) else date or day
    return both and local.hour in _values(hour, 0, 23) and local.month in _values(months, 1, 12)


def _wall(cron: str) -> list[datetime]:
    found = []
    fires = croniter(cron, _BEGIN - timedelta(seconds=1))
    while (at := fires.get_next(datetime)) < _END:
        found.append(at.astimezone(UTC))
    return found


def _spelled(cron: str) -> str:
    spelled = {
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
    }
    return spelled.get(cron, cron)


def _values(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found.update(range(_number(first), _number(last or first) + 1, int(step or 1)))
    return {0 if value == 7 and high == 7 else value for value in found}


def _number(text: str) -> int:
    if not text.isalpha():
        return int(text)
    for names in ("SUN MON TUE WED THU FRI SAT", "_ JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"):
        if text.upper() in names.split():
            return names.split().index(text.upper())
    raise ValueError(text)
