"""Figures that tests put down as rows, and the tables of them with which a run ends."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Note = Callable[[str, object], None]
"""pytest's `record_property`."""
_PREFIX: Final = "row of "


def put_down(note: Note, table: str, row: Mapping[str, Any]) -> None:
    """A row of a table. Its columns are those of the table's first row."""
    note(_PREFIX + table, dict(row))


def tables(properties: Iterable[tuple[str, Any]]) -> list[str]:
    """What all tests put down, as text, a table after the other."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, row in properties:
        if name.startswith(_PREFIX):
            found.setdefault(name.removeprefix(_PREFIX), []).append(row)
    return [f"{name}\n{_table(rows)}" for name, rows in sorted(found.items())]


def _table(rows: list[dict[str, Any]]) -> str:
    columns = list(rows[0])
    lines = [columns, *sorted([_shown(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    words = [isinstance(rows[0][column], str) for column in columns]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if is_word else cell.rjust(width)
            for cell, width, is_word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in lines
    )


def _shown(cell: Any) -> str:
    return "–" if cell is None else f"{cell:.2f}" if isinstance(cell, float) else str(cell)
