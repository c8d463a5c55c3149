"""How a script is ended, and whether it reaches a network: told by the script itself, over a socket."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tocsin.targets.script import process
from tocsin.targets.script.process import Script, run_script
from tocsin.targets.script.sandbox import Limits

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
SAY = "exec 3<>/dev/tcp/127.0.0.1/$PORT; say() { echo $1 >&3; }\n"
FOREVER = "say ready; while :; do sleep 0.05; done\n"
Heard = asyncio.Queue[str]


@asynccontextmanager
async def hearing() -> AsyncIterator[tuple[Heard, int]]:
    """What scripts say on a port, line by line; an empty line once one is gone."""
    heard: Heard = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            heard.put_nowait(line.decode().strip())
        heard.put_nowait("")
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        yield heard, server.sockets[0].getsockname()[1]


def told(source: str, then: Callable[[asyncio.Task[object], Heard], Awaitable[object]]) -> None:
    """Run a script that may use the network; once it is ready, something is done to it."""

    async def scenario() -> None:
        async with hearing() as (heard, port):
            script = Script("bash", (SAY + source).encode(), environment={"PORT": str(port)})
            limits = Limits(30.0, 256 * 1024 * 1024, processes=16, disk=1024 * 1024, network=True)
            running = asyncio.create_task(run_script(script, limits, 1000))
            assert await heard.get() == "ready"
            await then(running, heard)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_cancelled_script_has_the_time_to_tidy_up() -> None:
    async def cancel(running: asyncio.Task[object], heard: Heard) -> None:
        running.cancel()
        assert await heard.get() == "tidied"
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await heard.get() == ""

    told("trap 'sleep 0.2; say tidied; exit 0' TERM\n" + FOREVER, cancel)


def test_a_script_that_does_not_end_when_it_is_asked_to_is_killed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert process.GRACE == 5.0  # as the guide says
    monkeypatch.setattr(process, "GRACE", 0.5)

    async def cancel(running: asyncio.Task[object], heard: Heard) -> None:
        asked_at = time.monotonic()
        running.cancel()
        assert await heard.get() == "asked"
        assert await heard.get() == ""
        assert time.monotonic() - asked_at >= 0.5
        with pytest.raises(asyncio.CancelledError):
            await running

    told("trap 'say asked' TERM\n" + FOREVER, cancel)


@pytest.mark.parametrize("network", [True, False])
def test_a_script_reaches_the_machines_network_only_where_it_may(network: bool) -> None:
    async def scenario() -> tuple[int | None, bool]:
        async with hearing() as (heard, port):
            script = Script("bash", (SAY + "say hello").encode(), environment={"PORT": str(port)})
            limits = Limits(30.0, 256 * 1024 * 1024, processes=16, disk=1024 * 1024, network=network)
            ended = await run_script(script, limits, 1000)
            if network:
                assert await heard.get() == "hello"
            return ended.exit, heard.empty()

    exit_code, nothing_heard = asyncio.run(scenario())
    assert (exit_code == 0) is network
    assert nothing_heard or network
