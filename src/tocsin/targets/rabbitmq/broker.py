"""RabbitMQ: a message counts as published when the broker confirms it and has routed it to a queue.

The broker sends a message that no queue takes back before it confirms it, so `mandatory` messages are never
lost in silence. RabbitMQ answers a publish that it refuses by closing the channel, with everything that is
unconfirmed on it. Each exchange has a channel of its own, so such a message harms no other exchange, and what
shares the channel with it is tried again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import quote

from aiormq import Connection
from aiormq.channel import Channel
from aiormq.exceptions import (
    AMQPConnectionError,
    AMQPError,
    AuthenticationError,
    ChannelClosed,
    ConnectionClosed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from pamqp import commands

from tocsin.domain.addresses import TargetUrl
from tocsin.domain.connection import places
from tocsin.domain.message_target import RabbitTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.message.broker import Access, NotOpened
from tocsin.targets.message.message import Message, Parcel, away, busy, rejected
from tocsin.targets.message.opening import OPEN_SECONDS, first_open
from tocsin.targets.rabbitmq.refusal import is_at_fault

_GUEST: Final = "guest"
"""The user and password that RabbitMQ comes with; it lets them in from its own machine only."""
_CHANNELS: Final = 256
_PERSISTENT: Final = 2
_HEARTBEAT_SECONDS: Final = 10
_NOT_LET_IN: Final = frozenset({402, 403, 530})
"""How a node refuses a virtual host: it is not there, or not open to the user."""


class _Connection(Connection):
    """Hears why a node refuses a virtual host: else the client takes the answer for a broken frame."""

    @staticmethod
    async def _rpc(request: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(request, commands.Connection.Open):
            answers = [*request.valid_responses, commands.Connection.Close.name]
            vars(request)["valid_responses"] = answers  # of this request, not of all
        return await Connection._rpc(request, *rest, **named)  # noqa: SLF001 - of the class above


class RabbitBroker:
    """One connection to one node of RabbitMQ."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connection: Connection | None = None
        self._channels: dict[str, Channel] = {}
        self._opening = asyncio.Lock()

    @property
    def lost(self) -> bool:
        """Whether the node is gone."""
        return self._connection is None or not self._connection.is_opened

    async def open(self) -> None:
        """Connect to the first node that answers."""
        # The client tells of every lost connection with a traceback; the attempts tell what it meant.
        logging.getLogger("aiormq").setLevel(logging.CRITICAL)
        connection = self._access.connection
        self._connection = await first_open(self._access.dialer, places(connection), self._connect)

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """Write them all, then wait until each is confirmed or the connection ends."""
        if await self._is_blocked():
            for parcel in parcels:
                parcel.end(busy("it is short of memory or disk"))
            return
        async with asyncio.TaskGroup() as sending:
            for parcel in parcels:
                sending.create_task(self._send(parcel))

    async def close(self) -> None:
        """Leave, whatever state the connection is in."""
        if self._connection is not None:
            with contextlib.suppress(AMQPError, OSError, TimeoutError, RuntimeError):
                async with asyncio.timeout(OPEN_SECONDS):
                    await self._connection.close()

    async def _is_blocked(self) -> bool:
        """Whether the node has said that it takes no messages for now."""
        try:
            async with asyncio.timeout(0):
                await cast("Connection", self._connection).ready()
        except TimeoutError:
            return True
        return False

    async def _send(self, parcel: Parcel) -> None:
        target = cast("RabbitTarget", parcel.message.target)
        try:
            channel = await self._channel(target.exchange)
            if channel is None:
                parcel.end(busy("too many exchanges are published to at once"))
                return
            await channel.basic_publish(
                parcel.message.body,
                exchange=target.exchange,
                routing_key=target.routing_key,
                properties=_properties(parcel.message, target),
                mandatory=True,
                wait=False,
            )
        except PublishError:
            parcel.end(rejected("no queue takes it"))
        except DeliveryError:
            parcel.end(busy("a queue did not take the message"))
        except ChannelClosed as error:
            parcel.end(_of_closed_channel(error, parcel.message, target))
        except (AMQPError, RuntimeError, OSError):
            return  # lost: the client raises RuntimeError once channel or connection are closed
        else:
            parcel.end(Outcome(Verdict.SUCCEEDED, detail={"exchange": target.exchange}))

    async def _channel(self, exchange: str) -> Channel | None:
        """The channel of an exchange; None if there are too many, all of them at work."""
        async with self._opening:
            known = self._channels.get(exchange)
            if known is not None and not known.is_closed:
                return known
            self._channels.pop(exchange, None)
            if len(self._channels) >= _CHANNELS and not await self._make_room():
                return None
            connection = cast("Connection", self._connection)
            channel = cast(
                "Channel", await connection.channel(publisher_confirms=True, on_return_raises=True)
            )
            self._channels[exchange] = channel
            return channel

    async def _make_room(self) -> bool:
        for exchange, channel in self._channels.items():
            if not channel.confirmations:
                del self._channels[exchange]
                await channel.close()
                return True
        return False

    async def _connect(self, place: TargetUrl, address: str) -> Connection:
        connection = _connection_to(self._access, place, address)
        try:
            await connection.connect()
        except (AuthenticationError, ProbableAuthenticationError):
            raise NotOpened(_not_let_in("the user or the password is wrong")) from None
        except ConnectionClosed as error:
            if error.args[0] in _NOT_LET_IN:
                raise NotOpened(_not_let_in("the virtual host is not there or not open to us")) from None
            raise NotOpened(away("the broker closed the connection")) from None
        except AMQPConnectionError as error:
            raise _cause(error) from None
        except AMQPError:
            raise NotOpened(away("it does not answer as RabbitMQ does")) from None
        return connection


def _connection_to(access: Access, place: TargetUrl, address: str) -> Connection:
    """To the address that was checked, expecting the certificate of the name."""
    user, password = access.connection.username or _GUEST, access.password or _GUEST
    scheme = "amqp" if access.tls is None else "amqps"
    host = f"[{address}]" if ":" in address else address
    named: dict[str, Any] = {} if access.tls is None else {"server_hostname": access.server_name(place.host)}
    connection = _Connection(
        f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{place.port}/"
        f"?heartbeat={_HEARTBEAT_SECONDS}&name=tocsin",
        context=access.tls,
        **named,
    )
    connection.vhost = access.connection.virtual_host
    return connection


def _properties(message: Message, target: RabbitTarget) -> commands.Basic.Properties:
    headers: dict[str, Any] = {**target.headers, **message.headers}
    return commands.Basic.Properties(
        content_type=message.headers.get("content-type"),
        headers=headers,
        delivery_mode=_PERSISTENT,
        message_id=message.key,
    )


def _of_closed_channel(error: ChannelClosed, message: Message, target: RabbitTarget) -> Outcome:
    reason = str(error)
    if is_at_fault(reason, target, len(message.body)):
        return rejected(reason)
    return busy("it closed the channel because of another message")


def _not_let_in(reason: str) -> Outcome:
    return Outcome(Verdict.REJECTED, f"the broker did not let us in: {reason}")


def _cause(error: AMQPConnectionError) -> OSError:
    """The system's error, without the address that the client's own words name."""
    cause = error.__cause__
    return cause if isinstance(cause, OSError) else OSError(type(error).__name__)
