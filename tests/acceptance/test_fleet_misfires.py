"""A real outage: everything that plans and runs is killed, and comes back. The ledger is what the oracle of
misfires says.

The outage lasts for some seconds. `TOCSIN_OUTAGE=180` makes it as many, so that a grace and a lookback of a
minute bind, too; one of more than an hour does the same to a lookback of an hour.
"""

import asyncio
import os
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.acceptance.fleet import Fleet, run
from tests.acceptance.fleet_load import now
from tests.simulation.outage_oracle import Oracle, Rules, Trouble
from tocsin.domain.ids import parse_job_text
from tocsin.domain.instant import HOUR, MILLISECOND, MINUTE, SECOND, Instant, format_instant

OUTAGE = int(os.environ.get("TOCSIN_OUTAGE", "6")) * SECOND
"""It is a little longer."""
LONG = OUTAGE >= MINUTE
EVERY = 20 * SECOND if LONG else SECOND  # so that coming back takes no fire time across a limit of a minute
BEFORE, HORIZON = EVERY * 5 // 2, EVERY * 11 // 2
GRACES = (2 * SECOND, MINUTE)
LOOKBACKS = (MINUTE if LONG else 5 * SECOND, HOUR)
MOST = (2, 100)
AFTER_LAST = 2.6
"""Seconds from the last fire to the end of the outage: what can be missed has been, however long it takes to
come back."""

Ledger = dict[Instant, tuple[str, str | None, str]]


async def create(fleet: Fleet, rules: Rules, first: Instant, last: Instant) -> UUID:
    body = {
        "schedule": {
            "every": EVERY / SECOND,
            "starts_at": format_instant(first),
            "ends_at": format_instant(last),
        },
        "target": {"kind": "noop"},
        "misfire": {
            "policy": rules.misfire,
            "grace": rules.grace / SECOND,
            "lookback": rules.lookback / SECOND,
            "max": rules.most,
        },
    }
    answer = await fleet.client.post("/v1/jobs", body)
    assert answer.status == 201, answer
    return parse_job_text(answer.body["id"])


async def sleep_until(instant: Instant) -> None:
    await asyncio.sleep((instant - now()) / SECOND)


async def ledger(fleet: Fleet, job_id: UUID) -> Ledger:
    """What became of each fire time: runs of skips told apart."""
    rows = await fleet.query(
        "SELECT fire_at, fire_count, state, reason, cause FROM tocsin.history WHERE job_id = $1", job_id
    )
    found: Ledger = {}
    for row in rows:
        for number in range(row["fire_count"]):
            fire_at = row["fire_at"] + number * EVERY
            assert fire_at not in found, "a fire time has one end"
            found[fire_at] = row["state"], row["reason"], row["cause"]
    return found


def expected(times: list[Instant], rules: Rules, down: Instant, up: Instant) -> Ledger:
    fates = Oracle(times, rules, Trouble(down, up), lambda _: 0).ledger()
    return {at: (fate.state, fate.reason, fate.cause) for at, fate in fates.items()}


def differences(found: Ledger, wanted: Ledger) -> list[Any]:
    return [
        (at, found.get(at), wanted.get(at))
        for at in sorted(found | wanted)
        if found.get(at) != wanted.get(at)
    ]


@pytest.mark.timeout(300 + OUTAGE / SECOND)
def test_after_a_real_outage_the_ledger_of_every_policy_is_the_oracles(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=2, horizon=str(HORIZON / SECOND)) as fleet:
            first = (now() // SECOND + 4) * SECOND
            # When it goes down, some of what it will miss is planned and some is not.
            down = first + BEFORE
            last = first + (3 + OUTAGE // EVERY) * EVERY
            times = list(range(first, last + 1, EVERY))
            rules_of = {
                await create(fleet, rules, first, last): rules
                for rules in (
                    Rules(policy, grace=grace, lookback=lookback, most=most)
                    for policy, grace, lookback, most in product(
                        ("fire_once", "fire_all", "skip"), GRACES, LOOKBACKS, MOST
                    )
                )
            }
            await sleep_until(down)
            for node in fleet.nodes:
                await fleet.kill(node)
            await sleep_until(last + round(AFTER_LAST * SECOND))
            back = now()
            for node in fleet.nodes:
                node.start()
            await fleet.come_to_rest()
            for job_id, rules in rules_of.items():
                found = await ledger(fleet, job_id)
                assert sorted(found) == times, "every fire time has its end"
                # Nobody knows to the millisecond when it went down and came back; but all of it was decided
                # at one moment.
                moments = product((down - SECOND, down), range(back, back + 15 * SECOND, 100 * MILLISECOND))
                tries = [differences(found, expected(times, rules, *moment)) for moment in moments]
                assert [] in tries, f"{rules}: (found, wanted) {min(tries, key=len)}"

    run(scenario())
