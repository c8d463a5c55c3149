"""Secrets of users: how a target names one, what one may look like, and how its value is kept out of sight.

A target holds the name; the value is looked up by the worker when it calls, and leaves the process only in
that request. An answer is masked before it is kept or logged: a target that echoes its request must not turn
the history of executions into a place where secrets can be read.
"""

import base64
import json
import re
from collections.abc import Iterable
from typing import Annotated, Final
from urllib.parse import quote, quote_plus

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.written import described

MASK: Final = "***"
MAX_VALUE: Final = 4096
MAX_PEM: Final = 32 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
SecretName = Annotated[str, described(pattern=f"^{_NAME.pattern}$")]
# What a header can carry: one line of ISO 8859-1.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]+")
# What TLS can use: certificates and keys, lines of ASCII.
_PEM: Final = re.compile(r"-----BEGIN [\t\r\n\x20-\x7e]+")
_SHORTEST_CUT: Final = 4
_END: Final = r"[!-~\u0080-\u0084\u0086-\u009f\u00a1-\u00ff]"
SecretText = Annotated[
    str,
    described(
        anyOf=[
            {"maxLength": MAX_VALUE, "pattern": rf"^{_END}([\t -~\u0080-\u00ff]*{_END})?$"},
            {"maxLength": MAX_PEM, "pattern": r"^-----BEGIN [\t\r\n -~]+$"},
        ]
    ),
]


class SecretRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stands for the value of a secret."""

    secret: SecretName


def check_secret_name(name: str, field: str) -> None:
    """Refuse a name that no secret can have."""
    if not _NAME.fullmatch(name):
        raise Refused("a name has 1 to 100 letters, digits, '_', '-' and '.'", field=field)


def check_secret_value(value: str) -> None:
    """Refuse a value that could not be used. The refusal does not repeat it."""
    if len(value) <= MAX_PEM and _PEM.fullmatch(value):
        return
    if not 1 <= len(value) <= MAX_VALUE or not _VALUE.fullmatch(value) or value != value.strip():
        raise Refused(
            f"a value has 1 to {MAX_VALUE} Latin-1 characters, none of them control, no space at either end",
            field="value",
            hint=f"certificates and keys are PEM text of up to {MAX_PEM // 1024} KiB",
        )


class Redactor:
    """Masks values in what came back, also as they look inside JSON, URLs and base64."""

    def __init__(self, values: Iterable[str]) -> None:
        # The longest first: one value may be part of another.
        self._spellings = sorted({s for v in values if v for s in _spellings(v)}, key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def text(self, text: str) -> str:
        """Text without the values. It is read as the wire has it: one character per byte, or decoded."""
        for spelling in self._spellings:
            text = text.replace(spelling.decode("latin-1"), MASK)
            text = text.replace(spelling.decode("utf-8", "replace"), MASK)
        return text

    def body(self, body: bytes, *, truncated: bool) -> bytes:
        """A body without the values; where it was cut off, also without the beginning of one."""
        for spelling in self._spellings:
            body = body.replace(spelling, MASK.encode())
        if truncated:
            for spelling in self._spellings:
                for length in range(len(spelling) - 1, _SHORTEST_CUT - 1, -1):
                    if body.endswith(spelling[:length]):
                        return body[:-length] + MASK.encode()
        return body


def _spellings(value: str) -> set[bytes]:
    """A value as bytes, in the ways in which services commonly repeat what they were sent."""
    texts = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    texts |= {quote(value, safe=""), quote(value), quote_plus(value)}
    raw = {value.encode("latin-1", "replace"), value.encode()}
    return raw | {text.encode() for text in texts} | {base64.b64encode(one) for one in raw}
