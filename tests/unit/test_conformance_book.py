"""The gateway of a conformance run tells a worker that holds claims ready from one that takes too much."""

import pytest

from tocsin.domain.protocol import (
    BATCH_MAX,
    MAX_HELD,
    Ask,
    Heartbeat,
    HeldClaim,
    NewWorker,
    TaskClaim,
    TaskOffer,
)
from tocsin.sdk.conformance import book as book_module
from tocsin.sdk.conformance.book import Book

CAPACITY = 2
LEASE = 3.0


class Claims:
    """A worker with two places and a book with work for it; `age` lets claims grow older."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(book_module, "monotonic", lambda: self.now)
        self.book = Book(lease_ms=int(LEASE * 1000), heartbeat_ms=200, clock_offset=0.0)
        new = NewWorker("host", [TaskOffer("conformance.echo")], capacity=CAPACITY)
        self.worker = self.book.register(new).worker
        self._seq = 0

    def take(self, number: int) -> list[TaskClaim]:
        for value in range(number):
            self.book.add("conformance.echo", {"value": value}, 30_000)
        self._seq += 1
        return self.book.claim(self.worker, Ask(self._seq, number), lambda: False).claims

    def beat(self, claims: list[TaskClaim], running: int | None = None) -> list[str]:
        held = [HeldClaim(claim.id, claim.token) for claim in claims]
        assert self.book.heartbeat(self.worker, Heartbeat(held, running)).lost == []
        return self.book.violations


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Claims:
    return Claims(monkeypatch)


def test_a_worker_may_want_more_than_its_capacity_and_hold_it_ready(claims: Claims) -> None:
    held = claims.take(10 * CAPACITY)
    claims.now += LEASE
    assert claims.beat(held, running=CAPACITY) == []


def test_more_than_the_capacity_that_run_at_once_are_a_violation(claims: Claims) -> None:
    assert claims.beat(claims.take(3), running=3) == ["3 run at once, with a capacity of 2"]


def test_what_is_held_for_long_is_running_so_that_more_than_the_capacity_are_a_violation(
    claims: Claims,
) -> None:
    old = claims.take(CAPACITY)
    claims.now += 2 * LEASE
    young = claims.take(CAPACITY)
    claims.now += 1
    assert claims.beat(old + young, running=CAPACITY) == []
    claims.now += 2 * LEASE
    (violation,) = claims.beat(old + young, running=CAPACITY)
    assert violation.startswith("4 were held for over two leases, with a capacity of 2")


def test_more_than_one_heartbeat_can_name_are_a_violation(claims: Claims) -> None:
    for _ in range(MAX_HELD // BATCH_MAX):
        claims.take(BATCH_MAX)
    assert claims.book.violations == []
    claims.take(1)
    assert claims.book.violations == [f"1 wanted beside {MAX_HELD}: a worker holds at most {MAX_HELD}"]
