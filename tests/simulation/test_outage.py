"""The worst night of the year: an outage, or a pause, while the clocks change.

Every combination of misfire, overlap and dst policy lives through it side by side, on virtual time, with the
real engine over a real database. Afterwards the ledger is compared with an oracle's, fire time by fire time.
"""

from itertools import product
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.simulation.outage import Engine, Row, play, schedule
from tests.simulation.outage_oracle import MINUTE, REPLACED, Fate, Oracle, Rules, Trouble, Wall
from tocsin.domain.instant import Instant, format_instant, parse_instant
from tocsin.domain.policy import Misfire, MisfirePolicy, Overlap, Policies

BERLIN = "Europe/Berlin"
TENS = frozenset(range(0, 60, 10))
WALLS = (
    Wall("5,15,25,35,45,55 0-6 * * *", frozenset(range(5, 60, 10)), frozenset(range(7)), fixed=True),
    Wall("*/10 * * * *", TENS, frozenset(range(24)), fixed=False),
)
# The clocks change at 01:00 UTC on both nights.
NIGHTS = {"spring": "2031-03-30T", "autumn": "2031-10-26T"}
FROM, UNTIL = "00:06:30Z", "04:41:00Z"
DOWN, UP = "00:34:40Z", "03:07:10Z"


def lasts(fire: Instant) -> int:
    """Some calls outlast the next fire time; none ends at the very instant of another event."""
    return (847_111_000, 47_111_000, 253_111_000)[fire // (10 * MINUTE) % 3]


@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.parametrize("paused", [False, True], ids=["outage", "pause"])
def test_after_a_night_of_changing_clocks_the_ledger_is_the_oracles_row_by_row(
    url: str, night: str, paused: bool
) -> None:
    first, last, down, up = (parse_instant(NIGHTS[night] + text, "") for text in (FROM, UNTIL, DOWN, UP))
    stories: dict[UUID, tuple[str, list[Instant], Rules]] = {}

    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda claim: lasts(claim.fire_at)
        for wall, misfire, overlap, dst in product(
            WALLS, MisfirePolicy, Overlap, ("cron", "literal", "once")
        ):
            written = schedule(cron=wall.text, time_zone=BERLIN, dst=dst, ends_at=format_instant(last))
            policies = Policies(misfire=Misfire(misfire, lookback="90m", max=3), overlap=overlap)
            job_id = await engine.define(written, policies)
            times = wall.fires(ZoneInfo(BERLIN), dst, first, last)
            rules = Rules(misfire, overlap, lookback=90 * MINUTE, most=3)
            stories[job_id] = f"{wall.text} {misfire} {overlap} {dst}", times, rules
        await engine.run_until(down)
        if paused:
            for place, job_id in enumerate(stories):
                # Half of the pauses end by themselves.
                await engine.pausing.pause(1, job_id, "a long night", up if place % 2 else None)
            await engine.run_until(up - 1)
            await engine.time.advance_to(up)
            for place, job_id in enumerate(stories):
                if place % 2 == 0:
                    await engine.pausing.resume(1, job_id, up)
        else:
            await engine.crash()
            await engine.time.advance_to(up)
            await engine.start()
        await engine.run_until_done()
        for job_id, (name, times, rules) in stories.items():
            oracle = Oracle(times, rules, Trouble(down, up, paused), lasts)
            compare(name, await engine.ledger(job_id, times), oracle.ledger(), up)
        assert await engine.count("jobs", "state <> 'completed'") == 0

    play(url, first, story)


def compare(name: str, rows: list[Row], fates: dict[Instant, Fate], up: Instant) -> None:
    """Row by row; the words of a failure show both sides of what differs."""
    found = [(row.fire_at, *_said(row, up)) for row in rows]
    expected = [(fire, *_expected(fate, up)) for fire, fate in fates.items()]
    differing = [
        f"\n  {mark} {format_instant(line[0])} {line[1:]}"
        for mark, lines, others in (("-", expected, found), ("+", found, expected))
        for line in lines
        if line not in others
    ]
    assert found == expected, (
        f"{name}: (- the oracle, + the ledger){''.join(sorted(differing, key=lambda s: s[5:]))}"
    )


def _said(row: Row, up: Instant) -> tuple[object, ...]:
    if row.state == "cancelled":
        assert row.reason == "replaced by a newer execution"
    return _told(row.state, row.reason, row.cause, row.attempt, row.started_at, up)


def _expected(fate: Fate, up: Instant) -> tuple[object, ...]:
    return _told(fate.state, fate.reason, fate.cause, fate.attempt, fate.started, up)


def _told(
    state: str, reason: str | None, cause: str | None, attempt: int, started: Instant | None, up: Instant
) -> tuple[object, ...]:
    """What both sides must agree on. What is replaced at the very instant of coming back may have begun or
    not."""
    if state == "cancelled":
        return state, REPLACED, cause, None if attempt > 1 or started == up else started
    if state == "skipped":
        return state, reason, cause if reason == "overlap" else "schedule"
    return state, reason, cause, attempt, started
