"""Jobs that are imported fire when they fired before: against independent engines, over a year."""

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

from tocsin.cli.importing.celery_beat import read_beat
from tocsin.cli.importing.commands import Commands
from tocsin.cli.importing.crontab import read_crontab
from tocsin.cli.importing.kubernetes import read_cron_jobs
from tocsin.domain.instant import from_datetime, to_datetime
from tocsin.domain.schedule import Schedule, fire_times, rule_of

_BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
_END = datetime(2028, 1, 1, tzinfo=UTC)
_ZONE = ZoneInfo("Europe/Berlin")
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney")
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
        *(cron.replace(" */7 ", " 8,22 ") for cron in _expressions(17)),
        "0 9 */2 * *",
        "15 3 * * */3",
        "30 12 1-31/4 6-8 *",
    ]
    documents = [
        {
            "kind": "CronJob",
            "metadata": {"name": f"job-{number}"},
            "spec": {
                "schedule": cron,
                "timeZone": "Europe/Berlin",
                "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "shop:7"}]}}}},
            },
        }
        for number, cron in enumerate(expressions)
    ]
    reading = read_cron_jobs(yaml.safe_dump_all(documents), time_zone=None, commands=Commands.TASK)
    assert (len(reading.found), reading.left) == (20, ())
    for cron, found in zip(expressions, reading.found, strict=True):
        assert _fires(found.job["schedule"]) == list(_debian(cron, "Europe/Berlin")), cron


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
    assert (len(reading.found), reading.left) == (30, ())
    for fires, found in zip(expected, reading.found, strict=True):
        assert _fires(found.job["schedule"]) == fires, found.name


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
    spelled = {
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
    }
    text = spelled.get(cron, "0 0 1 1 *" if cron == "@yearly" else cron)
    local = (_BEGIN - timedelta(seconds=1)).astimezone(ZoneInfo(zone))
    for moment in CronSim(text, local):
        at = moment.astimezone(UTC)
        if at >= _END:
            return
        yield at


def _wall(cron: str) -> list[datetime]:
    found = []
    fires = croniter(cron, _BEGIN - timedelta(seconds=1))
    while (at := fires.get_next(datetime)) < _END:
        found.append(at.astimezone(UTC))
    return found


def _values(text: str, low: int, high: int) -> set[int]:
    if text.startswith("*"):
        return set(range(low, high + 1, int(text[2:] or 1)))
    found: set[int] = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
