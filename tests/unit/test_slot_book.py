"""A slot of a limit key is used for one thing at a time, whatever answers come, or do not come, and in which
order."""

import copy

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.test_timetable import claim
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit, Policies
from tocsin.queue.claims import Claim
from tocsin.queue.slots.book import LimitKey, Slot, SlotBook, limit_key
from tocsin.queue.work import NO_WORK

NOW = 1_900_000_000 * SECOND
KEYS: tuple[LimitKey, ...] = ((1, "db"), (1, "mail"), (2, "db"))
slots = st.tuples(st.sampled_from(KEYS), st.integers(1, 4))


def wants(key: LimitKey, highest: int | None = 4) -> Claim:
    """A claim of an execution with this limit key."""
    read = msgspec.structs.replace(NO_WORK, policies=Policies(limit=Limit(key[1], max_parallel=highest)))
    made = claim(1, NOW, limit_key=key[1], read=read)
    made.tenant_id = key[0]
    return made


class Book(RuleBasedStateMachine):
    """A worker's book beside what the database says is the worker's."""

    def __init__(self) -> None:
        super().__init__()
        self.book = SlotBook()
        self.ours: set[Slot] = set()
        self.running: list[Claim] = []
        self.strays: list[Claim] = []  # run on, but what they ran on was taken away
        self.offered: dict[LimitKey, list[int]] | None = None
        self.doubts: dict[int, set[Slot]] = {}
        self.leaving: list[Slot] = []
        self.tokens = 0

    @rule(slot=slots)
    def lease(self, slot: Slot) -> None:
        if slot not in self.ours.union(self.leaving):
            self.ours.add(slot)
            self.book.add(slot)

    @rule(key=st.sampled_from(KEYS), highest=st.integers(1, 4))
    def start(self, key: LimitKey, highest: int) -> None:
        asking = wants(key, highest)
        if self.book.seat(asking):
            assert slot_of(asking)[1] <= highest
            self.running.append(asking)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        done = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        assert self.book.leave(done)
        assert done.slot is None

    @precondition(lambda self: self.strays)
    @rule()
    def end_of_a_stray(self) -> None:
        assert not self.book.leave(self.strays.pop())

    @precondition(lambda self: self.offered is None)
    @rule(wanted=st.sets(st.sampled_from(KEYS)))
    def offer(self, wanted: set[LimitKey]) -> None:
        given = self.book.offer([key for key in wanted if key in self.book.idle_keys])
        self.offered = {key: list(numbers) for key, numbers in given.items()}

    @precondition(lambda self: self.offered is not None)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        assert self.offered is not None
        claims = []
        for key, numbers in self.offered.items():
            for _ in range(data.draw(st.integers(0, len(numbers)))):
                started = wants(key)
                started.started_at = NOW
                claims.append(started)
        self.book.accept([*claims, wants(KEYS[0])])
        self.running += claims  # each has a slot, or `slot_of` will tell
        self.offered = None

    @precondition(lambda self: self.offered)
    @rule()
    def lose_the_answer(self) -> None:
        assert self.offered is not None
        self.tokens += 1
        self.book.doubt(self.tokens)
        self.doubts[self.tokens] = {(key, n) for key, numbers in self.offered.items() for n in numbers}
        self.offered = None

    @precondition(lambda self: self.doubts)
    @rule()
    def find_out(self) -> None:
        token, _ = self.doubts.popitem()
        assert token in self.book.tokens_in_doubt
        self.book.resolve(token)

    @precondition(lambda self: not self.leaving)
    @rule(keys=st.sets(st.sampled_from(KEYS)))
    def withdraw(self, keys: set[LimitKey]) -> None:
        self.leaving = self.book.withdraw(keys)

    @rule()
    def given_back(self) -> None:
        self.book.forget(self.leaving)
        self.ours -= set(self.leaving)
        self.leaving = []

    @rule(lost=st.sets(slots), unknown=st.sets(slots))
    def adopt(self, lost: set[Slot], unknown: set[Slot]) -> None:
        used_by = {id(claim): slot_of(claim) for claim in self.running}
        self.ours = (self.ours | (unknown - set(self.leaving))) - lost
        self.book.adopt(set(self.ours))
        for one in self.running:
            assert (one.slot is None) == (used_by[id(one)] not in self.ours)
        self.strays += [claim for claim in self.running if claim.slot is None]
        self.running = [claim for claim in self.running if claim.slot is not None]
        if self.offered is not None:
            self.offered = {
                key: [n for n in numbers if (key, n) in self.ours] for key, numbers in self.offered.items()
            }
        self.doubts = {token: some & self.ours for token, some in self.doubts.items()}

    @invariant()
    def a_slot_that_is_used_for_nothing_is_idle_and_no_other_is(self) -> None:
        used = {slot_of(claim) for claim in self.running}
        assert len(used) == len(self.running)
        offered = {(key, n) for key, numbers in (self.offered or {}).items() for n in numbers}
        elsewhere = used.union(self.leaving, offered, *self.doubts.values())
        idle = copy.deepcopy(self.book).withdraw(KEYS)
        assert sorted(idle) == sorted(self.ours - elsewhere)


def slot_of(claim: Claim) -> Slot:
    assert claim.slot is not None
    return limit_key(claim), claim.slot


TestBook = Book.TestCase
TestBook.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_the_book_of_a_worker_without_slots_is_empty() -> None:
    book = SlotBook()
    assert book.empty
    assert not book.seat(wants(KEYS[0]))
    assert not book.leave(wants(KEYS[0]))


def test_the_end_of_a_stray_does_not_free_the_slot_that_another_claim_has_by_now() -> None:
    book, slot = SlotBook(), (KEYS[0], 1)
    stray, other, third = (wants(KEYS[0]) for _ in range(3))
    book.add(slot)
    assert book.seat(stray)
    book.adopt(set())  # we were taken for dead
    book.add(slot)
    assert book.seat(other)
    assert not book.leave(stray)
    assert not book.seat(third)
