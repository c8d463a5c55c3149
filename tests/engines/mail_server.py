"""A small mail server in the test's own event loop: takes letters, and can be told to refuse, to cut the
connection and to speak TLS. It shares no code with Tocsin; letters are read by the standard library."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any


class MailServer:
    """Says what a test scripted for a command (`"RCPT": "550 no"`), or cuts the line (`"DATA": None`)."""

    def __init__(self, tls: ssl.SSLContext | None = None, login: tuple[str, str] | None = None) -> None:
        self.tls = tls
        self.login = login
        self.mechanisms = "PLAIN LOGIN"
        self.at_once = False
        self.script: dict[str, str | None] = {}
        self.letters: list[EmailMessage] = []
        self.raw: list[bytes] = []
        self.recipients: list[list[str]] = []
        self.sessions = 0
        self.heard: list[str] = []
        self.port = 0
        self._talks: set[asyncio.Task[None]] = set()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One session."""
        self.sessions += 1
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        try:
            await self._talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._talks.discard(talk)
            writer.close()

    def hang_up(self) -> None:
        """End every session."""
        for talk in self._talks:
            talk.cancel()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sealed, known = self.at_once, False
        recipients: list[str] = []

        def say(text: str) -> None:
            writer.write(text.encode() + b"\r\n")

        say(self.script.get("HELLO") or "220 mail.example ready")
        while line := (await reader.readuntil(b"\r\n")).decode().strip():
            word = line.split(" ")[0].upper()
            self.heard.append(line)
            if word in self.script:
                scripted = self.script[word]
                if scripted is None:
                    return
                say(scripted)
            elif word == "EHLO":
                offers = ["mail.example", "SIZE 1000000"]
                offers += ["STARTTLS"] if self.tls and not sealed else []
                offers += [f"AUTH {self.mechanisms}"] if self.login else []
                for offer in offers[:-1]:
                    say(f"250-{offer}")
                say(f"250 {offers[-1]}")
            elif word == "STARTTLS" and self.tls:
                # What is sent before the handshake is not ours to trust: a client must forget it.
                say("220 go on\r\n250-forged\r\n250 AUTH FORGED")
                await writer.drain()
                await writer.start_tls(self.tls)
                sealed = True
            elif word == "AUTH":
                known = await self._knows(line, reader, say)
                say("235 welcome" if known else "535 5.7.8 wrong")
            elif self.login and not known and word in ("MAIL", "RCPT", "DATA"):
                say("530 5.7.0 log in first")
            elif word == "RCPT":
                recipients.append(line.partition("<")[2].rstrip(">"))
                say("250 fine")
            elif word == "DATA":
                say("354 go on")
                raw = await reader.readuntil(b"\r\n.\r\n")
                self.raw.append(raw)
                body = raw[:-3].replace(b"\r\n..", b"\r\n.")
                letter: Any = message_from_bytes(body, policy=policy.default)
                self.letters.append(letter)
                self.recipients.append(recipients)
                recipients = []
                if "END" in self.script:
                    scripted = self.script["END"]
                    if scripted is None:
                        return
                    say(scripted)
                else:
                    say(f"250 2.0.0 taken as {len(self.letters)}")
            elif word == "RSET":
                recipients = []
                say("250 fine")
            elif word == "QUIT":
                say("221 bye")
                return
            else:
                say("250 fine")

    async def _knows(self, line: str, reader: asyncio.StreamReader, say: Any) -> bool:
        if line.startswith("AUTH PLAIN "):
            _, user, password = base64.b64decode(line.split(" ")[2]).decode().split("\0")
        else:
            words = []
            for prompt in ("VXNlcm5hbWU6", "UGFzc3dvcmQ6"):
                say(f"334 {prompt}")
                words.append(base64.b64decode(await reader.readuntil(b"\r\n")).decode())
            user, password = words
        return (user, password) == self.login


@asynccontextmanager
async def mail_server(**given: Any) -> AsyncIterator[MailServer]:
    """A server that listens."""
    server = MailServer(**given)
    listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, limit=1_000_000)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        server.hang_up()
        await listening.wait_closed()
