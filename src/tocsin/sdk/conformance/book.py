"""What the gateway of a conformance run knows: the work it has, who holds it, and everything that was said.

It keeps the server's side of the protocol over a few executions in memory: a settlement counts if and only if
its token is that of the claim. A breach of a rule that holds in every scenario is noted as a violation.
"""

import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any, Final

import msgspec

from tocsin.domain.ids import ExecutionKey, execution_text, new_job_id
from tocsin.domain.instant import SECOND, format_instant
from tocsin.domain.protocol import (
    BATCH_MAX,
    MAX_HELD,
    MAX_RESULT,
    WAIT_MAX_MS,
    Ask,
    ClaimName,
    Given,
    Heard,
    Heartbeat,
    LogLine,
    NewWorker,
    Progress,
    Registered,
    Settled,
    Stop,
    TaskClaim,
    TaskSettlement,
)

FIRST_TOKEN: Final = 2**63 - 1_000_000
"""Tokens have 63 bits: a worker that reads them as floating-point numbers gives back another one."""
_TRACE: Final = "00-6f3a0c1b5d7e9f2a4b6c8d0e1f3a5b7c-9d1e3f5a7b9c1d2e-01"


@dataclass
class Execution:
    """A piece of work, and what became of it."""

    id: str
    task: str
    payload: Any
    timeout_ms: int = 30_000
    attempt: int = 0
    token: str | None = None
    """Of the claim that is held; None while it waits, and once it is over."""
    holder: str = ""
    """The worker that was given it last."""
    given_at: float = 0.0
    settled_at: float = 0.0
    stop: str | None = None
    """Why its worker is asked to stop it."""
    settled: TaskSettlement | None = None
    sent: list[TaskSettlement] = field(default_factory=list)
    """Every settlement that named it, also those that did not count."""
    released: int = 0
    progress: list[Progress] = field(default_factory=list)
    logs: dict[int, LogLine] = field(default_factory=dict)
    named: list[float] = field(default_factory=list)
    """When heartbeats named the claim."""
    lost_tokens: set[str] = field(default_factory=set)
    """Tokens of which the worker was told that they are lost."""

    @property
    def queued(self) -> bool:
        return self.token is None and self.settled is None


