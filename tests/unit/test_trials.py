"""A trial that cannot be made says why, and is no call that timed out."""

import asyncio
from typing import Any

import pytest

from tocsin.api.targets import _answer
from tocsin.api.trials import Trials
from tocsin.clock import DatabaseClock
from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.domain.outcome import Outcome, Postponed
from tocsin.domain.target import HttpTarget
from tocsin.domain.waits import Reason
from tocsin.targets.assignment import Assignment


class Calls:
    """Each call ends as the last did, or never if nothing is left to say."""

    def __init__(self, *ends: Postponed) -> None:
        self._ends = list(ends)

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome | Postponed:
        if not self._ends:
            await asyncio.Event().wait()
        return self._ends.pop(0)


def trial(*ends: Postponed) -> Any:
    trials = Trials({"http": Calls(*ends)}, DatabaseClock())  # type: ignore[dict-item]
    return _answer(asyncio.run(trials.make(1, HttpTarget("http://target.example/"), None, 50 * MILLISECOND)))


@pytest.mark.parametrize("wait", [SECOND, 40 * MILLISECOND], ids=["for long", "twice"])
def test_what_is_put_off_for_its_whole_time_was_not_called_and_says_why(wait: int) -> None:
    answer = trial(Postponed(wait, Reason.HOST_REST), Postponed(wait, Reason.HOST_NAME))
    assert (answer.called, answer.verdict) == (False, None)
    named = "the host of its target was at rest after failing"
    if wait < SECOND:
        named = "the name of its target's host had no answer yet"
    assert answer.error == f"no call was made: {named}"


def test_a_call_that_does_not_end_in_its_time_was_made() -> None:
    answer = trial(Postponed(MILLISECOND, Reason.HOST_NAME))
    assert (answer.called, answer.verdict) == (True, "timed_out")
