"""Time that passes only when a test says so: in the event loop, in the services' clock and in the database.

`tocsin_now()` is replaced by a function that reads a sequence, because a sequence changes outside of
transactions: like a real clock it is the same for every session at once, whatever snapshots they hold. The
event loop's own time is the virtual clock too, so timeouts and sleeping calls follow it and no test waits.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from tocsin.clock import VirtualClock
from tocsin.db.pool import Database, open_database
from tocsin.domain.instant import Instant, Span, parse_instant
from tocsin.store.history import HistoryStore

START: Final[Instant] = parse_instant("2030-06-30T23:59:20Z", "start")
"""Forty seconds before a partition of history begins."""
_NOW: Final = """
CREATE SEQUENCE virtual_time AS bigint;
CREATE OR REPLACE FUNCTION tocsin_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT timestamptz 'epoch' + pg_sequence_last_value('tocsin.virtual_time'::regclass) * interval '1 microsecond' $$;
"""
_QUICK: Final = (
    "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$"
)
"""Nothing here survives a power cut, and nothing needs to."""
_T = TypeVar("_T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers follow a virtual clock. I/O is real."""

    def __init__(self, clock: VirtualClock) -> None:
        self._virtual_clock = clock
        super().__init__()

    def time(self) -> float:
        return self._virtual_clock.monotonic()


def run_virtually(clock: VirtualClock, main: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run` on virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)


class VirtualTime:
    """The one time of a test: moves the clock and the database together."""

    def __init__(self, clock: VirtualClock, database: Database) -> None:
        self.clock = clock
        self._database = database

    async def install(self) -> None:
        """Put the database on virtual time, with partitions for its dates and without needless waiting."""
        await self._database.execute(_NOW)
        await self.tell()
        await HistoryStore(self._database).make_partitions(self.clock.now())

    def now(self) -> Instant:
        """The instant that it is everywhere."""
        return self.clock.now()

    async def advance(self, span: Span) -> None:
        """Let `span` microseconds pass everywhere."""
        self.clock.advance(span)
        await self.tell()

    async def advance_to(self, instant: Instant) -> None:
        """Let time pass until `instant`, if that lies ahead."""
        if instant > self.clock.now():
            await self.advance(instant - self.clock.now())

    async def tell(self) -> None:
        """Tell the database what time it is."""
        await self._database.fetchrow("SELECT setval('virtual_time', $1)", self.clock.now())


async def make_quick(url: str) -> None:
    """Let commits in a database of tests wait for no disk."""
    setup = await open_database(url, name="test setup", size=1)
    try:
        await setup.execute(_QUICK)
    finally:
        await setup.close()


async def open_on_virtual_time(
    url: str, clock: VirtualClock, *, size: int = 4
) -> tuple[Database, VirtualTime]:
    """An engine's connections to a database that is put on virtual time."""
    await make_quick(url)
    database = await open_database(url, name="test engine", size=size, pinned=True)
    time = VirtualTime(clock, database)
    await time.install()
    return database, time
