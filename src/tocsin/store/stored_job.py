"""A stored job's schedule and policies as values. What a newer version wrote raises `Unreadable`, and nothing else."""

from collections.abc import Callable
from typing import Final

from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.stored import reader

read_schedule: Final[Callable[[str], Schedule]] = reader(Schedule, "schedule")
read_policies: Final[Callable[[str], Policies]] = reader(Policies, "policies")
