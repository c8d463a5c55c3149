"""A conversation with a mail server: greet, encrypt, log in, hand letters over (RFC 5321, 3207, 4954).

The server's replies have bounds, and those from before TLS are forgotten with TLS. A reply that is no reply
ends the conversation.
"""

import asyncio
import base64
import errno
import os
import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tocsin.domain.errors import TocsinError

_LONGEST_LINE: Final = 4096
_MOST_LINES: Final = 100
_LINE: Final = re.compile(rb"([2-5]\d\d)([ -]?)(.*)")
_SHOWN: Final = 200


class Reply(msgspec.Struct, frozen=True):
    """What the server answered."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        """In one line, as people are shown it."""
        return f"{self.code} {' '.join(self.lines)}"[:_SHOWN].rstrip()


class Refusal(TocsinError):
    """The server said no."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.text)
        self.reply = reply

    @property
    def for_now(self) -> bool:
        """Whether it may say yes later."""
        return self.reply.code < 500


class Garbled(ConnectionAbortedError):
    """What it said is no reply: it does not speak SMTP."""


class Session:
    """One connection. Nothing is sent before the answer to what was sent before."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._offers: dict[str, list[str]] = {}
        self._plain: asyncio.StreamWriter | None = None
        """The writer from before TLS: once unreferenced it would close the connection."""

    @classmethod
    async def connect(cls, address: str, port: int, **tls: Any) -> "Session":
        """Connect and hear the greeting. Raises OSError and Refusal."""
        session = cls(*await asyncio.open_connection(address, port, limit=_LONGEST_LINE, **tls))
        try:
            await session._expect(2)
            await session._greet()
        except BaseException:
            session.drop()
            raise
        return session

    @property
    def over(self) -> bool:
        """Whether either side has ended it."""
        return self._reader.at_eof() or self._writer.is_closing()

    def offers(self, word: str) -> bool:
        """Whether the server said that it can do this."""
        return word in self._offers

    async def encrypt(self, context: ssl.SSLContext, server_name: str) -> None:
        """Go on by TLS. Whatever came before that unasked stays behind with the old reader."""
        await self._ask("STARTTLS")
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport = await loop.start_tls(
            self._writer.transport, protocol, context, server_hostname=server_name
        )
        if transport is None:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        protocol.connection_made(transport)
        self._plain = self._writer
        self._reader = reader
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        await self._greet()

    async def log_in(self, user: str, password: str) -> None:
        """Say who we are."""
        if "PLAIN" in self._offers.get("AUTH", ["PLAIN"]):
            await self._ask("AUTH PLAIN " + _coded(f"\0{user}\0{password}"))
            return
        await self._ask("AUTH LOGIN", 3)
        await self._ask(_coded(user), 3)
        await self._ask(_coded(password))

    async def offer(self, sender: str, recipients: Sequence[str]) -> None:
        """Say whom a letter is for; the server takes all of them, or none. Raises Refusal."""
        try:
            await self._ask(f"MAIL FROM:<{sender}>")
            for recipient in recipients:
                await self._ask(f"RCPT TO:<{recipient}>")
            await self._ask("DATA", 3)
        except Refusal:
            await self._ask("RSET")
            raise

    async def hand_over(self, letter: bytes) -> Reply:
        """Send the letter that was offered. From here on the server may have it. Raises Refusal."""
        self._writer.write(re.sub(rb"(?m)^\.", b"..", letter) + b".\r\n")
        await self._writer.drain()
        return await self._expect(2)

    async def leave(self) -> None:
        """Say so, and go."""
        if not self.over:
            await self._ask("QUIT")

    def drop(self) -> None:
        """Go without a word."""
        self._writer.transport.abort()

    async def _greet(self) -> None:
        host = str(self._writer.get_extra_info("sockname")[0])
        reply = await self._ask(f"EHLO [{f'IPv6:{host}' if ':' in host else host}]")
        words = [line.upper().split() for line in reply.lines[1:]]
        self._offers = {first: rest for first, *rest in filter(None, words)}

    async def _ask(self, command: str, wanted: int = 2) -> Reply:
        self._writer.write(f"{command}\r\n".encode())
        await self._writer.drain()
        return await self._expect(wanted)

    async def _expect(self, wanted: int) -> Reply:
        reply = await self._reply()
        if reply.code // 100 != wanted:
            raise Refusal(reply)
        return reply

    async def _reply(self) -> Reply:
        lines: list[str] = []
        while len(lines) < _MOST_LINES:
            try:
                raw = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from None
            except asyncio.LimitOverrunError:
                break
            found = _LINE.fullmatch(raw.rstrip(b"\r\n"))
            if found is None:
                break
            text = found[3].decode(errors="replace").strip()
            lines.append("".join(letter if letter.isprintable() else "?" for letter in text))
            if found[2] != b"-":
                return Reply(int(found[1]), lines)
        raise Garbled


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
