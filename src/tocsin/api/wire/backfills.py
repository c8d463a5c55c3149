"""Backfills: a past range to run, and how far it has come."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time
from tocsin.domain.backfill import Mode, Order
from tocsin.domain.ids import JobText
from tocsin.domain.written import UpToAnHour


class NewBackfill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """A past range to run."""

    from_: Time
    to: Time
    mode: Mode = Mode.MISSING
    order: Order = Order.OLDEST_FIRST
    pace: UpToAnHour = 0
    max_parallel: Annotated[int, Meta(ge=1, le=10_000)] = 10
    dry_run: bool = False


class Backfill(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A backfill and how far it has come."""

    id: int
    job_id: JobText
    job_name: str | None
    state: str
    from_: Time
    to: Time
    mode: Mode
    order: Order
    pace: str
    max_parallel: int
    total: int
    queued: int
    left_out: int
    live: int
    finished: int
    created_at: Time
    finished_at: Time | None


class BackfillAnswer(msgspec.Struct, frozen=True):
    """What a backfill runs, or would run."""

    backfill: Backfill | None
    total: int
    fire_times: list[Time]
    """The first hundred."""


class BackfillPage(Page, frozen=True, kw_only=True):
    """Backfills, newest first."""

    items: list[Backfill]
