"""The timetable gives out each claim once, in order of time, and no earlier before its instant than it
says."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Lane
from tocsin.worker.start_lead import SHORTEST_LEAD as STARTED_BEFORE
from tocsin.worker.timetable import CROWD_STARTED_BEFORE, EXACT_STARTED_BEFORE, Timetable

instants = st.integers(0, 2 * STARTED_BEFORE)
KNOWN: dict[str, object] = {"job_id": UUID(int=1), "queue": "default", "priority": 5, "tenant_id": 1}


class TimetableWalk(RuleBasedStateMachine):
    """The timetable against a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.timetable = Timetable()
        self.earlier: list[bool] = []
        self.timetable.earlier.connect(lambda: self.earlier.append(True))
        self.waiting: list[Claim] = []
        self.number = self.now = self.lined_up = 0

    @rule(times=st.lists(st.tuples(instants, st.integers(1, 3)), max_size=5))
    def add(self, times: list[tuple[int, int]]) -> None:
        claims = []
        for time, tenant in times:
            self.number += 1
            claims.append(claim(self.number, time, tenant_id=tenant))
        before, sent = self.timetable.next_at(), len(self.earlier)
        self.timetable.add(claims)
        self.waiting += claims
        assert (len(self.earlier) > sent) == (
            bool(times) and (before is None or min(map(begins, claims)) < before)
        )

    @rule(passes=st.integers(0, STARTED_BEFORE // 2), limit=st.integers(0, 6))
    def take_due(self, passes: int, limit: int) -> None:
        self.now += passes
        expected: dict[Lane, list[Claim]] = {}
        for waiting in sorted(self.waiting, key=lambda c: (max(begins(c), self.lined_up), c.fire_at)):
            if begins(waiting) <= self.now:
                expected.setdefault(lane_of(waiting), []).append(waiting)
        counts = self.timetable.due(self.now)
        self.lined_up = self.now
        assert counts == {lane: len(claims) for lane, claims in expected.items()}
        due = self.timetable.take_due(dict.fromkeys(counts, limit))
        assert {c.fire_at for c in due} <= {c.fire_at for claims in expected.values() for c in claims}
        assert len(due) == sum(min(limit, len(claims)) for claims in expected.values())
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
        first, next_at = min(map(begins, self.waiting), default=None), self.timetable.next_at()
        assert next_at == first or (next_at is not None and first is not None and next_at < first <= self.now)


TestTimetableWalk = TimetableWalk.TestCase


@given(st.lists(instants))
def test_claims_of_one_instant_keep_their_order(times: list[int]) -> None:
    timetable = Timetable()
    timetable.add([claim(number, time) for number, time in enumerate(times)])
    popped = pop(timetable, 2 * STARTED_BEFORE, len(times))
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
        assert pop(timetable, DUE - before - 1, 1) == []
        assert len(pop(timetable, DUE - before, 1)) == 1


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
    assert pop(timetable, begin - 1, 10_000) == []
    assert pop(timetable, begin, 1500) == crowd[:1500]
    assert pop(timetable, begin, 1500) == crowd[1500:]
    assert pop(timetable, begin, 1500) == []
    assert timetable.next_at() == begins(other)
    assert list(timetable) == [other]


def test_a_crowd_of_calls_begins_as_early_as_the_part_needs_that_there_are_places_for() -> None:
    for places, early, before in ((1000, 1000, 65), (999, 999, 61), (550, 550, 45), (99, 0, 25), (0, 0, 25)):
        timetable = Timetable()
        timetable.add([claim(number, DUE, target=WEBHOOK) for number in range(1000)])
        assert timetable.next_at() == DUE - 65 * MILLISECOND
        while (now := timetable.next_at() or 0) < DUE - STARTED_BEFORE:
            if taken := timetable.take_early(now, 1000, places, first_come):
                break
        assert (len(taken), DUE - now) == (early, before * MILLISECOND)
        assert (len(timetable), sum(timetable.due(DUE - STARTED_BEFORE).values())) == (1000 - early,) * 2


def test_a_crowd_of_calls_larger_than_a_batch_begins_batch_by_batch() -> None:
    timetable = Timetable()
    timetable.add([claim(number, DUE, target=WEBHOOK) for number in range(3000)])
    taken = []
    while (now := timetable.next_at() or 0) and now < DUE - STARTED_BEFORE:
        if batch := timetable.take_early(now, 1000, 5000 - sum(size for _, size in taken), first_come):
            taken.append(((DUE - now) // MILLISECOND, len(batch)))
    assert taken == [(145, 1000), (105, 1000), (65, 1000)]


def test_a_crowd_of_calls_leaves_places_to_what_is_to_start_before_it() -> None:
    timetable = Timetable()
    timetable.add([claim(number, DUE, target=WEBHOOK) for number in range(1000)])
    timetable.add([claim(number, DUE - 5 * MILLISECOND, target=WEBHOOK) for number in range(150)])
    timetable.add(
        [claim(number, DUE - 26 * MILLISECOND, target=WEBHOOK, limit_key="k") for number in range(50)]
    )
    timetable.add([claim(number, DUE + 1, target=WEBHOOK) for number in range(90)])
    now = DUE - 57 * MILLISECOND
    assert len(timetable.take_early(now, 1000, 1000, first_come)) == 800


def test_which_calls_of_a_crowd_begin_early_is_decided_as_for_any_place() -> None:
    timetable = Timetable()
    timetable.add([claim(number, DUE, target=WEBHOOK) for number in range(900)])
    timetable.add([claim(number, DUE, target=WEBHOOK, tenant_id=2) for number in range(100)])
    asked = []

    def share(held: Mapping[Lane, int], places: int) -> Mapping[Lane, int]:
        asked.append((sorted(held.values()), places))
        return {lane: min(count, places // 2) for lane, count in held.items()}

    taken = timetable.take_early(DUE - 45 * MILLISECOND, 1000, 500, share)
    assert asked == [([100, 900], 500)]
    assert Counter(c.tenant_id for c in taken) == {1: 250, 2: 100}


def test_a_crowd_of_calls_without_places_leaves_in_its_time_lane_by_lane() -> None:
    timetable = Timetable()
    timetable.add([claim(number, DUE, target=WEBHOOK, tenant_id=number % 2) for number in range(2000)])
    while (next_at := timetable.next_at() or 0) < DUE - STARTED_BEFORE:
        assert timetable.take_early(next_at, 100, 0, first_come) == []
    assert set(timetable.due(DUE - STARTED_BEFORE).values()) == {1000}


def test_what_others_may_wait_for_does_not_begin_early() -> None:
    timetable = Timetable()
    timetable.add([claim(number, DUE, target=NOOP, limit_key="k") for number in range(50_000)])
    assert timetable.next_at() == DUE


def test_what_joins_a_crowd_that_has_left_is_started_in_its_time() -> None:
    timetable = Timetable()
    timetable.add([claim(number, DUE, target=NOOP) for number in range(1000)])
    pop(timetable, DUE, 1000)
    late = claim(1001, DUE, target=NOOP)
    timetable.add([late])
    assert timetable.next_at() == begins(late)
    assert pop(timetable, begins(late), 10) == [late]


def test_late_at_the_gate_is_what_is_gated_due_and_not_taken_out() -> None:
    timetable = Timetable()
    gated = [claim(number, DUE + number % 2, target=NOOP, overlap="skip") for number in range(10)]
    timetable.add([*gated, *(claim(number, DUE, target=NOOP) for number in range(10, 20))])
    assert [timetable.late_at_gate(now) for now in (DUE - 1, DUE)] == [0, 5]
    assert timetable.gated == 10
    pop(timetable, DUE, 20)
    assert timetable.gated == timetable.late_at_gate(DUE + 1) == 5
    timetable.pop_all()
    assert timetable.gated == timetable.late_at_gate(DUE + 1) == 0


def test_what_reaches_its_time_comes_before_a_crowd_that_begins_early() -> None:
    timetable = Timetable()
    crowd = [claim(number, DUE, target=NOOP) for number in range(3000)]
    timetable.add(crowd)
    now = DUE - 105 * MILLISECOND
    in_time = claim(5000, now, tenant_id=2, target=NOOP)
    timetable.add([in_time])
    assert timetable.due(now) == {lane_of(in_time): 1}
    assert pop(timetable, now, 1001) == [in_time, *crowd[:1000]]
    assert timetable.due(DUE) == {lane_of(crowd[0]): 2000}


def test_those_that_need_a_place_are_known() -> None:
    timetable = Timetable()
    for number, (target, limit_key) in enumerate(
        ((NOOP, None), (WEBHOOK, None), (WEBHOOK, "k"), (NOOP, "k"))
    ):
        timetable.add([claim(number, DUE, target=target, limit_key=limit_key)])
    timetable.due(DUE - 1)
    assert timetable.due_calls == 1, "what others may wait for is not due before its instant"
    timetable.due(DUE)
    assert timetable.due_calls == 2
    pop(timetable, DUE, 9)
    assert (timetable.due_calls, timetable.late_at_gate(DUE)) == (0, 0)


def pop(timetable: Timetable, now: int, limit: int) -> list[Claim]:
    """What leaves if there is room for so many: what has reached its time first, then those of a crowd."""
    takes = {}
    for lane, count in timetable.due(now).items():
        takes[lane] = min(count, limit - sum(takes.values()))
    due = timetable.take_due(takes)
    return due + timetable.take_early(now, limit - len(due), limit - len(due), first_come)


def first_come(held: Mapping[Lane, int], places: int) -> Mapping[Lane, int]:
    """Places for the first lanes."""
    return dict(zip(held, [places], strict=False))


def lane_of(waiting: Claim) -> Lane:
    return waiting.lane


def begins(waiting: Claim) -> int:
    """When one that is alone leaves."""
    return waiting.run_at - STARTED_BEFORE


def claim(number: int, run_at: int, **values: object) -> Claim:
    """A claim told apart by its fire time."""
    nothing = dict.fromkeys(Claim.__struct_fields__)
    return Claim(**nothing | KNOWN | {"fire_at": number, "run_at": run_at} | values)
