"""A clock that runs many times as fast as the real one, the same for the test and its database.

For tests with real concurrency: connections really race, but a wait of half a minute is over in a second.
"""

import time

from tocsin.db.pool import Database
from tocsin.domain.instant import SECOND, Instant

_NOW = """
CREATE OR REPLACE FUNCTION tocsin_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT to_timestamp({real}) + (clock_timestamp() - to_timestamp({real})) * {speed} $$;
"""


class HastyClock:
    """Database time, `speed` times as fast from now on."""

    def __init__(self, speed: int) -> None:
        self.speed = speed
        self._real = round(time.time(), 6)

    async def install(self, database: Database) -> None:
        await database.execute(_NOW.format(real=self._real, speed=self.speed))

    def now(self) -> Instant:
        return round((self._real + (time.time() - self._real) * self.speed) * SECOND)

    def monotonic(self) -> float:
        return time.monotonic() * self.speed
