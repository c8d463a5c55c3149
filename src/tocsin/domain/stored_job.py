"""A stored job's schedule, target and policies as values. What a newer version wrote raises `Unreadable`, and
nothing else."""

from collections.abc import Callable
from typing import Final

from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.stored import reader
from tocsin.domain.target import Target

read_schedule: Final[Callable[[str], Schedule]] = reader(Schedule, "schedule")
read_target: Final[Callable[[str], Target]] = reader(Target, "target")
read_policies: Final[Callable[[str], Policies]] = reader(Policies, "policies")
