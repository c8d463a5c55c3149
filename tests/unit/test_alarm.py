"""The timer of what has started and waits for its instant: in order, never early, nothing that was dropped,
nothing left behind."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tocsin.clock import DatabaseClock, VirtualClock
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.queue.claims import Claim
from tocsin.worker import alarm
from tocsin.worker.alarm import Alarm, LoopTimer


def claim_at(run_at: Instant, policies: str = "{}", tenant: int = 1, priority: int = 5) -> Claim:
    return Claim(
        new_job_id(run_at), run_at, tenant, "default", priority, "noop", run_at, run_at, None, run_at, run_at, 1, 0, None, None, None,
        None, None, NOOP, policies, 1, 7,
    )  # fmt: skip


NOOP = '{"kind":"noop"}'
EXACT = '{"precision":"exact"}'
Story = Callable[[Alarm, DatabaseClock, list[tuple[Instant, Claim]]], Coroutine[Any, Any, None]]


@pytest.fixture(params=["the kernel's timer", "the loop's timer"])
def play(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], None]:
    """Runs a story with each kind of timer; what fired is noted with the instant at which it did."""
    if "loop" in request.param:
        monkeypatch.setattr(alarm, "new_timer", LoopTimer)

    def run(story: Story) -> None:
        async def scenario() -> None:
            clock = DatabaseClock()
            fired: list[tuple[Instant, Claim]] = []
            ringing = Alarm(clock, lambda claims: fired.extend((clock.now(), claim) for claim in claims))
            await story(ringing, clock, fired)
            await ringing.rung_out()
            assert ringing.close() == []

        uvloop.run(scenario())

    return run


def test_claims_fire_in_order_and_never_early(play: Callable[[Story], None]) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        start = clock.now() + 20 * MILLISECOND
        claims = [claim_at(start + n * 700, EXACT if n % 2 else "{}") for n in (5, 0, 3, 1, 4, 2, 2, 2)]
        ringing.set(claims[:4])
        ringing.set(claims[4:])
        await ringing.rung_out()
        assert [claim.run_at for _, claim in fired] == sorted(claim.run_at for claim in claims)
        assert all(at >= claim.run_at for at, claim in fired)

    play(story)


def test_a_crowd_of_instants_fires_in_order_and_never_early(play: Callable[[Story], None]) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        start = clock.now() + 20 * MILLISECOND
        claims = [claim_at(start + n * 7 % 2000 * 10) for n in range(3000)]
        ringing.set(claims)
        dropped = claims[::10]
        assert all(map(ringing.drop, dropped))
        await ringing.rung_out()
        assert [claim.run_at for _, claim in fired] == sorted(
            claim.run_at for n, claim in enumerate(claims) if n % 10
        )
        assert all(at >= claim.run_at for at, claim in fired)

    play(story)


def test_an_instant_whose_claims_were_all_dropped_can_be_set_again(play: Callable[[Story], None]) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        instant = clock.now() + 10 * MILLISECOND
        first, second = claim_at(instant, EXACT), claim_at(instant)
        ringing.set([first])
        ringing.drop(first)
        ringing.set([second])
        await ringing.rung_out()
        assert [claim for _, claim in fired] == [second]
        assert fired[0][0] >= instant

    play(story)


def test_a_crowd_fires_whole_and_lets_others_have_their_turn(play: Callable[[Story], None]) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while len(fired) < len(claims):
                turns += bool(fired)
                await asyncio.sleep(0)

        claims = [claim_at(clock.now() + 50 * MILLISECOND)] * 9000
        ringing.set(claims)
        await others()
        assert [claim for _, claim in fired] == claims
        assert turns > 1

    play(story)


def test_what_lies_in_the_past_fires_at_once(play: Callable[[Story], None]) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        ringing.set([claim_at(clock.now() - MILLISECOND)])
        await ringing.rung_out()
        assert len(fired) == 1

    play(story)


def test_what_was_dropped_does_not_fire_and_the_others_do(play: Callable[[Story], None]) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        first, second = (claim_at(clock.now() + n * 10 * MILLISECOND) for n in (1, 2))
        ringing.set([first, second])
        assert ringing.drop(first)
        assert not ringing.drop(first)
        await ringing.rung_out()
        assert [claim for _, claim in fired] == [second]

    play(story)


def test_closing_waits_for_what_is_armed_also_if_it_is_dropped_meanwhile(
    play: Callable[[Story], None],
) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        late = claim_at(clock.now() + 3_600_000 * MILLISECOND)
        ringing.set([late])
        closing = asyncio.create_task(ringing.rung_out())
        await asyncio.sleep(0)
        assert not closing.done()
        ringing.drop(late)
        await closing
        assert not fired

    play(story)


class Bell:
    """A timer that only notes for how long it was set."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.ring = ring
        self.waits: list[int] = []

    def set(self, wait: int) -> None:
        self.waits.append(wait)


