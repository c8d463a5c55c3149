"""Runs attempts.

A started claim becomes a call to its target. Targets that answer at once are asked in passing; every other
call is a task and takes a place. A call whose host has no connection free stands in line (`host_lines`) and
takes no place. When its turn comes it counts as started, and its timeout begins.

Whatever a target does (refuse, hang, answer nonsense, raise) ends as an outcome that is handed to the
settler. A claim that was lost is abandoned without an outcome: it belongs to another worker.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, cast

import structlog

from tocsin.clock import Clock
from tocsin.domain.ids import execution_text
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import SUCCEEDED, Outcome, Postponed, Verdict
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim, ClaimIdentity, without
from tocsin.queue.slots.slots import Slots
from tocsin.queue.work import Work
from tocsin.signals import Signal
from tocsin.targets.assignment import Assignment
from tocsin.targets.caller import Caller, CallerAtOnce, Host
from tocsin.targets.descriptors import DescriptorShortage, none_left
from tocsin.telemetry import Telemetry
from tocsin.worker.armed import Armed
from tocsin.worker.line_keeper import LineKeeper
from tocsin.worker.places import Places
from tocsin.worker.settler import Settlement, Settler, lost_by_stopping
from tocsin.worker.started import tell_started
from tocsin.worker.timeouts import CallTask, Timeouts
from tocsin.worker.timetable import Timetable

_TOLD_TOGETHER: Final = 64
_log = structlog.get_logger()
_Call = tuple[Claim, "asyncio.Task[Outcome | Postponed]"]


class Runner:
    """The attempts under way on this worker."""

    def __init__(
        self,
        callers: Mapping[str, Caller],
        settler: Settler,
        places: Places,
        timetable: Timetable,
        slots: Slots,
        clock: Clock,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        host_concurrency: int = 64,
        rooms: Mapping[Host, int] | None = None,
    ) -> None:
        """`callers` by the routes that they serve."""
        self._callers = {r: c for r, c in callers.items() if not isinstance(c, CallerAtOnce)}
        self._callers_at_once = {r: c for r, c in callers.items() if isinstance(c, CallerAtOnce)}
        self._settler = settler
        self._places = places
        self._slots = slots
        self._clock = clock
        self._telemetry = telemetry
        self._failpoints = failpoints
        # By claim, not by execution: one that was lost and claimed again may be under way twice for a moment.
        self._tasks: dict[ClaimIdentity, _Call] = {}
        self._given_up: set[ClaimIdentity] = set()
        """Calls that are settled although they may not have ended."""
        self._armed = Armed(clock, places, self._fire)
        self.line_keeper = LineKeeper(
            settler,
            clock,
            places,
            timetable,
            self._leave_line,
            calls_per_host=host_concurrency,
            rooms=rooms,
        )
        self._lines = self.line_keeper.lines
        self._left_line: list[Claim] = []
        """Those that left their line and are not counted as started yet."""
        self._timeouts = Timeouts()
        self._shortage = DescriptorShortage()
        self.freed = Signal("place_freed")
        """Sent when a call is over."""

    def claims(self) -> list[Claim]:
        """Claims of the attempts under way, about to fire, or in line for their host."""
        return [*(claim for claim, _ in self._tasks.values()), *self._armed, *self._lines]

    def is_firing(self, now: Instant) -> bool:
        """Whether a crowd is firing, and the rest of it waits for the event loop."""
        return self._armed.overdue(now)

    def run(self, claims: Sequence[Claim]) -> None:
        """Begin attempts that have been started in the database; those started ahead, on their instant."""
        now = self._clock.now()
        claims = self._not_too_late(claims, now)
        if ahead := [claim for claim in claims if claim.run_at > now]:
            self._armed.arm(ahead)
            claims = [claim for claim in claims if claim.run_at <= now]
        for claim in claims:
            if claim.started_at == claim.run_at:  # armed by the database, and answered only after its instant
                claim.started_at = claim.fired_at = now
        if claims:
            self._begin(claims, now)

    def _fire(self, claims: Sequence[Claim]) -> None:
        """The instant of armed claims has come."""
        now = self._clock.now()
        if lost := [claim for claim in claims if claim.deadline_at <= now]:
            for claim in lost:  # this process stood still, and another worker may have them
                self._lose(claim)
            claims = [claim for claim in claims if claim.deadline_at > now]
        claims = self._not_too_late(claims, now)
        for claim in claims:
            claim.started_at = claim.fired_at = now
        if claims:
            self._begin(claims, now)

    def _not_too_late(self, claims: Sequence[Claim], now: Instant) -> Sequence[Claim]:
        """Those whose latest start has not passed since they were started. The others are given back, to
        expire."""
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
        succeeded: list[Claim] = []
        waiting: list[Claim] = []
        for claim in claims:
            if claim.target is None:
                self._settler.put(Settlement(claim, _CANCELLED, now, reason="job deleted"))
                continue
            work = claim.work
            if not work.takes_place:
                if (outcome := self._answer_at_once(claim, work)) is SUCCEEDED:
                    succeeded.append(claim)
                else:
                    self._settler.put(Settlement(claim, outcome, now))
            elif (host := self._host_of(work)) is None or self._lines.enter(host):
                self._call_out(claim, host)
            else:
                waiting.append(claim)
                self.line_keeper.wait_for(host, claim, now)
        tell_started(self._telemetry, without(claims, waiting) if waiting else claims, now)
        if succeeded:
            self._settler.put_succeeded(succeeded, now)
        if waiting:
            self.line_keeper.serve()
        self._tell_places()

    def _answer_at_once(self, claim: Claim, work: Work) -> Outcome:
        try:
            return self._callers_at_once[work.route].answer_at_once(work.target)
        except Exception as error:  # noqa: BLE001 - a defect in a caller concerns no other claim of the batch
            return _defect(claim, error)

    def _host_of(self, work: Work) -> Host | None:
        """Where a call goes to. What cannot be found out ends the attempt when the call is made, and concerns
        no other claim of the batch."""
        try:
            return self._callers[work.route].host(work.target)
        except Exception:  # noqa: BLE001 - see above
            return None

    def _call_out(self, claim: Claim, host: Host | None) -> None:
        task = asyncio.create_task(self._attempt(claim))
        task.add_done_callback(partial(self._over, claim, host))
        self._tasks[claim.identity] = (claim, task)
        self._places.running = len(self._tasks)

    def _tell_left_line(self, now: Instant) -> None:
        told, self._left_line = self._left_line, []
        tell_started(self._telemetry, told, now)

    def _tell_places(self) -> None:
        self._telemetry.running.set(len(self._tasks))
        self._telemetry.saturation.set(len(self._tasks) / self._places.capacity)
        self._telemetry.in_line.set(len(self._lines))

    def _leave_line(self, host: Host, claim: Claim) -> None:
        """The host has a connection free: the call goes out, unless it is too late for it."""
        now = self._clock.now()
        if claim.deadline_at <= now:
            self._lose(claim)
        elif claim.start_by is not None and claim.start_by <= now:
            self.give_back([claim])
        else:
            claim.started_at = claim.fired_at = now
            self._left_line.append(claim)
            if len(self._left_line) >= _TOLD_TOGETHER or not len(self._lines):
                self._tell_left_line(now)
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
        if entry := self._tasks.get(claim.identity):
            entry[1].cancel()
        elif self._armed.disarm(claim):
            self._settler.put(Settlement(claim, _CALLED_OFF, self._clock.now()))
        else:
            self.line_keeper.stop(claim)

    def abandon(self, claim: Claim) -> bool:
        """Give up an attempt whose claim was lost. Whether there was one."""
        entry = self._forget_call(claim)
        if entry is not None:
            entry[1].cancel()
            self._telemetry.stale_writes.labels("heartbeat").inc()
        elif self._armed.disarm(claim) or self._lines.drop(claim):
            self._lose(claim)
        else:
            return False
        return True

    def _lose(self, claim: Claim) -> None:
        """Let go of a claim that was lost before it fired."""
        self._telemetry.stale_writes.labels("heartbeat").inc()
        self._leave_slot(claim)

    def _leave_slot(self, claim: Claim) -> None:
        """An attempt is over without an outcome: an execution that waits for the slot may have it."""
        if claim.limit_key is not None:
            self._slots.abandon(claim)

    def _forget_call(self, claim: Claim) -> _Call | None:
        entry = self._tasks.pop(claim.identity, None)
        self._places.running = len(self._tasks)
        return entry

    async def drain(self, seconds: float) -> None:
        """Give back what stands in line. Wait for what is about to fire and for the attempts under way; give
        up calls that take longer, and give back what has not fired."""
        self.line_keeper.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._armed.all_fired()
                while self._tasks:
                    await asyncio.wait([task for _, task in self._tasks.values()])
        now = self._clock.now()
        self.give_back(self._armed.close())
        under_way = [(claim, task) for claim, task in self._tasks.values() if not task.done()]
        for claim, task in under_way:
            self._forget_call(claim)
            self._given_up.add(claim.identity)
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
        now = self._clock.now()
        outcome = self._outcome(claim, attempt)
        if host is not None:
            self._lines.leave(host, _took(claim, outcome, now))
        if self._forget_call(claim) is None:
            if claim.identity not in self._given_up:
                self._leave_slot(claim)  # the claim is another worker's, and so is the outcome
            return
        if isinstance(outcome, Postponed):
            self._settler.put(
                Settlement(
                    claim, _CANCELLED, now, postponed_to=now + outcome.wait, waits_for=outcome.waits_for
                )
            )
        else:
            self._settler.put(Settlement(claim, outcome, now))
        self.line_keeper.serve()
        self.freed.send()

    def _outcome(self, claim: Claim, attempt: "asyncio.Task[Outcome | Postponed]") -> Outcome | Postponed:
        timed_out = self._timeouts.over(attempt)
        if not attempt.cancelled():
            return attempt.result()
        return _no_answer_within(claim.work.timeout) if timed_out else _CANCELLED

    async def _call(self, claim: Claim, work: Work) -> Outcome | Postponed:
        outcome: Outcome | Postponed
        try:
            await self._failpoints.reach("runner.before_call")
            task = cast("CallTask", asyncio.current_task())
            self._timeouts.watch(task, work.timeout / SECOND)
            caller = self._callers[work.route]
            outcome = await caller.call(assignment_of(claim), work.target, work.timeout / SECOND)
            self._timeouts.answered(task)
            await self._failpoints.reach("runner.called")
        except TimeoutError:
            outcome = _no_answer_within(work.timeout)
        except Exception as error:  # noqa: BLE001 - a defect in a caller must not lose the execution
            if none_left(error):
                return self._shortage.put_off(self._clock.now())
            outcome = _defect(claim, error)
        return outcome


def _defect(claim: Claim, error: Exception) -> Outcome:
    _log.error("runner.call_failed", execution=execution_text(claim.key), exc_info=error)
    return Outcome(Verdict.FAILED, error=f"internal error: {type(error).__name__}")


def _no_answer_within(timeout: Span) -> Outcome:
    return Outcome(Verdict.TIMED_OUT, error=f"no answer within {timeout / SECOND:g} s")


def _took(claim: Claim, outcome: Outcome | Postponed, now: Instant) -> Span | None:
    """How long a call took, if it was made and not called off."""
    if outcome is _CANCELLED or isinstance(outcome, Postponed):
        return None
    return max(0, now - (claim.started_at or claim.run_at))


def assignment_of(claim: Claim) -> Assignment:
    """What the target is told about an attempt that has started."""
    return Assignment(
        claim.job_id,
        claim.fire_at,
        claim.tenant_id,
        claim.attempt,
        claim.token,
        claim.due_at,
        claim.run_at,
        claim.run_at if claim.started_at is None else claim.started_at,
        claim.origin_fire_at,
        claim.queue,
    )


_CANCELLED: Final = Outcome(Verdict.CANCELLED, error="cancelled while running")
_CALLED_OFF: Final = Outcome(Verdict.CANCELLED, error="cancelled just before it fired")
_EXPIRED: Final = Outcome(Verdict.CANCELLED)
