"""Connections: brokers under names, and whether one can be reached."""

import msgspec

from tocsin.api.wire.pages import Listing
from tocsin.api.wire.scalars import Time
from tocsin.domain.connection import Connection
from tocsin.domain.written import WrittenName


class NewConnection(Connection, frozen=True, kw_only=True):
    """A connection on its way in."""

    name: WrittenName


class ConnectionBody(Connection, frozen=True, kw_only=True):
    """A connection whose name is in the address."""

    name: WrittenName | None = None


class ConnectionView(Connection, frozen=True, kw_only=True):
    """A connection. Of its credentials the names of secrets are shown."""

    name: str
    version: int
    created_at: Time
    updated_at: Time


class Connections(Listing, frozen=True, kw_only=True):
    """All connections of a tenant."""

    items: list[ConnectionView]


class ConnectionTest(msgspec.Struct, frozen=True):
    """Whether the broker let us in: from this API process, now."""

    reached: bool
    took_ms: float
    error: str | None = None
