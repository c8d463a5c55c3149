"""The database's clock jumps ten days ahead for a moment: recurring jobs go on where they were, and somebody
is told."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tests.simulation.outage import Engine, play, schedule
from tocsin.domain.instant import DAY, MINUTE, SECOND, Instant, format_instant, parse_instant
from tocsin.domain.policy import Misfire, MisfirePolicy, Policies
from tocsin.scheduler import clock_watch
from tocsin.scheduler.clock_watch import ClockWatch
from tocsin.store.rewinding import Rewinding

NOON = parse_instant("2031-05-05T12:00:00Z", "")
LAST = NOON + 8 * MINUTE
AHEAD = 10 * DAY


class Watched:
    """A watch whose monotonic clock takes no part in the jump."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.jumped = engine, 0
        clock: Any = SimpleNamespace(monotonic=lambda: (engine.time.now() - self.jumped) / SECOND)
        self.watch = ClockWatch(clock, Rewinding(engine.database, engine.settings.lease_ttl), engine.leases)

    async def jump(self, by: int) -> None:
        self.jumped += by
        await self.engine.time.advance(by)

    async def look(self) -> None:
        while (await self.watch.run_once(self.engine.time.now())).done:
            pass


async def ran(engine: Engine, job_id: UUID) -> list[Instant]:
    rows = await engine.database.fetch(
        "SELECT fire_at FROM history WHERE job_id = $1 AND state = 'succeeded' ORDER BY 1", job_id
    )
    return [row["fire_at"] for row in rows]


@pytest.mark.parametrize("policy", MisfirePolicy)
@pytest.mark.parametrize("ends", [LAST, None], ids=["completed by the wrong clock", "without an end"])
def test_after_a_clock_was_ahead_and_is_right_again_every_fire_comes_at_its_time(
    url: str, policy: MisfirePolicy, ends: Instant | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(clock_watch, "_log", SimpleNamespace(warning=lambda event, **_: told.append(event)))

    async def story(engine: Engine) -> None:
        window = {} if ends is None else {"ends_at": format_instant(ends)}
        policies = Policies(misfire=Misfire(policy, max=3))
        job_id = await engine.define(schedule(every="1m", **window), policies)
        watched = Watched(engine)
        await engine.run_until(NOON + 90 * SECOND)
        await watched.look()
        await watched.jump(AHEAD)
        await watched.look()
        await engine.planner.run_once(engine.time.now())
        await watched.jump(-AHEAD)
        await watched.look()
        assert told == ["clock.was_set", "clock.was_set", "clock.jobs_rewound"]
        await engine.run_until(LAST + SECOND)
        assert await ran(engine, job_id) == list(range(NOON + MINUTE, LAST + 1, MINUTE))
        assert not await engine.count("history", "finished_at > tocsin_now() OR state = 'skipped'")

    play(url, NOON, story)


def test_a_clock_that_only_goes_back_undoes_nothing(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1m"), Policies(misfire=Misfire(MisfirePolicy.SKIP)))
        watched = Watched(engine)
        await watched.look()
        await engine.time.advance(DAY)
        await engine.run_until(engine.time.now() + SECOND)
        skipped = await engine.count("history", "job_id = $1 AND state = 'skipped'", job_id)
        await watched.jump(-DAY)
        await watched.look()
        assert await engine.count("history", "job_id = $1 AND state = 'skipped'", job_id) == skipped > 0

    play(url, NOON, story)


def test_a_lease_that_a_lost_node_took_by_the_wrong_clock_ends_soon(url: str) -> None:
    async def story(engine: Engine) -> None:
        await engine.database.execute("UPDATE shards SET expires_at = tocsin_now() + interval '10 days'")
        await Rewinding(engine.database, 30.0).rewind(engine.time.now())
        row = await engine.database.one("SELECT max(expires_at) AS latest FROM shards")
        assert row["latest"] == engine.time.now() + 30 * SECOND

    play(url, NOON, story)
