"""The timetable gives out each claim once, in order of time, and no earlier before its instant than it says."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.queue.claims import Claim
from tocsin.worker.timetable import CROWD_STARTED_BEFORE, EXACT_STARTED_BEFORE, STARTED_BEFORE, Timetable

instants = st.integers(0, 2 * STARTED_BEFORE)


class TimetableWalk(RuleBasedStateMachine):
    """The timetable against a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.timetable = Timetable()
        self.waiting: list[Claim] = []
        self.number = 0

    @rule(times=st.lists(instants, max_size=5))
    def add(self, times: list[int]) -> None:
        claims = []
        for time in times:
            self.number += 1
            claims.append(claim(self.number, time))
        before = min(map(begins, self.waiting), default=None)
        earlier = self.timetable.add(claims)
        self.waiting += claims
        assert earlier == (bool(times) and (before is None or min(map(begins, claims)) < before))

    @rule(now=instants, limit=st.integers(0, 6))
    def pop_due(self, now: int, limit: int) -> None:
        due = self.timetable.pop_due(now, limit)
        expected = [c for c in self.waiting if begins(c) <= now]
        assert due == sorted(expected, key=lambda c: (c.run_at, c.fire_at))[:limit]
        self.waiting = [c for c in self.waiting if c not in due]

    @rule()
    def pop_all(self) -> None:
        assert sorted(c.fire_at for c in self.timetable.pop_all()) == sorted(c.fire_at for c in self.waiting)
        self.waiting = []

    @invariant()
    def agrees(self) -> None:
        assert len(self.timetable) == len(self.waiting)
        assert bool(self.timetable) == bool(self.waiting)
        assert {c.fire_at for c in self.timetable} == {c.fire_at for c in self.waiting}
        assert self.timetable.next_at() == min(map(begins, self.waiting), default=None)


TestTimetableWalk = TimetableWalk.TestCase


@given(st.lists(instants))
def test_claims_of_one_instant_keep_their_order(times: list[int]) -> None:
    timetable = Timetable()
    timetable.add([claim(number, time) for number, time in enumerate(times)])
    popped = timetable.pop_due(2 * STARTED_BEFORE, len(times))
    assert [c.fire_at for c in popped] == [n for n, _ in sorted(enumerate(times), key=lambda pair: pair[1])]


NOOP, WEBHOOK = '{"kind":"noop"}', '{"kind":"http","url":"https://example.com/"}'
EXACT = '{"precision":"exact"}'
DUE = 3600 * SECOND


def test_a_start_is_asked_for_a_moment_before_the_instant_unless_others_may_wait_for_it() -> None:
    for before, values in (
        (STARTED_BEFORE, {"target": NOOP}),
        (STARTED_BEFORE, {"target": WEBHOOK}),
        (EXACT_STARTED_BEFORE, {"target": WEBHOOK, "policies": EXACT}),
        (0, {"target": NOOP, "limit_key": "k"}),
        (0, {"target": WEBHOOK, "overlap": "skip"}),
    ):
        timetable = Timetable()
        timetable.add([claim(1, DUE, **values)])
        assert timetable.next_at() == DUE - before
        assert timetable.pop_due(DUE - before - 1, 1) == []
        assert len(timetable.pop_due(DUE - before, 1)) == 1


def test_the_larger_a_crowd_the_earlier_it_begins() -> None:
    timetable = Timetable()
    begins = []
    for size in (999, 1, 1000, 8000, 90_000, 50_000):
        timetable.add([claim(number, DUE, target=NOOP) for number in range(size)])
        begins.append((DUE - (timetable.next_at() or 0)) // MILLISECOND)
    assert begins == [25, 65, 105, 425, 4025, 6000]
    assert CROWD_STARTED_BEFORE == 6 * SECOND


def test_a_crowd_leaves_before_its_instant_and_only_the_crowd() -> None:
    timetable = Timetable()
    crowd = [claim(number, DUE, target=NOOP) for number in range(2000)]
    other = claim(5000, DUE - 10 * MILLISECOND, target=NOOP)
    timetable.add([*crowd, other])
    begin = DUE - 105 * MILLISECOND
    assert timetable.pop_due(begin - 1, 10_000) == []
    assert timetable.pop_due(begin, 1500) == crowd[:1500]
    assert timetable.pop_due(begin, 1500) == crowd[1500:]
    assert timetable.pop_due(begin, 1500) == []
    assert timetable.next_at() == begins(other)
    assert list(timetable) == [other]


def test_a_crowd_of_calls_begins_no_earlier_than_one_and_what_others_may_wait_for_not_at_all() -> None:
    for before, values in (
        (STARTED_BEFORE, {"target": WEBHOOK}),
        (0, {"target": NOOP, "limit_key": "k"}),
    ):
        timetable = Timetable()
        timetable.add([claim(number, DUE, **values) for number in range(50_000)])
        assert timetable.next_at() == DUE - before


def test_what_joins_a_crowd_that_has_left_is_started_in_its_time() -> None:
    timetable = Timetable()
    timetable.add([claim(number, DUE, target=NOOP) for number in range(1000)])
    timetable.pop_due(DUE, 1000)
    late = claim(1001, DUE, target=NOOP)
    assert timetable.add([late])
    assert timetable.next_at() == begins(late)
    assert timetable.pop_due(begins(late), 10) == [late]


def test_late_at_the_gate_is_what_is_gated_due_and_not_taken_out() -> None:
    timetable = Timetable()
    gated = [claim(number, DUE + number % 2, target=NOOP, overlap="skip") for number in range(10)]
    timetable.add([*gated, *(claim(number, DUE, target=NOOP) for number in range(10, 20))])
    assert [timetable.late_at_gate(now) for now in (DUE - 1, DUE, DUE + 1)] == [0, 5, 10]
    assert timetable.gated == 10
    timetable.pop_due(DUE, 20)
    assert timetable.gated == timetable.late_at_gate(DUE + 1) == 5
    timetable.pop_all()
    assert timetable.gated == timetable.late_at_gate(DUE + 1) == 0


def begins(waiting: Claim) -> int:
    """When one that is alone leaves."""
    return waiting.run_at - STARTED_BEFORE


def claim(number: int, run_at: int, **values: object) -> Claim:
    """A claim told apart by its fire time."""
    nothing = dict.fromkeys(Claim.__struct_fields__)
    return Claim(**nothing | {"job_id": UUID(int=1), "fire_at": number, "run_at": run_at} | values)
