"""Counts of what a listing would show: exact up to a cap, "at least" beyond it or after half a second."""

from typing import Final

from tocsin.api.endpoint import ApiCall, Parameter
from tocsin.domain.errors import Refused

_DEFAULT: Final = 10_000
_MOST: Final = 100_000
CAP: Final = Parameter(
    "cap", "Count no further", {"type": "integer", "minimum": 1, "maximum": _MOST, "default": _DEFAULT}
)


def cap_of(call: ApiCall) -> int:
    """How far to count."""
    text = call.query.get("cap", str(_DEFAULT))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MOST):
        raise Refused(f"cap is a number from 1 to {_MOST}", field="cap")
    return int(text)
