"""All scenarios against one command, a few at a time, and a line for each."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tocsin.sdk.conformance import attempts, ends, trouble
from tocsin.sdk.conformance.scenario import Scenario
from tocsin.sdk.conformance.stage import Stage, Unmet

SCENARIOS: Final[tuple[Scenario, ...]] = (*attempts.SCENARIOS, *trouble.SCENARIOS, *ends.SCENARIOS)


@dataclass(frozen=True)
class Verdict:
    """How a scenario went."""

    scenario: Scenario
    passed: bool
    seen: str
    printed: str = ""
    """The end of what the program printed, of one that failed."""


def judge(
    command: Sequence[str],
    scenarios: Sequence[Scenario] = SCENARIOS,
    *,
    at_once: int = 4,
    patience: float = 20.0,
) -> Iterator[Verdict]:
    """Play scenarios, `at_once` at a time, each with a process and a gateway of its own. A verdict each, in
    order. `patience` is how many seconds a worker has for each step."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda scenario: _play(command, scenario, patience), scenarios)


def _play(command: Sequence[str], scenario: Scenario, patience: float) -> Verdict:
    with Stage(command, patience, **scenario.stage) as stage:
        try:
            seen = scenario.play(stage)
            stage.judge()
        except Unmet as unmet:
            return Verdict(scenario, passed=False, seen=str(unmet), printed=stage.program.printed())
        except OSError as error:
            return Verdict(scenario, passed=False, seen=f"the command cannot be run: {error}")
        return Verdict(scenario, passed=True, seen=seen)
