"""What every kind of broker offers to a publisher, and how a broker that cannot be opened says why."""

import ssl
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tocsin.domain.connection import Connection
from tocsin.domain.errors import TocsinError
from tocsin.domain.outcome import Outcome, Postponed
from tocsin.targets.message.dialer import Dialer
from tocsin.targets.message.message import Parcel


class NotOpened(TocsinError):
    """A broker that did not let us in, as the outcome of every message that waits for it."""

    def __init__(self, outcome: Outcome | Postponed) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class Access(msgspec.Struct, frozen=True):
    """A connection with its secrets opened."""

    connection: Connection
    secrets: Mapping[str, str]
    tls: ssl.SSLContext | None
    dialer: Dialer

    @property
    def password(self) -> str | None:
        """The password, if there is one."""
        secret = self.connection.password
        return None if secret is None else self.secrets[secret.secret]

    @property
    def token(self) -> str | None:
        """The token, if there is one."""
        secret = self.connection.token
        return None if secret is None else self.secrets[secret.secret]

    def server_name(self, host: str) -> str | None:
        """The name that the certificate must have, if TLS is spoken."""
        tls = self.connection.tls
        return None if tls is None else tls.server_name or host

    def __repr__(self) -> str:
        return f"Access({self.connection.kind})"


class Broker(Protocol):
    """One open connection to a broker, used by one publisher."""

    @property
    def lost(self) -> bool:
        """Whether it is of no use any more."""

    async def open(self) -> None:
        """Connect and log in. Raises NotOpened."""

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """Send them together and end each as the broker answers. A message that is not ended when this
        returns or raises was sent, perhaps, and never acknowledged."""

    async def close(self) -> None:
        """Leave. Never raises."""
