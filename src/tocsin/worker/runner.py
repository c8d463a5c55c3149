"""Runs attempts.

A started claim becomes a call to its target: trivial targets inline, the others as one task each, at most
`concurrency` at a time. A call whose host has no connection free stands in line (`host_lines`) and takes no place. When
its turn comes it counts as started, and its timeout begins.

Whatever a target does (refuse, hang, answer nonsense, raise) ends as an outcome that is handed to the settler. A claim that was lost is abandoned without an outcome: it belongs to somebody else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import structlog

from tocsin.clock import Clock
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim, without
from tocsin.queue.work import Work
from tocsin.telemetry import Telemetry
from tocsin.worker.alarm import Alarm
from tocsin.worker.descriptors import DescriptorShortage, none_left
from tocsin.worker.host_lines import Host
from tocsin.worker.line_keeper import LineKeeper
from tocsin.worker.settler import Settlement, Settler, lost_by_stopping

_log = structlog.get_logger()


class Caller(Protocol):
    """Knows how to call one kind of target."""

    def host(self, target: Any) -> Host | None:
        """Where the call goes, if only so many at once may go there."""

    async def call(self, claim: Claim, target: Any, timeout: float) -> Outcome | Postponed:
        """One attempt. `timeout` is in seconds and covers all of it."""


class Runner:
    """The attempts under way on this worker."""

    def __init__(
        self,
        callers: Mapping[type, Caller],
        settler: Settler,
        clock: Clock,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        concurrency: int,
        host_concurrency: int = 64,
    ) -> None:
        self._callers = callers
        self._settler = settler
        self._clock = clock
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._concurrency = concurrency
        # By claim, not by execution: one that was lost and claimed again may be under way twice for a moment.
        self._tasks: dict[tuple[ExecutionKey, int], tuple[Claim, asyncio.Task[Outcome | Postponed]]] = {}
        self._given_up: set[tuple[ExecutionKey, int]] = set()
        """Calls that are settled although they may not have ended."""
        self._alarm = Alarm(clock, self._fire)
        self._armed_calls = 0
        self.line_keeper = LineKeeper(settler, clock, places=concurrency, calls_per_host=host_concurrency)
        self.line_keeper.free_places = lambda: self.free
        self.line_keeper.call = self._leave_line
        self._lines = self.line_keeper.lines
        self._shortage = DescriptorShortage()
        self.freed: Callable[[], None] = lambda: None
        self.abandoned: Callable[[Claim], None] = lambda _: None
        """Called with a claim whose attempt is over without an outcome."""

    @property
    def free(self) -> int:
        """How many more calls may begin."""
        return self._concurrency - len(self._tasks) - self._armed_calls

    def claims(self) -> list[Claim]:
        """Claims of the attempts under way, about to fire, or in line for their host."""
        return [*(claim for claim, _ in self._tasks.values()), *self._alarm, *self._lines]

    def run(self, claims: Sequence[Claim]) -> None:
        """Begin attempts that have been started in the database; those started ahead, on their instant."""
        now = self._clock.now()
        claims = self._not_too_late(claims, now)
        if ahead := [claim for claim in claims if claim.run_at > now]:
            self._alarm.set(ahead)
            self._armed_calls += _calls_among(ahead)
            claims = [claim for claim in claims if claim.run_at <= now]
        for claim in claims:
            if claim.started_at == claim.run_at:  # asked for ahead of its instant, and answered only now
                claim.started_at = claim.fired_at = now
        if claims:
            self._begin(claims, now)

    def _fire(self, claims: Sequence[Claim]) -> None:
        """The instant has come of claims that were started ahead of it."""
        now = self._clock.now()
        self._armed_calls -= _calls_among(claims)
        if lost := [claim for claim in claims if claim.deadline_at <= now]:
            for claim in lost:  # this process stood still, and somebody else may have them
                self._lose(claim)
            claims = [claim for claim in claims if claim.deadline_at > now]
        claims = self._not_too_late(claims, now)
        for claim in claims:
            claim.started_at = claim.fired_at = now
        if claims:
            self._begin(claims, now)

    def _not_too_late(self, claims: Sequence[Claim], now: Instant) -> Sequence[Claim]:
        """Those whose latest start has not passed since they were started. The others are given back, to expire."""
        late = [claim for claim in claims if claim.start_by is not None and claim.start_by <= now]
        if not late:
            return claims
        self.give_back(late)
        return [claim for claim in claims if claim.start_by is None or claim.start_by > now]

    def give_back(self, claims: Sequence[Claim]) -> None:
        """Undo the start of what made no call: it goes back as if it had not been claimed."""
        now = self._clock.now()
        for claim in claims:
            self._settler.put(Settlement(claim, _CANCELLED, now, postponed_to=claim.run_at))

    def _begin(self, claims: Sequence[Claim], now: Instant) -> None:
        trivial: list[Claim] = []
        waiting: list[Claim] = []
        for claim in claims:
            if claim.target is None:
                self._settler.put(Settlement(claim, _CANCELLED, now, reason="job deleted"))
                continue
            if not claim.work.calls:
                trivial.append(claim)
            elif (host := self._host(claim.work)) is None or self._lines.enter(host):
                self._call_out(claim, host)
            else:
                waiting.append(claim)
                self.line_keeper.wait_for(host, claim, now)
        self._tell_started(without(claims, waiting) if waiting else claims, now)
        if trivial:
            self._settler.put_succeeded(trivial, now)
        if waiting:
            self.line_keeper.serve()
        self._tell_places()

    def _call_out(self, claim: Claim, host: Host | None) -> None:
        task = asyncio.create_task(self._attempt(claim))
        task.add_done_callback(partial(self._over, claim, host))
        self._tasks[claim.key, claim.token] = (claim, task)

    def _tell_started(self, claims: Sequence[Claim], now: Instant) -> None:
        self._telemetry.started.inc(len(claims))
        self._telemetry.lag.observe(
            [(c.started_at or now) - (c.due_at if c.attempt == 1 else c.run_at) for c in claims]
        )

    def _tell_places(self) -> None:
        self._telemetry.running.set(len(self._tasks))
        self._telemetry.saturation.set(len(self._tasks) / self._concurrency)
        self._telemetry.in_line.set(len(self._lines))

    def _leave_line(self, host: Host, claim: Claim) -> None:
        """The host has a connection free: the call goes out, unless it is too late for it."""
        now = self._clock.now()
        if claim.deadline_at <= now:
            self._lose(claim)
        elif self._not_too_late([claim], now):
            claim.started_at = claim.fired_at = now
            self._tell_started([claim], now)
            self._call_out(claim, host)
            return
        self._lines.leave(host)

    def expire(self, claim: Claim) -> None:
        """End a claim whose latest start has passed; it was never started."""
        reason = "not started by its latest start"
        self._settler.put(Settlement(claim, _EXPIRED, self._clock.now(), State.EXPIRED, reason))

    def call_off(self, claims: Sequence[Claim]) -> None:
        """End claims that were started and asked to stop before they made a call."""
        for claim in claims:
            self._settler.put(Settlement(claim, _CALLED_OFF, self._clock.now()))

    def stop(self, claim: Claim) -> None:
        """Cancel an attempt on request; it ends as cancelled."""
        if entry := self._tasks.get((claim.key, claim.token)):
            entry[1].cancel()
        elif self._disarm(claim):
            self._settler.put(Settlement(claim, _CALLED_OFF, self._clock.now()))
        else:
            self.line_keeper.stop(claim)

    def abandon(self, claim: Claim) -> bool:
        """Give up an attempt whose claim was lost. Whether there was one."""
        entry = self._tasks.pop((claim.key, claim.token), None)
        if entry is not None:
            entry[1].cancel()
            self._telemetry.stale_writes.labels("heartbeat").inc()
        elif self._disarm(claim) or self._lines.drop(claim):
            self._lose(claim)
        else:
            return False
        return True

    def _lose(self, claim: Claim) -> None:
        """Let go of a claim that was lost before it fired."""
        self._telemetry.stale_writes.labels("heartbeat").inc()
        self.abandoned(claim)

    def _disarm(self, claim: Claim) -> bool:
        dropped = self._alarm.drop(claim)
        self._armed_calls -= dropped * _calls_among([claim])
        return dropped

    async def drain(self, seconds: float) -> None:
        """Give back what stands in line. Wait for what is about to fire and for the attempts under way; give up calls that
        take longer, and give back what has not fired."""
        self.line_keeper.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._alarm.rung_out()
                while self._tasks:
                    await asyncio.wait([task for _, task in self._tasks.values()])
        now = self._clock.now()
        self.give_back(self._alarm.close())
        under_way = [(claim, task) for claim, task in self._tasks.values() if not task.done()]
        for claim, task in under_way:
            del self._tasks[claim.key, claim.token]
            self._given_up.add((claim.key, claim.token))
            task.cancel()
            self._settler.put(lost_by_stopping(claim, now))
        if under_way:
            _log.warning("runner.gave_up_calls", count=len(under_way))
        await asyncio.sleep(0)  # in which those that were over just now are settled

    async def _attempt(self, claim: Claim) -> Outcome | Postponed:
        if claim.fired_at is not None:  # of a crowd each has its own beginning
            claim.started_at = claim.fired_at = self._clock.now()
        return await self._call(claim, claim.work)

    def _over(self, claim: Claim, host: Host | None, attempt: "asyncio.Task[Outcome | Postponed]") -> None:
        """An attempt has an outcome, or was cancelled, which may be before it made its first step."""
        if host is not None:
            self._lines.leave(host, self._took(claim, attempt))
        if self._tasks.pop((claim.key, claim.token), None) is None:
            if (claim.key, claim.token) not in self._given_up:
                self.abandoned(claim)  # the claim is somebody else's, and so is the outcome
            return
        outcome = _CANCELLED if attempt.cancelled() else attempt.result()
        now = self._clock.now()
        if isinstance(outcome, Postponed):
            self._settler.put(
                Settlement(
                    claim, _CANCELLED, now, postponed_to=now + outcome.wait, waits_for=outcome.waits_for
                )
            )
        else:
            self._settler.put(Settlement(claim, outcome, now))
        self.line_keeper.serve()
        self.freed()

    def _took(self, claim: Claim, attempt: "asyncio.Task[Outcome | Postponed]") -> Span | None:
        """How long a call took, if it was made."""
        if attempt.cancelled() or isinstance(attempt.result(), Postponed):
            return None
        return max(0, self._clock.now() - (claim.started_at or claim.run_at))

    async def _call(self, claim: Claim, work: Work) -> Outcome | Postponed:
        outcome: Outcome | Postponed
        try:
            await self._failpoints.reach("runner.before_call")
            async with asyncio.timeout(work.timeout / SECOND):
                caller = self._callers[type(work.target)]
                outcome = await caller.call(claim, work.target, work.timeout / SECOND)
            await self._failpoints.reach("runner.called")
        except TimeoutError:
            outcome = Outcome(Verdict.TIMED_OUT, error=f"no answer within {work.timeout / SECOND:g} s")
        except Exception as error:  # noqa: BLE001 - a defect in a caller must not lose the execution
            if none_left(error):
                return self._shortage.put_off(self._clock.now())
            _log.error("runner.call_failed", execution=execution_text(claim.key), exc_info=error)
            outcome = Outcome(Verdict.FAILED, error=f"internal error: {type(error).__name__}")
        return outcome

    def _host(self, work: Work) -> Host | None:
        caller = self._callers.get(type(work.target))
        return None if caller is None else caller.host(work.target)


def _calls_among(claims: Sequence[Claim]) -> int:
    """How many of them will take a place when they fire."""
    return sum(claim.work.calls for claim in claims)


_CANCELLED: Final = Outcome(Verdict.CANCELLED, error="cancelled while running")
_CALLED_OFF: Final = Outcome(Verdict.CANCELLED, error="cancelled just before it fired")
_EXPIRED: Final = Outcome(Verdict.CANCELLED)
