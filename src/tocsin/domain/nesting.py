"""How large and how deep JSON may be that users store: bounded, so that nothing later fails on it."""

from collections.abc import Iterable
from typing import Any, Final

from tocsin.domain.errors import Refused

MAX_DEPTH: Final = 64


def check_depth(value: Any, encoded: bytes, what: str, field: str) -> None:
    """Refuse what is nested too deeply. Without that many brackets there cannot be that many levels."""
    if encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise too_deep(what, field)


def too_deep(what: str, field: str) -> Refused:
    """The refusal of a value that cannot even be encoded, or has too many levels."""
    return Refused(f"{what} is nested deeper than {MAX_DEPTH} levels", field=field)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects lie in each other more than `levels` deep. Level by level, not by
    recursion."""
    inside = [value]
    for _ in range(levels + 1):
        inside = [item for outer in inside for item in _items(outer)]
        if not inside:
            return False
    return True


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
