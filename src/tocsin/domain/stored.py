"""Reading what is stored as JSON text: a value, or `Unreadable` with the reason.

A newer version of Tocsin may have written what this one does not know: a kind, a field, a word. That is no
defect and no loss; the reader of a batch leaves such a row to newer nodes and goes on with the rest.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.domain.errors import Unreadable


def reader(kind: Any, what: str) -> Callable[[str], Any]:
    """A function that reads texts of one kind. `what` is how the reason names it."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: str) -> Any:
        try:
            return decode(text)
        except msgspec.DecodeError as error:
            raise Unreadable(f"this version cannot read the {what}: {error}") from None

    return read