def test_it_wakes_up_early_for_exact_ones_and_seldom_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    bells: list[Bell] = []
    monkeypatch.setattr(alarm, "new_timer", lambda ring: bells.append(Bell(ring)) or bells[0])
    clock, fired = VirtualClock(0), []
    ringing = Alarm(clock, fired.extend)
    first, dense, exact = claim_at(5000), claim_at(5100), claim_at(9000, EXACT)
    ringing.set([first, dense])
    clock.advance(5000)
    bells[0].ring()
    assert (fired, bells[0].waits) == ([first], [5000, 1000])
    ringing.set([exact])  # something exact must not wait for others
    assert bells[0].waits == [5000, 1000, 100]
    clock.advance(100)
    bells[0].ring()
    assert (fired, bells[0].waits[3:]) == ([first, dense], [9000 - 300 - 5100])


def test_it_goes_on_after_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    bells: list[Bell] = []
    monkeypatch.setattr(alarm, "new_timer", lambda ring: bells.append(Bell(ring)) or bells[0])
    clock = VirtualClock(0)

    def fire(_: list[Claim]) -> None:
        raise ZeroDivisionError

    ringing = Alarm(clock, fire)
    ringing.set([claim_at(5000), claim_at(8000)])
    clock.advance(5000)
    with pytest.raises(ZeroDivisionError):
        bells[0].ring()
    assert bells[0].waits == [5000, 3000]
    assert len(ringing) == 1


def test_a_clock_that_was_set_back_and_forth_is_noticed_within_a_second() -> None:
    clock, waits = VirtualClock(10**15), []
    fired: list[Claim] = []

    class Noted:
        set, close = staticmethod(waits.append), staticmethod(lambda: None)

    ringing: Any = Alarm(clock, fired.extend)
    ringing._timer = Noted
    mine = claim_at(clock.now() + 20 * MILLISECOND)
    ringing.set([mine])
    clock.advance(-3600 * SECOND)
    ringing._ring()
    assert (waits, fired) == ([20 * MILLISECOND, SECOND], [])
    clock.advance(3601 * SECOND)
    ringing._ring()
    assert fired == [mine]


def test_a_crowd_at_one_instant_fires_by_priority_and_tenants_take_turns(
    play: Callable[[Story], None],
) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        instant = clock.now() + 20 * MILLISECOND
        ringing.set([claim_at(instant) for _ in range(2000)])
        ringing.set([claim_at(instant, tenant=2), claim_at(instant, tenant=3, priority=0)])
        await ringing.rung_out()
        order = [claim.tenant_id for _, claim in fired]
        assert len(order) == 2002
        assert order[0] == 3
        assert order.index(2) < 500, "it fires with the first of them"

    play(story)


def test_a_crowd_is_overdue_until_the_last_of_it_has_fired(play: Callable[[Story], None]) -> None:
    async def story(ringing: Alarm, clock: DatabaseClock, fired: list[tuple[Instant, Claim]]) -> None:
        start = clock.now() + 5 * MILLISECOND
        ringing.set([claim_at(start) for _ in range(1200)])
        assert not ringing.overdue(start - 1)
        assert ringing.overdue(start)
        while not fired:
            await asyncio.sleep(0.001)
        assert ringing.overdue(clock.now()) == (len(fired) < 1200)
        await ringing.rung_out()
        assert not ringing.overdue(clock.now())

    play(story)
