"""The timetable gives out each claim once, in order of time, and never before its time."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tocsin.queue.claims import Claim
from tocsin.worker.timetable import Timetable

instants = st.integers(0, 100)


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
        before = min((c.run_at for c in self.waiting), default=None)
        earlier = self.timetable.add(claims)
        self.waiting += claims
        assert earlier == (bool(times) and (before is None or min(times) < before))

    @rule(now=instants, limit=st.integers(0, 6))
    def pop_due(self, now: int, limit: int) -> None:
        due = self.timetable.pop_due(now, limit)
        expected = sorted((c for c in self.waiting if c.run_at <= now), key=lambda c: (c.run_at, c.fire_at))[
            :limit
        ]
        assert due == expected
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
        assert self.timetable.next_at() == min((c.run_at for c in self.waiting), default=None)


TestTimetableWalk = TimetableWalk.TestCase


@given(st.lists(instants))
def test_claims_of_one_instant_keep_their_order(times: list[int]) -> None:
    timetable = Timetable()
    timetable.add([claim(number, time) for number, time in enumerate(times)])
    popped = timetable.pop_due(100, len(times))
    assert [c.fire_at for c in popped] == [n for n, _ in sorted(enumerate(times), key=lambda pair: pair[1])]


def claim(number: int, run_at: int) -> Claim:
    """A claim told apart by its fire time."""
    values = dict.fromkeys(Claim.__struct_fields__)
    return Claim(**values | {"job_id": UUID(int=1), "fire_at": number, "run_at": run_at})