class Book:
    """The gateway's memory. Everything happens under `changed`."""

    def __init__(self, *, lease_ms: int, heartbeat_ms: int, clock_offset: float) -> None:
        self.changed = threading.Condition()
        self.lease_ms = lease_ms
        self.heartbeat_ms = heartbeat_ms
        self.clock_offset = clock_offset
        self.executions: dict[str, Execution] = {}
        self.workers: dict[str, NewWorker] = {}
        self.left: set[str] = set()
        self.draining = False
        self.violations: list[str] = []
        self.stop_in_claims = False
        """Whether stops are told by claims instead of heartbeats."""
        self.refuse_results: set[str] = set()
        self._tokens = itertools.count(FIRST_TOKEN)
        self._parked: object | None = None
        self._answers: dict[str, tuple[Ask, Given | None]] = {}

    def now(self) -> str:
        return self._instant(0)

    def add(self, task: str, payload: Any, timeout_ms: int) -> Execution:
        """Work for the worker."""
        at = int(time() * SECOND)
        made = Execution(execution_text(ExecutionKey(new_job_id(at), at)), task, payload, timeout_ms)
        with self.changed:
            self.executions[made.id] = made
            self.changed.notify_all()
        return made

    def take_away(self, execution: Execution) -> None:
        """The claim is over: the worker learns it by its next heartbeat."""
        with self.changed:
            execution.token = None
            self.changed.notify_all()

    def violate(self, rule: str) -> None:
        """The worker broke a rule."""
        with self.changed:
            self.violations.append(rule)
            self.changed.notify_all()

    # The calls of the protocol.

    def register(self, new: NewWorker) -> Registered:
        with self.changed:
            name = f"wrk_{len(self.workers) + 1:013d}"
            self.workers[name] = new
            self.changed.notify_all()
        return Registered(name, self.lease_ms, self.heartbeat_ms, WAIT_MAX_MS, BATCH_MAX, self.now())

    def claim(self, worker: str, ask: Ask, gone: Callable[[], bool], *, waits: bool = True) -> Given:
        """Settle, then wait for work. The same `seq` again is answered with the same answer. What asks for
        nothing ends the request that is parked, and is no part of the count."""
        with self.changed:
            if ask.want == ask.wait_ms == 0:
                self._parked = None
                return Given([], self._settle(ask.settle), [], self.draining, self.now())
            before = self._answers.get(worker)
            if before is not None and before[0].seq == ask.seq:
                if before[0] != ask:
                    self.violations.append(f"claim call {ask.seq} was repeated, but not as it was")
                if before[1] is not None:
                    return before[1]
            elif before is not None and ask.seq < before[0].seq:
                self.violations.append(f"seq went back from {before[0].seq} to {ask.seq}")
            self._answers[worker] = (ask, None)
            settled = self._settle(ask.settle)
            held = sum(one.holder == worker for one in self.executions.values() if one.token is not None)
            if held + ask.want > MAX_HELD:
                self.violations.append(f"{ask.want} wanted beside {held}: a worker holds at most {MAX_HELD}")
            if waits and not self._wait(ask, gone):
                return Given([], settled, [], self.draining, self.now())
            claims = [self._give(one, worker) for one in self._due()[: ask.want]]
            stop = self._stops() if self.stop_in_claims else []
            given = Given(claims, settled, stop, self.draining, self.now())
            self._answers[worker] = (ask, given)
            self.changed.notify_all()
            return given

    def settle(self, settle: Iterable[TaskSettlement]) -> list[Settled]:
        with self.changed:
            return self._settle(settle)

    def heartbeat(self, worker: str, beat: Heartbeat) -> Heard:
        with self.changed:
            self._judge_load(self.workers[worker].capacity, beat)
            lost = []
            for held in beat.held:
                execution = self.executions.get(held.id)
                if execution is None or execution.token != held.token:
                    lost.append(held.id)
                    if execution is not None:
                        execution.lost_tokens.add(held.token)
                    continue
                execution.named.append(monotonic())
                if held.progress is not None:
                    execution.progress.append(held.progress)
                self._keep_logs(execution, held.logs)
            stop = [] if self.stop_in_claims else self._stops()
            self.changed.notify_all()
            return Heard(lost, stop, self._instant(self.lease_ms / 1000), self.draining, self.now())

    def release(self, names: Iterable[ClaimName]) -> int:
        number = 0
        with self.changed:
            for name in names:
                execution = self.executions.get(name.id)
                if execution is not None and execution.token == name.token:
                    execution.token = None
                    execution.attempt -= 1
                    execution.released += 1
                    number += 1
            self.changed.notify_all()
        return number

    def leave(self, worker: str) -> None:
        with self.changed:
            self.left.add(worker)
            self.changed.notify_all()

    # How they do it.

    def _judge_load(self, capacity: int, beat: Heartbeat) -> None:
        """No more run than the worker said, and what is held ready is begun within the lease or released. So
        no more than run can be held for longer; a second lease is for what is under way."""
        if beat.running is not None and beat.running > capacity:
            self.violations.append(f"{beat.running} run at once, with a capacity of {capacity}")
        since = monotonic() - 2 * self.lease_ms / 1000
        named = [one for held in beat.held if (one := self.executions.get(held.id)) is not None]
        old = sum(one.token is not None and one.given_at < since for one in named)
        if old > capacity:
            self.violations.append(
                f"{old} were held for over two leases, with a capacity of {capacity}: what is not begun goes back"
            )

    def _wait(self, ask: Ask, gone: Callable[[], bool]) -> bool:
        """Park the request; whether its worker still waits for it. A worker asks once at a time: another
        request ends the one before."""
        self._parked = mine = object()
        self.changed.notify_all()
        until = monotonic() + ask.wait_ms / 1000
        while self._parked is mine and not self.draining and not gone():
            told_to_stop = self.stop_in_claims and any(one.stop for one in self.executions.values())
            left = until - monotonic()
            if told_to_stop or left <= 0 or (ask.want > 0 and self._due()):
                break
            self.changed.wait(min(left, 0.1))
        return self._parked is mine and not gone()

    def _due(self) -> list[Execution]:
        return [] if self.draining else [one for one in self.executions.values() if one.queued]

    def _give(self, execution: Execution, worker: str) -> TaskClaim:
        execution.token, execution.attempt = str(next(self._tokens)), execution.attempt + 1
        execution.given_at, execution.holder = monotonic(), worker
        now = self.now()
        return TaskClaim(
            execution.id, execution.token, execution.task, execution.payload, execution.attempt, now, now,
            execution.timeout_ms, self._instant(self.lease_ms / 1000), execution.id, _TRACE, "default",
        )  # fmt: skip

    def _settle(self, settle: Iterable[TaskSettlement]) -> list[Settled]:
        answers = [answer for one in settle if (answer := self._settle_one(one)) is not None]
        self.changed.notify_all()
        return answers

    def _settle_one(self, told: TaskSettlement) -> Settled | None:
        execution = self.executions.get(told.id)
        if execution is None:
            return Settled(told.id, "refused", "this names no claim")
        execution.sent.append(told)
        if told.token in execution.lost_tokens:
            self.violations.append(f"{execution.task} was settled although its claim was said to be lost")
        if execution.settled is not None and execution.settled.token == told.token:
            return None  # repeated
        if execution.token != told.token:
            return Settled(told.id, "lost")
        size = len(msgspec.json.encode(told.result))
        if size > MAX_RESULT or (execution.id in self.refuse_results and told.verdict == "succeeded"):
            return Settled(told.id, "refused", f"a result has at most {MAX_RESULT} bytes, not {size}")
        self._keep_logs(execution, told.logs)
        execution.token, execution.settled, execution.settled_at = None, told, monotonic()
        return None

    def _keep_logs(self, execution: Execution, lines: Iterable[LogLine]) -> None:
        for line in lines:
            before = execution.logs.setdefault(line.seq, line)
            if before.message != line.message:
                self.violations.append(f"two lines of one attempt have the number {line.seq}")

    def _stops(self) -> list[Stop]:
        asked = [one for one in self.executions.values() if one.stop is not None and one.token is not None]
        told = [Stop(one.id, one.stop or "") for one in asked]
        for one in asked:
            one.stop = None
        return told

    def _instant(self, ahead: float) -> str:
        return format_instant(int((time() + self.clock_offset + ahead) * SECOND))
