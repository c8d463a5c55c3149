"""One rule says what was missed: planned ahead or not, after minutes or hours, whatever kept it from
starting.

Every misfire policy, with every grace, lookback and max, lives through the same trouble side by side, and the
ledger is then compared with the oracle's, fire time by fire time.
"""

from collections.abc import Iterator
from itertools import product
from uuid import UUID

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.simulation.outage_oracle import Oracle, Rules, Trouble
from tests.simulation.test_outage import compare
from tests.support.postgres import Cluster
from tocsin.domain.instant import HOUR, MINUTE, SECOND, format_instant, parse_instant
from tocsin.domain.policy import Misfire, MisfirePolicy, Overlap, Policies

NOON = parse_instant("2031-05-05T12:00:00Z", "")
DOWN = NOON + 61_500_000
GRACES = (10 * SECOND, MINUTE, 5 * MINUTE)
LOOKBACKS = (MINUTE, 10 * MINUTE, 4 * HOUR)
MOST = (2, 30)


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def every_policy(step: int) -> Iterator[Rules]:
    for policy, grace, lookback, most in product(MisfirePolicy, GRACES[::step], LOOKBACKS[::step], MOST):
        yield Rules(policy, grace=grace, lookback=lookback, most=most)


def policies_of(rules: Rules) -> Policies:
    misfire = Misfire(
        MisfirePolicy(rules.misfire),
        lookback=rules.lookback / SECOND,
        max=rules.most,
        pace=rules.pace / SECOND,
        grace=rules.grace / SECOND,
    )
    return Policies(misfire=misfire, overlap=Overlap(rules.overlap))


async def trouble_with(engine: Engine, trouble: Trouble, jobs: list[UUID]) -> None:
    """What keeps the jobs from running, from its beginning to its end."""
    if trouble.planning:
        engine.away = {"claimer"}
        await engine.run_until(trouble.end)
        engine.away = set()
    elif trouble.paused:
        for job_id in jobs:
            await engine.pausing.pause(TENANT, job_id, None, trouble.end)
    else:
        await engine.crash()
        await engine.time.advance_to(trouble.end)
        await engine.start()


@pytest.mark.parametrize(
    ("length", "seconds", "kind"),
    [
        pytest.param(3 * MINUTE, 10, {}, id="three minutes away"),
        pytest.param(6 * HOUR, 10, {}, id="six hours away"),
        pytest.param(40 * SECOND, 10, {}, id="away for less than most graces"),
        pytest.param(3 * MINUTE, 10, {"planning": True}, id="three minutes without a worker"),
        pytest.param(6 * HOUR, 600, {"planning": True}, id="six hours without a worker"),
        pytest.param(3 * MINUTE, 10, {"paused": True}, id="a pause of three minutes"),
        pytest.param(6 * HOUR, 10, {"paused": True}, id="a pause of six hours"),
    ],
)
def test_whatever_kept_fires_from_starting_the_ledger_is_the_oracles(
    url: str, length: int, seconds: int, kind: dict[str, bool]
) -> None:
    trouble = Trouble(DOWN, DOWN + length, **kind)
    last = trouble.end + max(2 * MINUTE, 2 * seconds * SECOND)
    gap = seconds * SECOND
    times = list(range(NOON + gap, last + 1, gap))

    async def story(engine: Engine) -> None:
        jobs: dict[UUID, Rules] = {}
        for rules in every_policy(2 if kind else 1):
            written = schedule(every=float(seconds), ends_at=format_instant(last))
            jobs[await engine.define(written, policies_of(rules))] = rules
        await engine.run_until(trouble.start)
        await trouble_with(engine, trouble, list(jobs))
        await engine.run_until_done()
        for job_id, rules in jobs.items():
            fates = Oracle(times, rules, trouble, lambda _: 0).ledger()
            compare(str(rules), await engine.ledger(job_id, times), fates, trouble.end)

    play(url, NOON, story)
