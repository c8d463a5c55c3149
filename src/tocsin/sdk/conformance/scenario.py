"""What a scenario is: a name, what is expected of the worker, and the play that shows it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocsin.sdk.conformance.stage import Stage

Play = Callable[[Stage], str]
"""Returns what was seen; raises `Unmet` if it is not what is expected."""


@dataclass(frozen=True)
class Scenario:
    """One thing that a worker must get right."""

    name: str
    expects: str
    play: Play
    stage: dict[str, Any] = field(default_factory=dict)
    """How its stage differs from others: leases, clocks."""
