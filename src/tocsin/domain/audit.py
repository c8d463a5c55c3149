"""What the audit log keeps: who did it, and of what changed only what is no secret.

Values that may hold a secret are masked: headers, bodies, credentials, everything of an address behind its
host, free text. A mask is ``***`` and six letters that are equal on both sides of one entry exactly when the
values were equal, so that a change shows; the salt they are made with is thrown away, so that they tell
nothing else.
"""

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

_PLAIN_IN_TARGET: Final = frozenset(
    {"kind", "method", "timeout", "connection", "topic", "subject", "stream", "queue", "task"}
)
_PLAIN_IN_JOB: Final = (
    "kind", "name", "tags", "queue", "priority", "state", "state_reason", "version",
)  # fmt: skip


class Origin(msgspec.Struct, frozen=True):
    """Where a change came from."""

    actor: str
    request_id: str | None = None
    address: str | None = None
    via: str | None = None
    """Through what, if not straight through the API."""


DASHBOARD: Final = "dashboard"
SYSTEM: Final = Origin("system")
"""What Tocsin does by itself."""


class Mask:
    """Masks values; equal ones look equal to each other, within one mask."""

    def __init__(self) -> None:
        self._salt = os.urandom(16)

    def hide(self, value: Any) -> str:
        """What is shown instead of `value`."""
        digest = hmac.new(self._salt, msgspec.json.encode(value, order="sorted"), hashlib.sha256)
        return "***" + digest.hexdigest()[:6]

    def target(self, target: Mapping[str, Any]) -> dict[str, Any]:
        """A target without its secrets. Parts that are not known to be plain are hidden."""
        return {name: self._field(name, value) for name, value in target.items()}

    def job(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A job's row without its secrets."""
        shown = {name: row[name] for name in _PLAIN_IN_JOB if row[name] not in (None, [], "")}
        if row["description"] is not None:
            shown["description"] = self.hide(row["description"])
        shown["schedule"] = msgspec.json.decode(row["schedule"])
        shown["policies"] = msgspec.json.decode(row["policies"])
        shown["target"] = self.target(msgspec.json.decode(row["target"]))
        return shown

    def _field(self, name: str, value: Any) -> Any:
        if name in _PLAIN_IN_TARGET:
            return value
        if name == "url" and isinstance(value, str):
            return self._url(value)
        if name == "headers" and isinstance(value, dict):
            return {header: self.hide(text) for header, text in value.items()}
        return self.hide(value)

    def _url(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            port = f":{parts.port}" if parts.port is not None else ""
        except ValueError:
            return self.hide(url)
        rest = url.partition("//")[2].partition("/")
        plain = rest[2] == "" and parts.username is None and not parts.query and not parts.fragment
        return f"{parts.scheme}://{host}{port}/{'' if plain else self.hide(url)}"
