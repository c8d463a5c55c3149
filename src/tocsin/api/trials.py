"""Calls that users ask for to see what happens: one attempt at once, of which nothing is stored.

The call is made by the caller that a worker would use, behind the same wall. A trial that was put off (its
host is at rest, its name not resolved yet) is tried again while its time lasts. Each tenant may make few of
them, so that the API is no way to send load somewhere.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from tocsin.api.throttle import Throttle
from tocsin.clock import Clock
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import SECOND, Span
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.target import Target, route_of
from tocsin.domain.task_target import TaskTarget
from tocsin.targets.assignment import Assignment
from tocsin.targets.caller import Caller, CallerAtOnce

LONGEST: Final[Span] = 25 * SECOND
PER_SECOND: Final = 1.0
BURST: Final = 10
_AT_ONCE: Final = 32


class Trial(msgspec.Struct, frozen=True):
    """How a trial ended. Postponed: no call was made."""

    execution: str
    outcome: Outcome | Postponed
    took: Span


class Trials:
    """The trials of one API process."""

    def __init__(self, callers: Mapping[str, Caller], clock: Clock) -> None:
        self._callers = callers
        self._clock = clock
        self._throttle = Throttle(clock)
        self._under_way = 0

    async def make(self, tenant_id: int, target: Target, name: str | None, timeout: Span) -> Trial:
        """Call a target that was checked, once."""
        caller = self._caller(target)
        self._throttle.take(tenant_id, PER_SECOND, BURST, "trials", "more than 1 trial per second")
        if self._under_way >= _AT_ONCE:
            raise Unavailable("too many trials are under way; try again in a moment")
        began = self._clock.now()
        assignment = Assignment(
            new_job_id(began), began, tenant_id, 1, 0, began, began, began, name="" if name is None else name
        )
        self._under_way += 1
        try:
            outcome = await _outcome(caller, assignment, target, min(timeout, LONGEST))
        finally:
            self._under_way -= 1
        return Trial(assignment.execution, outcome, self._clock.now() - began)

    def _caller(self, target: Target) -> Caller:
        if isinstance(target, TaskTarget):
            raise Refused(
                "a task runs on a remote worker and cannot be tried here",
                field="target.kind",
                hint="create a job with the schedule now",
            )
        caller = self._callers.get(route_of(target))
        if caller is None:
            raise Refused("this API process cannot call targets of this kind", field="target.kind")
        return caller


async def _outcome(
    caller: Caller, assignment: Assignment, target: Target, timeout: Span
) -> Outcome | Postponed:
    """What became of one call, or why none could be made in time."""
    if isinstance(caller, CallerAtOnce):
        return caller.answer_at_once(target)
    seconds = timeout / SECOND
    put_off: Postponed | None = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                outcome = await caller.call(assignment, target, seconds)
                if not isinstance(outcome, Postponed) or outcome.wait >= timeout:
                    return outcome
                put_off = outcome
                await asyncio.sleep(outcome.wait / SECOND)
                put_off = None
    except TimeoutError:
        return put_off or Outcome(Verdict.TIMED_OUT, error=f"no answer within {seconds:g} s")
