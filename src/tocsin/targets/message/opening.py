"""From a connection to an open broker: secrets, TLS, then the addresses in turn.

Every way this can fail is an outcome: a broker that is away is tried again, one that does not let us in is
not.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tocsin.domain.addresses import TargetUrl
from tocsin.domain.connection import Connection, secrets_of
from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.waits import Reason
from tocsin.targets.descriptors import none_left
from tocsin.targets.http.client import default_ssl_context, reason_of
from tocsin.targets.http.client_certificate import ClientCertificates
from tocsin.targets.message.broker import Access, Broker, NotOpened
from tocsin.targets.message.dialer import Dialer
from tocsin.targets.message.message import away
from tocsin.targets.secrets import SecretOfOthers, Secrets, SecretUnavailable

OPEN_SECONDS: Final = 5.0
"""For one address: connect, TLS, log in."""
MakeBroker = Callable[[Access], Broker]
LoadMaker = Callable[[], MakeBroker]
T = TypeVar("T")


class WrongServer(OSError):
    """A server that answered and is of no use to us: in our own words, and the next address is tried."""


class Opening:
    """Opens brokers of one kind for one process. The broker's client is loaded with the first of them, beside
    the event loop: most processes never need it, and to load it may take a fifth of a second."""

    def __init__(self, load: LoadMaker, secrets: Secrets, dialer: Dialer) -> None:
        self._load = load
        self._make: MakeBroker | None = None
        self._secrets = secrets
        self._dialer = dialer

    async def open(self, tenant_id: int, connection: Connection) -> Broker:
        """An open broker. Raises NotOpened."""
        try:
            names = secrets_of(connection)
            secrets = await self._secrets.values(tenant_id, names) if names else {}
            tls = await _tls(tenant_id, connection, secrets)
        except Refused as error:
            raise NotOpened(Outcome(Verdict.REJECTED, error.detail)) from None
        except SecretUnavailable as error:
            raise NotOpened(Outcome(Verdict.FAILED, error.detail)) from None
        except SecretOfOthers:
            raise NotOpened(Postponed(SECOND, Reason.KEY)) from None
        if self._make is None:
            self._make = await asyncio.to_thread(self._load)
        broker = self._make(Access(connection, secrets, tls, self._dialer))
        try:
            await broker.open()
        except BaseException:
            await broker.close()
            raise
        return broker


async def first_open(
    dialer: Dialer, hosts: tuple[TargetUrl, ...], connect: Callable[[TargetUrl, str], Awaitable[T]]
) -> T:
    """What `connect` makes of the first host and checked address that answers. Raises NotOpened: refused only
    if no host was merely away."""
    refusal: Refused | None = None
    trouble: str | None = None
    for place in hosts:
        try:
            for address in await dialer.addresses(place):
                try:
                    async with asyncio.timeout(OPEN_SECONDS):
                        return await connect(place, str(address))
                except TimeoutError:
                    trouble = f"no connection within {OPEN_SECONDS:g} s"
                except (OSError, ssl.SSLError) as error:
                    if none_left(error):
                        raise
                    trouble = f"could not connect: {_reason(error)}"
        except OSError as error:
            if none_left(error):
                raise
            trouble = str(error)
        except Refused as error:
            refusal = error
    if trouble is None and refusal is not None:
        raise NotOpened(Outcome(Verdict.REJECTED, refusal.detail))
    raise NotOpened(away(trouble or "no address answered"))


def _reason(error: OSError) -> str:
    if isinstance(error, WrongServer):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return reason_of(error) or type(error).__name__


async def _tls(tenant_id: int, connection: Connection, secrets: dict[str, str]) -> ssl.SSLContext | None:
    tls = connection.tls
    if tls is None:
        return None
    authorities = None if tls.ca is None else secrets[tls.ca.secret]
    if tls.client_certificate is None:
        return await asyncio.to_thread(_trusting, authorities)
    name = tls.client_certificate.secret
    certificates = ClientCertificates(lambda: _trusting(authorities))
    return await certificates.context(tenant_id, name, secrets[name])


def _trusting(authorities: str | None) -> ssl.SSLContext:
    if authorities is None:
        return default_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=authorities)
    except ssl.SSLError:
        raise Refused("the secret of tls.ca holds no certificates", field="tls.ca") from None
    return context
