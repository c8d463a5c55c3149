"""Entries of the audit log."""

from typing import Any

import msgspec

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done. Values that may hold a secret are masked."""

    at: Time
    tenant: str | None
    actor: str
    action: str
    object: str
    before: Any
    after: Any
    request_id: str | None
    address: str | None
    via: str | None
    """`dashboard` for changes that a logged-in user made there."""


class AuditPage(Page, frozen=True, kw_only=True):
    """Entries of the audit log, latest first."""

    items: list[AuditEntry]
