"""Next fires per second in a time zone, beside croniter and cronsim, in one run.

Each contender walks from one fire to the next, `WALK` fires from the same start and again, without any memory
of earlier answers. All three keep what they learnt about the zone itself, as zoneinfo does; what the first
question in a new zone costs is measured on its own. The middle of three measurements counts.

    .venv/bin/python -m bench.cron
"""

import argparse
import time
from collections.abc import Callable
from datetime import datetime
from statistics import median
from zoneinfo import ZoneInfo

from croniter import croniter  # type: ignore[import-untyped]
from cronsim import CronSim

from tocsin.domain.cron import Cron
from tocsin.domain.instant import from_datetime

EXPRESSIONS = ("30 2 * * *", "*/5 9-17 * * 1-5", "0 0 29 2 *", "* * * * *", "0 9 * * MON#2", "0 0 L * *")
ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2026, 1, 1, tzinfo=ZONE)
WALK = 50
REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description="next fires per second, beside croniter and cronsim")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long one measurement takes")
    seconds = parser.parse_args().seconds
    print(f"next fires per second in {ZONE}, median of {REPEATS}")
    print(f"{'expression':<18} {'tocsin':>10} {'cronsim':>10} {'croniter':>10}   against cronsim, croniter")
    for expression in EXPRESSIONS:
        ours, cronsim, other = (rate(walk, seconds) for walk in walks(expression))
        ratios = f"{ours / cronsim:.1f} x, {ours / other:.1f} x"
        print(f"{expression:<18} {ours:>10,.0f} {cronsim:>10,.0f} {other:>10,.0f}   {ratios}")
    print(f"the first fire in a new zone takes {first_fire() * 1e6:,.0f} µs")
    print(f"parsing an expression takes {1e6 / rate(parse_some, seconds):,.0f} µs")


def walks(expression: str) -> tuple[Callable[[], int], Callable[[], int], Callable[[], int]]:
    """One function per contender that takes `WALK` fires and says so."""
    cron, start = Cron.parse(expression), from_datetime(START)

    def tocsin() -> int:
        fire = start
        for _ in range(WALK):
            fire = cron.next_fire(fire, ZONE) or start
        return WALK

    def cronsim() -> int:
        fires = CronSim(expression, START)
        for _ in range(WALK):
            next(fires)
        return WALK

    def other() -> int:
        fires = croniter(expression, START)
        for _ in range(WALK):
            fires.get_next(datetime)
        return WALK

    return tocsin, cronsim, other


def parse_some() -> int:
    for expression in EXPRESSIONS:
        Cron.parse(expression)
    return len(EXPRESSIONS)


def rate(work: Callable[[], int], seconds: float) -> float:
    """How much of its work a function does per second: the median of a few runs after a warm-up."""
    work()
    return median(_rate_once(work, seconds) for _ in range(REPEATS))


def _rate_once(work: Callable[[], int], seconds: float) -> float:
    done, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        done += work()
    return done / passed


def first_fire() -> float:
    """Seconds for the first question in a zone: its changes of that year have to be found."""
    cron, start = Cron.parse("30 2 * * *"), from_datetime(START)
    return median(_timed(cron.next_fire, start, ZoneInfo.no_cache(ZONE.key)) for _ in range(25))


def _timed(work: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
