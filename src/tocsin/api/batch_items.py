"""How the items of a batch arrive: as a JSON array, which is counted before anything is done, or line by
line.

A body that stops arriving is refused here, a little before the connection would be closed for it: what was
written until then can still be told.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from tocsin.api.problems import refused_by_decoder
from tocsin.domain.errors import Refused

MAX_ITEMS: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_LINE: Final = 1024 * 1024
AT_A_TIME: Final = 50
_LONGEST_GAP: Final = 20.0  # seconds without a byte
_WINDOW: Final = 25.0  # seconds in each of which a body makes some progress, or is given up
_SLOWEST: Final = 16 * 1024  # bytes per second


async def items_of(request: Any) -> AsyncIterator[list[bytes]]:
    """The items of the body, each as its own JSON text, as many at a time as have arrived."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit():  # known before anything is written
        _check_size(int(declared[:18]))
    stream = arriving(request.stream())
    if "ndjson" in request.headers.get("content-type", ""):
        async for lines in lines_of(stream):
            yield lines
        return
    body = bytearray()
    async for chunk in stream:
        body += chunk
        _check_size(len(body))
    try:
        items = msgspec.json.decode(bytes(body), type=list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise refused_by_decoder(error) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the body is neither a JSON array nor NDJSON: {error}") from None
    if len(items) > MAX_ITEMS:
        raise too_many()
    for start in range(0, len(items), AT_A_TIME):
        yield [bytes(item) for item in items[start : start + AT_A_TIME]]


async def lines_of(stream: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Whole lines, as many at a time as have arrived."""
    rest, size = b"", 0
    async for chunk in stream:
        size += len(chunk)
        _check_size(size)
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:  # what waits for its end is copied with every chunk
            raise _TooLarge(f"a line is at most {MAX_LINE >> 20} MiB")
        if whole := [line for line in lines if line.strip()]:
            yield whole
    if rest.strip():
        yield [rest]


async def arriving(stream: AsyncIterator[bytes], window: float = _WINDOW) -> AsyncIterator[bytes]:
    """The chunks of a body as long as it makes progress."""
    loop = asyncio.get_running_loop()
    until, size = loop.time() + window, 0
    while True:
        gap = loop.time() + _LONGEST_GAP
        enough = size > window * _SLOWEST
        try:
            async with asyncio.timeout_at(gap if enough else min(gap, until)):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _TooSlow("the rest of the batch did not arrive in time") from None
        size += len(chunk)
        yield chunk
        if loop.time() >= until and size > window * _SLOWEST:
            until, size = loop.time() + window, 0


def too_many() -> Refused:
    """The refusal of one item more than there may be."""
    return Refused(f"a batch has at most {MAX_ITEMS:,} items")


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise _TooLarge(f"a batch is at most {MAX_BYTES >> 20} MiB")


class _TooLarge(Refused):
    status = 413


class _TooSlow(Refused):
    status = 408
