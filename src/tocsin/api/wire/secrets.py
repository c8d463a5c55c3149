"""Secrets, whose values only ever travel inwards; and what encrypting them anew has done."""

import msgspec

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time
from tocsin.domain.secrets import SecretText


class SecretValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a secret, on its way in."""

    value: SecretText


class Secret(msgspec.Struct, frozen=True):
    """A secret, without its value."""

    name: str
    updated_at: Time


class SecretPage(Page, frozen=True, kw_only=True):
    """Secrets, by name."""

    items: list[Secret]


class Reseal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which secrets to encrypt anew: the first, or those after `cursor`."""

    cursor: str | None = None


class UnopenedSecret(msgspec.Struct, frozen=True):
    """A secret that could not be opened, and stays as it is. A webhook secret is called
    ``webhook/<version>``."""

    tenant: str
    name: str
    key_id: str
    reason: str


class ResealAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was encrypted anew, under which key. `remaining` are still under another one."""

    key_id: str
    secrets: int
    webhook_secrets: int
    unopened: list[UnopenedSecret]
    remaining: int
    next_cursor: str | None
