"""Between rows and values: rows are read by name, batches are handed over as named arrays."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tocsin.db.pool import Record

S = TypeVar("S", bound=msgspec.Struct)


def structs(kind: type[S], rows: Sequence[Record]) -> list[S]:
    """Rows as values whose first fields are the statement's columns.

    The names are compared once per batch, and the values taken by position: by name for each row costs three
    times as much.
    """
    if rows and tuple(rows[0].keys()) != kind.__struct_fields__[: len(rows[0])]:
        raise TypeError(f"{kind.__name__} has not these columns: {tuple(rows[0].keys())}")
    return [kind(*row) for row in rows]


def arrays(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows turned into the named arrays that `unnest` statements take."""
    columns: Any = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}
