"""A listing from its rows. One row never fails a list: what cannot be shown is named in `broken`, beside the
others.

Such rows come from a defect, a hand in the database, or a newer version. They stay as they are; a user who
has the id can look at the row or delete the thing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import structlog

from tocsin.api.wire.pages import Broken
from tocsin.domain.errors import Refused, Unavailable

_L = TypeVar("_L")
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    msgspec.MsgspecError,
    Refused,
    Unavailable,
)
_MOST_LOGGED: Final = 5
_log = structlog.get_logger()


def listing(
    kind: Callable[..., _L],
    rows: Sequence[Any],
    view: Callable[[Any], Any],
    name: Callable[[Any], str],
    **more: Any,
) -> _L:
    """A listing of `kind` with the view of each row; `name` says what a row that has none is called."""
    items, broken = [], []
    for row in rows:
        try:
            items.append(view(row))
        except _UNREADABLE as error:
            broken.append((name(row), error))
    if broken:
        ids = [name for name, _ in broken[:_MOST_LOGGED]]
        _log.error(
            "api.rows_broken",
            listing=getattr(kind, "__name__", ""),
            count=len(broken),
            ids=ids,
            exc_info=broken[0][1],
        )
    return kind(items=items, broken=[Broken(name, _words(error)) for name, error in broken], **more)


def _words(error: Exception) -> str:
    return f"its row holds what this version cannot show ({type(error).__name__})"
