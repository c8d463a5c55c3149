"""API keys. The text of one is in the answer that makes it, and nowhere else."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Name, Time
from tocsin.domain.keys import Scope
from tocsin.domain.written import WrittenName, WrittenSpan


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to make."""

    name: Name
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=4)]
    tenant: WrittenName | None = None
    expires_at: Time | None = None
    expires_in: WrittenSpan | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key, without its secret. `prefix` is how its text begins."""

    id: str
    prefix: str
    name: str
    tenant: str
    scopes: list[Scope]
    valid: bool
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    revoked_at: Time | None
    replaced_by: str | None


class FreshKey(msgspec.Struct, frozen=True):
    """A key that was just made, with its text: shown once."""

    key: Key
    text: str


class KeyPage(Page, frozen=True, kw_only=True):
    """Keys, by id."""

    items: list[Key]
