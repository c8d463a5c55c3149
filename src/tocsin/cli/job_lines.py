"""Jobs in a file, one after the other: NDJSON, or the items of a JSON array. Memory stays flat.

Items are handed on as they were written, only without line breaks, so that numbers and text reach the API as
the user wrote them. A line of NDJSON that is not JSON is the API's to refuse; in an array it is unknown where
the next item begins, so there it is the end.
"""

import json
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

MOST_LINES: Final = 10_000
MOST_BYTES: Final = 16 * 1024 * 1024
LONGEST: Final = 1024 * 1024
_READ: Final = 64 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_decode: Final = json.JSONDecoder().raw_decode
_SPACE: Final = " \t\r\n"
_AFTER_ITEM: Final = frozenset(_SPACE + ",]")
_ONE_LINE: Final = str.maketrans("\r\n", "  ")


class Item(NamedTuple):
    """One job: the line it begins on, and its JSON."""

    line: int
    raw: bytes


class Unreadable(Exception):
    """Where and why reading cannot go on."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line:,}: {why}")


def read_items(file: BinaryIO) -> Iterator[Item]:
    """The items of a file, whichever of the two forms it has."""
    number, text = 1, file.readline(LONGEST + 1).removeprefix(_BOM)
    while text and not text.strip():
        number, text = number + 1, file.readline(LONGEST + 1)
    if text.lstrip().startswith(b"["):
        return _Array(file, text.lstrip(), number).items()
    return _lines(file, text, number)


def chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Items in groups that fit into one request."""
    chunk: list[Item] = []
    size = 0
    for item in items:
        if chunk and (len(chunk) == MOST_LINES or size + len(item.raw) > MOST_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += len(item.raw)
    if chunk:
        yield chunk


def _lines(file: BinaryIO, text: bytes, number: int) -> Iterator[Item]:
    while text:
        if len(text) > LONGEST:
            raise Unreadable(number, f"longer than {LONGEST >> 20} MiB")
        if raw := text.strip():
            yield Item(number, raw)
        text = file.readline(LONGEST + 1)
        number += 1


class _Array:
    """Reads a JSON array item by item. `_text` from `_at` on is what has been read but not handed on."""

    def __init__(self, file: BinaryIO, begun: bytes, line: int) -> None:
        self._file = file
        self._decoder = getincrementaldecoder("utf-8")()
        self._line = line
        self._text = ""
        self._at = 0
        self._append(begun)

    def items(self) -> Iterator[Item]:
        """All of them; what follows the array must be nothing."""
        self._at = 1
        mark = self._next()
        while mark != "]":
            yield self._item()
            mark = self._next()
            if mark == ",":
                self._at += 1
                self._next()
            elif mark != "]":
                raise Unreadable(self._line, "expected a comma or the end of the array")
        self._at += 1
        if self._next():
            raise Unreadable(self._line, "something follows the end of the array")

    def _item(self) -> Item:
        while True:
            end, wrong = self._end_of_item()
            if end is not None and self._text[end : end + 1] in _AFTER_ITEM:
                break
            # It may go on: cut off in the middle of a number, a text, an object. More of the file will tell.
            if len(self._text) - self._at > LONGEST or not self._fill():
                if end is None:
                    raise Unreadable(self._line, f"not JSON, or longer than {LONGEST >> 20} MiB: {wrong}")
                break
        item = Item(self._line, self._text[self._at : end].translate(_ONE_LINE).encode())
        self._move(end)
        return item

    def _end_of_item(self) -> tuple[int | None, str]:
        try:
            return _decode(self._text, self._at)[1], ""
        except json.JSONDecodeError as error:
            line = self._line + self._text.count("\n", self._at, error.pos)
            return None, f"{error.msg} at line {line:,}"
        except (ValueError, RecursionError) as error:
            return None, str(error)

    def _next(self) -> str:
        """The next character that is not white space, which is skipped; nothing at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._move(self._at + 1)
            if self._at < len(self._text) or not self._fill():
                return self._text[self._at : self._at + 1]

    def _move(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to

    def _fill(self) -> bool:
        """Read on: as much again as there is, so that a long item is not tried too often."""
        raw = self._file.read(max(_READ, len(self._text) - self._at))
        self._text, self._at = self._text[self._at :], 0
        self._append(raw)
        return bool(raw)

    def _append(self, raw: bytes) -> None:
        try:
            self._text += self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            raise Unreadable(self._line, f"not UTF-8: {error.reason}") from None
