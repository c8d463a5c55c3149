"""A wire between two sockets that can delay what passes and lead elsewhere. It lives on a thread of its own,
so that it carries on whatever the test waits for."""

import asyncio
import contextlib
import threading
from typing import Self

import uvloop


class Forwarder:
    """Use as a context manager; `host` is where it listens."""

    def __init__(self, target: str, *, delay: float = 0.0) -> None:
        self.host = ""
        self._target = target
        self._delay = delay  # seconds that each way takes
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="forwarder")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the forwarder does not start"
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def lead_to(self, target: str) -> None:
        """From now on new connections lead there. Those that exist say nothing any more, and are not
        closed."""
        self._loop.call_soon_threadsafe(self._turn, target)

    def _turn(self, target: str) -> None:
        self._target = target
        self._passes.clear()
        self._passes = asyncio.Event()
        self._passes.set()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._passes = asyncio.Event(), asyncio.Event()
        self._passes.set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passes = self._passes
        name, _, port = self._target.partition(":")
        try:
            answers, server = await asyncio.open_connection(name, int(port))
        except OSError:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):  # the test is over
            await asyncio.gather(self._carry(reader, server, passes), self._carry(answers, writer, passes))
        for end in (writer, server):
            end.close()

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passes: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await passes.wait()
                self._loop.call_later(self._delay, _send, sink, data)
        await passes.wait()  # what was cut off is not even closed
        self._loop.call_later(self._delay, sink.close)


def _send(sink: asyncio.StreamWriter, data: bytes) -> None:
    if not sink.is_closing():
        sink.write(data)
