"""Starts a process for a task of the archive, and brings its answer back."""

import asyncio
import contextlib
import sys
from typing import Any, Final

import msgspec

from tocsin.archive.work import Answer
from tocsin.domain.errors import Refused, Unavailable

WORK: Final = "tocsin.archive.work"
_GRACE: Final = 2.0
"""Seconds more than its own that a process gets before we end it."""


async def in_a_process(task: Any, kind: Any, module: str = WORK) -> Any:
    """What a task answers, as `kind`. Whatever befalls its process is `Unavailable`."""
    process = await _start(module)
    try:
        async with asyncio.timeout(task.seconds + _GRACE):
            answered, told = await process.communicate(msgspec.json.encode(task))
    except TimeoutError:
        raise Unavailable("the archive did not answer in time") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise Unavailable("the archive could not be worked on", why=_how_it_ended(process.returncode, told))
    answer = msgspec.json.decode(answered, type=Answer)
    if answer.trouble is None:
        return msgspec.json.decode(answer.value, type=kind)
    if answer.refused:
        raise Refused(answer.trouble)
    raise Unavailable("the archive cannot be used now", why=answer.trouble)


async def _start(module: str) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise Unavailable("the archive could not be worked on", why=str(error)) from error


def _how_it_ended(code: int, told: bytes) -> str:
    lines = told.decode(errors="replace").strip().splitlines()
    if code == -14:
        return "its process took too long"
    return lines[-1][:300] if lines else f"its process ended with {code}"
