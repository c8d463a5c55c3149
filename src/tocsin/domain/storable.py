"""Text and JSON that the database can store.

Targets, brokers and tasks say what they like. PostgreSQL keeps no NUL, and no half of a surrogate pair: in
Python a file name whose bytes are no UTF-8 has such halves. Both are shown as one would write them in a
program, so nothing is lost.
"""

from typing import Any, Final

import msgspec

_NUL: Final = b"\\u0000"


def storable_text(text: str) -> str:
    """Text that the database can store; nearly always the text itself."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def storable(value: Any) -> Any:
    """A JSON value that the database can store; nearly always the value itself."""
    return value if _encoded(value) is not None else _clean(value)


def storable_json(value: Any) -> str:
    """JSON text that the database can store, of a value or a struct."""
    encoded = _encoded(value)
    if encoded is None:
        encoded = msgspec.json.encode(_clean(msgspec.to_builtins(value)))
    return encoded.decode()


def _encoded(value: Any) -> bytes | None:
    """None if there is something in it that cannot be stored, or what looks like it."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return None
    return None if _NUL in encoded else encoded


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {storable_text(name): _clean(item) for name, item in value.items()}
    return value
