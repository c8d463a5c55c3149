"""NATS JetStream: a message counts as published when its stream acknowledges it.

A batch is written at once and its acknowledgements come to one subscription, each under a number of its own.
The client's own reconnecting is off, so hosts that a server announces are never followed: a lost connection
fails what is under way, and the next batch connects to one of the connection's own addresses, checked again.
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error, MaxPayloadError
from nats.js.errors import APIError, NotFoundError

from tocsin.domain.addresses import TargetUrl
from tocsin.domain.connection import places
from tocsin.domain.message_target import NatsTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.message.broker import Access, NotOpened
from tocsin.targets.message.message import Message, Parcel, away, busy, lost, rejected
from tocsin.targets.message.opening import OPEN_SECONDS, first_open

_UNAUTHORIZED: Final = re.compile(r"authorization|authentication|permission", re.IGNORECASE)
_FORBIDDEN: Final = re.compile(r"permissions violation for publish to \"([^\"]+)\"", re.IGNORECASE)
_NO_RESPONDERS: Final = "503"
_SERVER_ERROR: Final = 500
_PASSING: Final = {10158, 10167, 10002}
"""Errors below 500 that pass: the first copy is still being replicated, too many messages wait for the
stream, the account's space is used up."""
_WRITTEN_AT_ONCE: Final = 256
"""Messages between two looks at whether the kernel takes what is written."""


class _Failure(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""

    @property
    def passes(self) -> bool:
        """Whether another attempt may succeed."""
        return self.code >= _SERVER_ERROR or self.err_code in _PASSING


class _Ack(msgspec.Struct, frozen=True):
    """What JetStream answers."""

    stream: str | None = None
    seq: int = 0
    duplicate: bool = False
    error: _Failure | None = None


class NatsBroker:
    """One connection to one NATS server."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._client = Client()
        self._inbox = ""
        self._numbers = itertools.count()
        self._unacknowledged: dict[str, Parcel] = {}
        self._trouble: Exception | None = None
        self._connecting = False

    @property
    def lost(self) -> bool:
        """Whether the server is gone."""
        return not self._client.is_connected

    async def open(self) -> None:
        """Connect to the first server that answers."""
        await first_open(self._access.dialer, places(self._access.connection), self._connect)
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """Write them all, then wait for their acknowledgements or the end of the connection."""
        numbers = []
        try:
            for written, parcel in enumerate(parcels, 1):
                numbers.append(await self._write(parcel))
                if written % _WRITTEN_AT_ONCE == 0:
                    await asyncio.sleep(0)
            await asyncio.wait([parcel.ended for parcel in parcels])
        except (Error, OSError):
            return  # lost meanwhile
        finally:
            for number in numbers:
                self._unacknowledged.pop(number, None)

    async def close(self) -> None:
        """Leave, whatever state the connection is in."""
        if self._connecting:  # else the client has nothing to close, and objects
            with contextlib.suppress(Error, OSError, TimeoutError):
                async with asyncio.timeout(OPEN_SECONDS):
                    await self._client.close()
        await self._ended()

    async def _connect(self, place: TargetUrl, address: str) -> None:
        try:
            await self._log_in(place, address)
        except ConnectionError:
            # A server that does not let us in says why and hangs up, and the end of the connection may
            # overtake the reason. Asked to answer every line it says the reason first.
            await self._log_in(place, address, verbose=True)
            await self._client.close()
            raise

    async def _log_in(self, place: TargetUrl, address: str, *, verbose: bool = False) -> None:
        access = self._access
        host = f"[{address}]" if ":" in address else address
        self._client, self._connecting = Client(), True
        try:
            await self._client.connect(
                f"nats://{host}:{place.port}",
                error_cb=self._failed,
                closed_cb=self._ended,
                disconnected_cb=self._ended,
                name="tocsin",
                verbose=verbose,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=cast("int", OPEN_SECONDS),
                no_echo=True,
                tls=access.tls,
                tls_hostname=access.server_name(place.host),
                user=access.connection.username,
                password=access.password,
                token=access.token,
            )
        except Error as error:
            await self._client.close()
            trouble = self._trouble or error
            if isinstance(trouble, OSError):
                raise trouble from None
            if _UNAUTHORIZED.search(str(trouble)):
                raise NotOpened(
                    Outcome(Verdict.REJECTED, "the broker did not let us in: authorization")
                ) from None
            raise NotOpened(away(f"could not connect: {type(trouble).__name__}")) from None

    async def _write(self, parcel: Parcel) -> str:
        number = str(next(self._numbers))
        self._unacknowledged[number] = parcel
        message = parcel.message
        target = cast("NatsTarget", message.target)
        try:
            await self._client.publish(
                target.subject, message.body, f"{self._inbox}.{number}", _headers(message, target)
            )
        except MaxPayloadError:
            parcel.end(rejected("it is larger than the server takes"))
        return number

    async def _answered(self, answer: Msg) -> None:
        number = answer.subject.rpartition(".")[2]
        parcel = self._unacknowledged.pop(number, None)
        if parcel is None:
            return
        if answer.headers is not None and answer.headers.get("Status") == _NO_RESPONDERS:
            parcel.end(await self._unanswered(cast("NatsTarget", parcel.message.target).subject))
        else:
            parcel.end(_outcome(answer.data))

    async def _unanswered(self, subject: str) -> Outcome:
        """No stream took the message: because there is none, or because its leader is moving."""
        try:
            stream = await self._client.jetstream().find_stream_name_by_subject(subject)
        except NotFoundError:
            return rejected("no stream takes this subject")
        except (APIError, Error, OSError, TimeoutError):
            return busy("JetStream did not answer")
        return busy(f"the stream {stream} has no leader now")

    async def _failed(self, error: Exception) -> None:
        """What the server says beside acknowledgements. A refusal to publish names the subject only."""
        self._trouble = error
        forbidden = _FORBIDDEN.search(str(error))
        if forbidden is not None:
            for parcel in list(self._unacknowledged.values()):
                # The client writes errors in lower case.
                if cast("NatsTarget", parcel.message.target).subject.lower() == forbidden[1].lower():
                    parcel.end(rejected("not allowed to publish to this subject"))

    async def _ended(self) -> None:
        """The connection is over: nothing more will be acknowledged."""
        for parcel in list(self._unacknowledged.values()):
            parcel.end(lost())


def _headers(message: Message, target: NatsTarget) -> dict[str, Any]:
    headers = {**target.headers, **message.headers, "Nats-Msg-Id": message.key}
    if target.stream is not None:
        headers["Nats-Expected-Stream"] = target.stream
    return headers


def _outcome(data: bytes) -> Outcome:
    try:
        ack = msgspec.json.decode(data, type=_Ack)
    except msgspec.DecodeError:
        return rejected("the answer is no acknowledgement of a stream")
    if ack.error is not None:
        return (busy if ack.error.passes else rejected)(ack.error.description)
    if ack.stream is None:
        return rejected("the answer is no acknowledgement of a stream")
    detail: dict[str, Any] = {"stream": ack.stream, "sequence": ack.seq}
    return Outcome(Verdict.SUCCEEDED, detail=detail | ({"duplicate": True} if ack.duplicate else {}))
