"""Hints from the database: one LISTEN connection per process.

A notice says that looking now is worthwhile; it is never the truth and may be lost. Everything that hears
notices also looks by itself now and then. After a reconnect all listeners are woken once, because whatever
was said meanwhile is gone.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, Final

import structlog

from tocsin.db.pool import open_connection
from tocsin.db.presence import Presence
from tocsin.db.trouble import translating
from tocsin.domain.errors import Unavailable

CHANNEL: Final = "tocsin"
_log = structlog.get_logger()


class Notices:
    """Wakes the parts that registered for a word: `ready`, `plan`, `shards`, `slots`, `stop` and others."""

    def __init__(self, presence: Presence, name: str) -> None:
        self._presence = presence
        self._name = name
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._hearers: dict[str, list[Callable[[str | None], None]]] = {}

    def on(self, word: str, wake: Callable[[], None]) -> None:
        """Call `wake` whenever `word` is said."""
        self._listeners.setdefault(word, []).append(wake)

    def hear(self, word: str, hear: Callable[[str | None], None]) -> None:
        """Call `hear` with what follows ``word:`` whenever it is said; with None when a notice may have been
        missed."""
        self._hearers.setdefault(word, []).append(hear)

    async def run(self) -> None:
        """Listen until cancelled, reconnecting with a jittered pause."""
        while True:
            await self._presence.wait_until_there()
            try:
                with translating():
                    await self._listen()
            except (Unavailable, OSError) as error:
                _log.warning("notices.unavailable", error=str(error))
            await asyncio.sleep(random.uniform(0.1, 0.5))

    async def _listen(self) -> None:
        connection = await open_connection(self._presence, name=self._name, starting=False)
        closed = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: closed.set())
            await connection.add_listener(CHANNEL, self._heard)
            self._wake(self._listeners)
            for hear in [hear for hearers in self._hearers.values() for hear in hearers]:
                hear(None)
            while not closed.is_set():
                # The probe notices a server that vanished without closing the connection.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(closed.wait(), 30)
                if not closed.is_set():
                    await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._wake(str(payload).split())

    def _wake(self, words: Any) -> None:
        for word in words:
            for wake in self._listeners.get(word, ()):
                wake()
            name, _, what = word.partition(":")
            for hear in self._hearers.get(name, ()) if what else ():
                hear(what)
