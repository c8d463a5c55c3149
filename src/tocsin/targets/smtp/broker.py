"""Mail: a message counts as sent when the server has taken it over for all of its recipients.

Letters go one after the other over one session, so a server is never given more at once than it takes. TLS
is spoken at once on port 465, and after STARTTLS on any other; a server that does not offer it gets neither
password nor mail. A retry after a lost answer has the same Message-ID.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from typing import Final, cast

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl
from tocsin.domain.connection import places
from tocsin.domain.instant import to_datetime
from tocsin.domain.message_target import SmtpTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.message.broker import Access, NotOpened
from tocsin.targets.message.message import Parcel, away, busy, rejected
from tocsin.targets.message.opening import OPEN_SECONDS, first_open
from tocsin.targets.smtp.letter import letter, message_id
from tocsin.targets.smtp.session import Garbled, Refusal, Session

_TLS_AT_ONCE: Final = 465
_CLOSING: Final = 421
_UNSENT: Final = "the connection was lost before the mail was sent"


class SmtpBroker:
    """A session with one mail server."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._sender = access.connection.sender or ""
        self._session: Session | None = None
        self._turn = asyncio.Lock()

    @property
    def lost(self) -> bool:
        """Whether the session is over."""
        return self._session is None or self._session.over

    async def open(self) -> None:
        """Connect to the first server that answers, and log in."""
        self._session = await first_open(self._access.dialer, places(self._access.connection), self._connect)

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """One after the other. When the session ends, the one that was being handed over may have been taken;
        those after it were not sent."""
        for parcel in parcels:
            async with self._turn:
                if parcel.ended.done():
                    continue
                if self.lost:
                    parcel.end(away(_UNSENT))
                    continue
                try:
                    async with asyncio.timeout_at(parcel.deadline):
                        await self._send(cast("Session", self._session), parcel)
                except TimeoutError:
                    self._drop()  # what it answers yet would be taken for the answer to another mail

    async def close(self) -> None:
        """Leave."""
        if self._session is None:
            return
        with contextlib.suppress(OSError, Refusal, TimeoutError):
            async with asyncio.timeout(OPEN_SECONDS):
                await self._session.leave()
        self._drop()

    async def _send(self, session: Session, parcel: Parcel) -> None:
        target = cast("SmtpTarget", parcel.message.target)
        try:
            written = letter(parcel.message, self._sender, to_datetime(self._clock.now()))
            await session.offer(self._sender, target.to)
        except Refusal as refusal:
            self._refused(parcel, refusal)
            return
        except OSError:
            self._drop()
            parcel.end(away(_UNSENT))
            return
        try:
            reply = await session.hand_over(written)
        except Refusal as refusal:
            self._refused(parcel, refusal)
        except OSError:
            self._drop()  # what has not ended is lost
        else:
            detail = {"id": message_id(parcel.message, self._sender), "answer": reply.text}
            parcel.end(Outcome(Verdict.SUCCEEDED, detail=detail))

    def _refused(self, parcel: Parcel, refusal: Refusal) -> None:
        if refusal.reply.code == _CLOSING:
            self._drop()
        parcel.end(busy(str(refusal)) if refusal.for_now else rejected(str(refusal)))

    def _drop(self) -> None:
        if self._session is not None:
            self._session.drop()

    async def _connect(self, place: TargetUrl, address: str) -> Session:
        tls, name = self._access.tls, self._access.server_name(place.host)
        at_once = tls is not None and place.port == _TLS_AT_ONCE
        given = {"ssl": tls, "server_hostname": name} if at_once else {}
        try:
            session = await Session.connect(address, place.port, **given)
            try:
                if tls is not None and not at_once:
                    await self._encrypt(session, tls, name or place.host)
                if self._access.connection.username is not None:
                    await session.log_in(self._access.connection.username, self._access.password or "")
            except BaseException:
                session.drop()
                raise
        except Refusal as refusal:
            raise _not_let_in(refusal) from None
        except Garbled:
            raise NotOpened(away("what answers there does not speak SMTP")) from None
        return session

    async def _encrypt(self, session: Session, context: ssl.SSLContext, name: str) -> None:
        if not session.offers("STARTTLS"):
            raise NotOpened(Outcome(Verdict.REJECTED, "the mail server does not offer TLS (STARTTLS)"))
        await session.encrypt(context, name)


def _not_let_in(refusal: Refusal) -> NotOpened:
    if refusal.for_now:
        return NotOpened(away(f"the mail server is busy: {refusal}"))
    return NotOpened(Outcome(Verdict.REJECTED, f"the mail server did not let us in: {refusal}"))
