"""Tables of text that fit into a width. Pure: cells in, lines out.

Columns keep their width while there is room. Then free text gets narrower, down to a few words a line; then
every wide column. Nothing is cut off: what does not fit goes on in the next line, if possible after a space.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

_GAP: Final = 2
_NARROWEST_TEXT: Final = 20
_NARROWEST: Final = 6
_STYLES: Final = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
}  # fmt: skip


class Cell(NamedTuple):
    """Text, and how it looks where colours are shown."""

    text: str
    style: str = ""


def layout(
    headings: Sequence[str], cells: Sequence[Sequence[Cell]], free: Sequence[bool], width: int | None
) -> list[list[Cell]]:
    """The lines of a table, each as its pieces. `free` says which columns hold free text; without a width
    nothing is wrapped."""
    widths = [
        max(wide(heading), *(max(map(wide, row[at].text.split("\n"))) for row in cells))
        for at, heading in enumerate(headings)
    ]
    if width is not None:
        _shrink(widths, free, width)
    lines = _row([Cell(heading, "bold") for heading in headings], widths)
    for row in cells:
        lines += _row(row, widths)
    return lines


def painted(pieces: Sequence[Cell], *, colours: bool) -> str:
    """A line as the terminal gets it."""
    if not colours:
        return "".join(piece.text for piece in pieces).rstrip()
    return "".join(paint(piece.text, piece.style) for piece in pieces).rstrip()


def paint(text: str, style: str) -> str:
    """Text in a style; "bold yellow" is two."""
    codes = ";".join(_STYLES[word] for word in style.split() if word in _STYLES)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text.strip() else text


def wide(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_wide, text))


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of a width, broken between words where possible."""
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            joined = f"{line} {word}" if line else word
            if wide(joined) <= width:
                line = joined
                continue
            if line:
                lines.append(line)
            *full, line = _folded(word, width)
            lines += full
        lines.append(line)
    return lines


def _shrink(widths: list[int], free: Sequence[bool], width: int) -> None:
    """Make columns narrower until the table fits: the widest first, free text before everything else."""
    over = sum(widths) + _GAP * (len(widths) - 1) - width
    for narrowest, which in ((_NARROWEST_TEXT, free), (_NARROWEST, [True] * len(widths))):
        while over > 0:
            at = max((at for at, may in enumerate(which) if may), key=lambda at: widths[at], default=None)
            if at is None or widths[at] <= narrowest:
                break
            widths[at] -= 1
            over -= 1


def _row(cells: Sequence[Cell], widths: Sequence[int]) -> list[list[Cell]]:
    columns = [wrapped(cell.text, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for at in range(max(map(len, columns))):
        pieces: list[Cell] = []
        for cell, column, width in zip(cells, columns, widths, strict=True):
            text = column[at] if at < len(column) else ""
            pieces += (Cell(text, cell.style), Cell(" " * (width - wide(text) + _GAP)))
        lines.append(pieces)
    return lines


def _folded(text: str, width: int) -> list[str]:
    """The text in pieces of a width, broken anywhere."""
    if wide(text) <= width:
        return [text]
    lines, line, taken = [], "", 0
    for letter in text:
        size = _wide(letter)
        if line and taken + size > width:
            lines.append(line)
            line, taken = "", 0
        line += letter
        taken += size
    return [*lines, line]


def _wide(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
