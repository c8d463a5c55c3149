"""A process under supervision: started, and started again whenever it dies, after a pause that grows while it
keeps dying."""

import asyncio
import contextlib
import os
import sys
from typing import Final

import structlog

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0
_STEADY_SECONDS: Final = 30.0
"""A child that ran this long was well: the next pause is short again."""
_log = structlog.get_logger()


class Child:
    """One process under supervision."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self._arguments = arguments
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    async def keep_running(self) -> None:
        """Start, and start again whenever it dies."""
        pause = _FIRST_PAUSE
        while not self._stopping:
            started = asyncio.get_running_loop().time()
            self._process = await self._spawn()
            if self._process is None:
                pause = min(pause * 2, _LONGEST_PAUSE)
                await asyncio.sleep(pause)
                continue
            code = await self._process.wait()
            if self._stopping:
                return
            steady = asyncio.get_running_loop().time() - started > _STEADY_SECONDS
            pause = _FIRST_PAUSE if steady else min(pause * 2, _LONGEST_PAUSE)
            _log.error("child.died", child=self.name, code=code, restart_in=pause)
            await asyncio.sleep(pause)

    async def _spawn(self) -> asyncio.subprocess.Process | None:
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tocsin",
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,  # its end tells the child that we are gone
                env=os.environ | self._environment,
                start_new_session=True,  # Ctrl-C reaches us alone; we stop the children in order
            )
        except OSError as error:
            _log.error("child.not_started", child=self.name, error=str(error))
            return None

    async def stop(self, patience: float) -> None:
        """Ask it to stop; insist after a while."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), patience)
        except TimeoutError:
            _log.warning("child.killed", child=self.name)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
