"""Logins of the database that enqueue for a tenant."""

from typing import Annotated, Final

import msgspec

from tocsin.api.wire.pages import Listing
from tocsin.api.wire.scalars import Time
from tocsin.domain.written import line

MAX_LOGIN: Final = 63
LoginName = Annotated[str, line(MAX_LOGIN)]


class BoundLogin(msgspec.Struct, frozen=True):
    """A login that may call `tocsin.enqueue` and `tocsin.enqueue_many`, for its tenant alone."""

    login: str
    tenant: str
    created_at: Time


class BoundLogins(Listing, frozen=True, kw_only=True):
    """Logins of a tenant, by name."""

    items: list[BoundLogin]
