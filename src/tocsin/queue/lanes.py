"""Lanes: where executions wait, and what a look at them shows.

A lane is one queue × priority × tenant × route. The route says which workers can run what waits there: a
worker announces the routes that it serves and asks for no others, so executions of a kind that no worker of
this version knows cost nothing. The database says which lanes have something due (`claiming/looking.py`);
`allotment` decides how much to take from each.
"""

from typing import NamedTuple

import msgspec

from tocsin.domain.instant import Instant


class Lane(NamedTuple):
    """One line of waiting executions."""

    queue: str
    priority: int
    tenant_id: int
    route: str


class LaneView(msgspec.Struct, frozen=True, gc=False):
    """A lane as the database showed it: its tenant's weight and limits, and when its next execution is
    due."""

    lane: Lane
    weight: int
    next_run_at: Instant
    in_flight: int | None = None
    fires_per_second: float | None = None
    crowded: bool = False
    """Whether more is due soon than can be claimed in the last moments."""
