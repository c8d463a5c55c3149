"""One connection's messages on this worker: whatever comes while batches are under way leaves together.

No message has a round trip of its own. An idle publisher sends at once; a busy one sends what has gathered as
soon as there is room. Up to `in_flight` messages are under way in up to `_BATCHES` batches, so one batch that
waits for a slow part of a broker does not hold up the others. A message whose caller gave up before it left
is not sent. A connection unused for a minute is closed, and opened again by the next message.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from tocsin.targets.message.broker import Broker, NotOpened
from tocsin.targets.message.message import Parcel, lost

_BATCHES: Final = 4
_IDLE_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 5.0


class Publisher:
    """Sends parcels over a broker that `open_broker` opens when there is something to send."""

    def __init__(
        self,
        open_broker: Callable[[], Awaitable[Broker]],
        in_flight: int,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._open_broker = open_broker
        self._in_flight = in_flight
        self._idle_seconds = idle_seconds
        self._waiting: deque[Parcel] = deque()
        self._under_way = 0
        self._batches: set[asyncio.Task[None]] = set()
        self._broker: Broker | None = None
        self._opening = asyncio.Lock()
        self._scheduled = False
        self._resting: asyncio.TimerHandle | None = None
        self._closings: set[asyncio.Task[None]] = set()

    def send(self, parcel: Parcel) -> None:
        """Send it soon, with whatever else is sent in this turn of the event loop."""
        self._waiting.append(parcel)
        self._schedule()

    async def close(self) -> None:
        """Wait for what is under way, briefly, and leave."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._batches or self._waiting:
                    await (asyncio.wait(self._batches) if self._batches else asyncio.sleep(0))
        for batch in self._batches:
            batch.cancel()
        self._drop(self._broker)
        if self._resting is not None:
            self._resting.cancel()
        if self._closings:
            await asyncio.wait(self._closings, timeout=_CLOSE_SECONDS)

    def _schedule(self) -> None:
        if not self._scheduled and len(self._batches) < _BATCHES:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        self._scheduled = False
        parcels: list[Parcel] = []
        while self._waiting and self._under_way + len(parcels) < self._in_flight:
            parcel = self._waiting.popleft()
            if not parcel.ended.done():
                parcels.append(parcel)
        if not parcels:
            return
        self._under_way += len(parcels)
        batch = asyncio.create_task(self._send(parcels), name="message batch")
        self._batches.add(batch)
        batch.add_done_callback(lambda done: self._sent(done, len(parcels)))

    def _sent(self, batch: asyncio.Task[None], size: int) -> None:
        self._batches.discard(batch)
        self._under_way -= size
        if self._waiting:
            self._schedule()
        elif not self._batches:
            self._rest_later()

    async def _send(self, parcels: list[Parcel]) -> None:
        """Every way in which this ends, ends every parcel."""
        broker: Broker | None = None
        try:
            async with asyncio.timeout_at(max(parcel.deadline for parcel in parcels)):
                broker = await self._ready()
                await broker.publish(parcels)
        except NotOpened as error:
            for parcel in parcels:
                parcel.end(error.outcome)
        except TimeoutError:
            self._drop(broker)  # it hangs: others would wait for it as long
        except asyncio.CancelledError:
            self._drop(broker)
            raise
        except Exception as error:  # noqa: BLE001 - handed to every caller, whose worker logs it
            self._drop(broker)
            for parcel in parcels:
                if not parcel.ended.done():
                    parcel.ended.set_exception(error)
        finally:
            for parcel in parcels:
                parcel.end(lost())

    async def _ready(self) -> Broker:
        async with self._opening:
            if self._broker is not None and self._broker.lost:
                self._drop(self._broker)
            if self._broker is None:
                self._broker = await self._open_broker()
            return self._broker

    def _drop(self, broker: Broker | None) -> None:
        """Leave a broker behind; the next batch opens another."""
        if broker is None:
            return
        if broker is self._broker:
            self._broker = None
        closing = asyncio.create_task(broker.close(), name="broker close")
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)

    def _rest_later(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(self._idle_seconds, self._rest)

    def _rest(self) -> None:
        if not self._batches and not self._waiting:
            self._drop(self._broker)
