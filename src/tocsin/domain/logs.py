"""How much of an attempt's log is kept: up to a limit of lines and bytes, then a last line that says so."""

from collections.abc import Sequence
from typing import Final

import msgspec

from tocsin.domain.instant import DAY, Instant, parse_instant
from tocsin.domain.protocol import MAX_LOG_BYTES, MAX_LOG_LINES, MAX_MESSAGE, LogLine
from tocsin.domain.storable import storable_json, storable_text

_LAST: Final = "further lines were dropped: an attempt keeps {lines} lines and {kib} KiB"
_OLDEST: Final = DAY


class Kept(msgspec.Struct, frozen=True):
    """A line as it is stored. `total` is how many bytes the attempt has logged up to it."""

    seq: int
    at: Instant
    level: str
    message: str
    fields: str | None
    total: int


def kept_of(lines: Sequence[LogLine], last_seq: int, total: int, now: Instant) -> list[Kept]:
    """What is kept of further lines, after `last_seq` with `total` bytes. What came before is not kept
    twice."""
    kept: list[Kept] = []
    for written in sorted(lines, key=lambda one: one.seq):
        if not last_seq < written.seq <= MAX_LOG_LINES or total >= MAX_LOG_BYTES:
            continue
        one = _kept(written, total, now)
        if one.total >= MAX_LOG_BYTES or one.seq == MAX_LOG_LINES:
            one = _last(one)
        kept.append(one)
        last_seq, total = one.seq, one.total
    return kept


def _kept(written: LogLine, total: int, now: Instant) -> Kept:
    message = storable_text(written.message[:MAX_MESSAGE])
    fields = None if not written.fields else storable_json(written.fields)
    size = len(message.encode()) + len(fields or "")
    # A line is found by its day, so a clock that is far off does not count.
    at = min(max(parse_instant(written.at, "logs.at"), now - _OLDEST), now + _OLDEST)
    return Kept(written.seq, at, written.level, message, fields, total + size)


def _last(line: Kept) -> Kept:
    words = _LAST.format(lines=f"{MAX_LOG_LINES:,}", kib=MAX_LOG_BYTES // 1024)
    return Kept(line.seq, line.at, "warning", words, None, MAX_LOG_BYTES)
