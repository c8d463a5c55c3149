"""The same nights for jobs whose fire times are narrowed: windows, limits, jitter, unions, blackouts."""

from itertools import product
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.simulation.outage_oracle import MINUTE, SECOND, Oracle, Rules, Trouble
from tests.simulation.test_outage import BERLIN, DOWN, FROM, NIGHTS, UNTIL, UP, WALLS, compare, lasts
from tocsin.domain.blackout import CalendarRange
from tocsin.domain.instant import HOUR, Instant, format_instant, parse_instant
from tocsin.domain.policy import Misfire, MisfirePolicy, Overlap, Policies
from tocsin.domain.schedule import Schedule, offset_of
from tocsin.store.calendars import CalendarStore

# Into the trouble, inside it, out of it, after it.
BLACKOUTS = (
    ("00:22:00Z", "00:48:00Z"),
    ("01:28:00Z", "02:12:00Z"),
    ("02:52:00Z", "03:33:00Z"),
    ("03:48:00Z", "04:03:00Z"),
)
FIXED, WILD = WALLS


class Case:
    """A schedule, and the fire times and rules that the oracle knows it by."""

    def __init__(self, name: str, written: Schedule, fires: list[Instant], **rules: object) -> None:
        self.name = name
        self.written = written
        self.fires = fires
        self.rules = rules


def cases(night: str) -> list[Case]:
    def at(text: str) -> Instant:
        return parse_instant(NIGHTS[night] + text, "")

    first, last, berlin = at(FROM), at(UNTIL), ZoneInfo(BERLIN)
    end = format_instant(last)
    ranges = tuple((at(start), at(stop)) for start, stop in BLACKOUTS)
    fixed, wild = (wall.fires(berlin, "cron", first, last) for wall in WALLS)
    twelves = [time for time in range(first - first % (12 * MINUTE), last + 1, 12 * MINUTE) if time > first]
    started = list(range(at("01:21:00Z"), last + 1, 12 * MINUTE))
    cron = {"time_zone": BERLIN, "ends_at": end}
    # On both nights the day before ends in New York, where it is still summer, at 04:00 UTC.
    new_york = at("04:00:00Z")
    day = {"spring": "2031-03-29", "autumn": "2031-10-25"}[night]
    return [
        Case("from inside the trouble", schedule(every="12m", starts_at=format_instant(at("01:21:00Z")), ends_at=end), started),
        Case("until inside the trouble", schedule(cron=WILD.text, ends_at=format_instant(at("02:30:00Z"))), [time for time in wild if time <= at("02:30:00Z")]),
        Case("four times", schedule(cron=FIXED.text, max_fires=4, **cron), fixed, max_fires=4),
        Case("six times", schedule(every="12m", max_fires=6, ends_at=end), twelves, max_fires=6),
        Case("jitter of minutes", schedule(cron=FIXED.text, jitter="8m", **cron), fixed),
        Case("jitter of hours", schedule(every="12m", jitter="2h", ends_at=end), twelves),
        Case("a union", schedule(any_of=[{"cron": FIXED.text, "time_zone": BERLIN}, {"every": "12m"}, {"cron": "0 * * * *"}], ends_at=end), sorted({*fixed, *twelves, *(time for time in wild if time % HOUR == 0)})),
        Case("dropped in blackouts", schedule(cron=WILD.text, exclude={"calendars": ["nights"]}, **cron), wild, blackouts=ranges),
        Case("held in blackouts", schedule(cron=WILD.text, exclude={"calendars": ["nights"], "policy": "hold"}, **cron), wild, blackouts=ranges, hold=True),
        Case("held with jitter", schedule(every="12m", jitter="9m", ends_at=end, exclude={"calendars": ["nights"], "policy": "hold"}), twelves, blackouts=ranges, hold=True),
        Case("held three times", schedule(every="12m", max_fires=3, ends_at=end, exclude={"calendars": ["nights"], "policy": "hold"}), twelves, blackouts=ranges, hold=True, max_fires=3),
        Case("not on a date", schedule(every="12m", ends_at=end, time_zone="America/New_York", exclude={"dates": [day]}), twelves, blackouts=((first - HOUR, new_york),)),
    ]  # fmt: skip


@pytest.mark.parametrize(("night", "paused"), [("spring", False), ("autumn", True)], ids=["outage", "pause"])
def test_windows_limits_jitter_unions_and_blackouts_keep_the_ledger_whole(
    url: str, night: str, paused: bool
) -> None:
    first, _last, down, up = (parse_instant(NIGHTS[night] + text, "") for text in (FROM, UNTIL, DOWN, UP))

    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda claim: lasts(claim.fire_at)
        ranges = [CalendarRange(NIGHTS[night] + start, NIGHTS[night] + stop) for start, stop in BLACKOUTS]
        await CalendarStore(engine.database).put(TENANT, "nights", ranges)
        stories: dict[UUID, tuple[str, Case, Rules]] = {}
        for case, misfire, overlap in product(cases(night), MisfirePolicy, ("allow", "queue")):
            if overlap == "queue" and case.written.jitter:
                continue
            # In a queue the pace of what is late would also be the pace of what waits behind it.
            pace = 70 if overlap == "allow" else 0
            policies = Policies(
                misfire=Misfire(misfire, lookback="90m", max=3, pace=pace), overlap=Overlap(overlap)
            )
            job_id = await engine.define(case.written, policies)
            fixed = {
                "lookback": 90 * MINUTE,
                "most": 3,
                "pace": pace * SECOND,
                "slot": offset_of(case.written, job_id),
            }
            rules = Rules(misfire, overlap, **fixed, **case.rules)  # type: ignore[arg-type]
            stories[job_id] = f"{case.name}, {misfire}, {overlap}", case, rules
        await engine.run_until(down)
        if paused:
            for job_id in stories:
                if (await engine.jobs.get(TENANT, job_id))["state"] == "active":
                    await engine.pausing.pause(TENANT, job_id, None, up)
        else:
            await engine.crash()
            await engine.time.advance_to(up)
            await engine.start()
        await engine.run_until_done()
        for job_id, (name, case, rules) in stories.items():
            fates = Oracle(case.fires, rules, Trouble(down, up, paused), lasts).ledger()
            rows = await engine.ledger(job_id, case.fires)
            compare(name, rows, fates, up)
            slots = {
                row.due_at - row.fire_at for row in rows if row.due_at and row.started_at and not rules.hold
            }
            assert slots <= {rules.slot}, f"{name}: a job's slot is the same every time"

    play(url, first, story)
