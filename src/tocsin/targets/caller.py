"""What every kind of target offers to a worker.

A new kind is one folder here, one struct in `domain/target.py` and one line where workers are put together. A
caller knows nothing of claims, places and history: it is given an assignment and answers with an outcome.
"""

from typing import Any, Protocol, runtime_checkable

from tocsin.domain.outcome import Outcome, Postponed
from tocsin.targets.assignment import Assignment

Host = tuple[str, int]
"""Name and port."""


class TargetCaller(Protocol):
    """Knows how to call one kind of target.

    `SUCCEEDED` itself, the value, means: succeeded, and there is nothing to tell. A worker settles such
    executions by a shorter statement.
    """

    def host(self, target: Any) -> Host | None:
        """Where the call goes, if a worker's calls to it at once are limited."""

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome | Postponed:
        """One attempt. `timeout` is in seconds and covers all of it. Every way it can end is an outcome; what
        is raised is a defect."""


@runtime_checkable
class CallerAtOnce(Protocol):
    """Knows the outcome of one kind of target at once: asked in passing, without a place, a timeout or a
    task."""

    def answer_at_once(self, target: Any) -> Outcome:
        """The outcome of an attempt."""


Caller = TargetCaller | CallerAtOnce
