"""What a filter selects, as a statement: the same conditions for a listing's pages and for an operation on
all that match."""

from typing import Any

import msgspec


class Selection(msgspec.Struct, frozen=True):
    """A statement with the columns `job_id`, `fire_at` (NULL of jobs), `finished_at` (NULL also of what is
    live) and `state`, and the values of its placeholders."""

    text: str
    values: list[Any]
    where: msgspec.Struct | None = None
    """The filter that it was made from; None if the things were named one by one."""
