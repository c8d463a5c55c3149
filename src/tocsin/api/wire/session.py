"""A login of the dashboard: what opens one, and what the page learns about itself."""

from typing import Annotated

import msgspec

from tocsin.api.wire.scalars import Time
from tocsin.domain.keys import LONGEST, KeyId, Scope
from tocsin.domain.written import line

MAX_TICKET = 128


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key, or a ticket that stands for one. One of the two."""

    key: Annotated[str, line(LONGEST)] | None = None
    ticket: Annotated[str, line(MAX_TICKET)] | None = None


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in, and what the page can count on."""

    key_id: KeyId
    tenant: str
    scopes: list[Scope]
    now: Time
    version: str
    echo: bool
    """Whether this installation answers its own test calls."""
    warning: str | None = None


class Ticket(msgspec.Struct, frozen=True):
    """A text for one login, to be put behind `#ticket=` in the dashboard's address."""

    ticket: str
    expires_in_s: int


class LoggedOut(msgspec.Struct, frozen=True):
    """The session is over."""

    ended: bool
