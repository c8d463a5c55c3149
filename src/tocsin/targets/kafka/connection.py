"""One connection to one node, to the address that was checked, expecting the certificate of the name.

The client's own connection does the protocol. Differences here guard against the server's answers: an answer
larger than any that we ask for ends the connection, and so does a login that would keep a core busy.
"""

import asyncio
import struct
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, AIOKafkaProtocol, ScramAuthenticator
from aiokafka.errors import KafkaConnectionError, KafkaError

from tocsin.domain.addresses import TargetUrl
from tocsin.targets.message.broker import Access

REQUEST_SECONDS: Final = 15.0
_ANSWER_BYTES: Final = 16 * 1024 * 1024
_BUFFER_BYTES: Final = 64 * 1024
_MAX_ITERATIONS: Final = 1_000_000
MAKES_NO_SENSE: Final = (AssertionError, ValueError, LookupError, NotImplementedError, struct.error)
"""What the client raises over answers that make no sense to it."""


class KafkaConnection(AIOKafkaConnection):  # type: ignore[misc]
    """A connection that is asked one thing after another, without waiting in between."""

    def __init__(self, access: Access, place: TargetUrl, address: str) -> None:
        connection = access.connection
        sasl = connection.username is not None
        super().__init__(
            address,
            place.port,
            client_id="tocsin",
            request_timeout_ms=REQUEST_SECONDS * 1000,
            ssl_context=access.tls,
            security_protocol=("SASL_" if sasl else "") + ("PLAINTEXT" if access.tls is None else "SSL"),
            sasl_mechanism=connection.mechanism if sasl else None,
            sasl_plain_username=connection.username,
            sasl_plain_password=access.password,
        )
        self._server_name = access.server_name(place.host)

    @property
    def asked(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._requests)

    async def connect(self) -> None:
        """Connect and log in. As the client does it, but for the reader and the name."""
        loop = asyncio.get_running_loop()
        self._closed_fut = loop.create_future()
        reader = _BoundedReader(limit=_BUFFER_BYTES, loop=loop)
        protocol = AIOKafkaProtocol(self._closed_fut, reader, loop=loop)
        transport, _ = await loop.create_connection(
            lambda: protocol, self.host, self.port, ssl=self._ssl_context, server_hostname=self._server_name
        )
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._reader, self._protocol = reader, protocol
        self._read_task = self._create_reader_task()
        try:
            await self._do_version_lookup()
            if self._sasl_mechanism is not None:
                await self._do_sasl_handshake()
        except BaseException:
            self.close()
            raise

    async def ask(self, request: Any) -> Any:
        """The answer to a request. Raises KafkaError; the connection is closed if there was none in time."""
        try:
            return await self.send(request)
        except TimeoutError:
            self.close()
            raise KafkaConnectionError(f"no answer within {REQUEST_SECONDS:g} s") from None
        except MAKES_NO_SENSE as error:
            raise KafkaError(str(error)) from None

    async def leave(self) -> None:
        """Close it, and wait for that."""
        closed = self.close()
        if closed is not None:
            await closed

    def authenticator_scram(self) -> ScramAuthenticator:
        """One that does not work for minutes because a server says so."""
        return _BoundedScram(
            loop=self._loop,
            sasl_plain_password=self._sasl_plain_password,
            sasl_plain_username=self._sasl_plain_username,
            sasl_mechanism=self._sasl_mechanism,
        )


class _BoundedReader(asyncio.StreamReader):
    async def readexactly(self, n: int) -> bytes:
        if n > _ANSWER_BYTES:
            raise ValueError("an answer larger than any that is asked for")
        return await super().readexactly(n)


class _BoundedScram(ScramAuthenticator):  # type: ignore[misc]
    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if iterations > _MAX_ITERATIONS:
            raise ValueError("too many iterations")
        super().create_salted_password(salt, iterations)
