"""TLS with a certificate of the caller's own: from the PEM text of a secret to a context that connections are
made with.

A context is made once per tenant, secret and value, on a thread, since reading the system's trust store takes
tens of milliseconds. OpenSSL reads keys from files only, so the text is put into one that has no name and
lives in memory, or, where there is none such, into one that only this user can read and that is gone before
another task runs.

Errors tell what is wrong with a text by kind, and hold no part of it.
"""

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from tocsin.domain.errors import Refused
from tocsin.targets.http.client import default_ssl_context

_REMEMBERED: Final = 256
_SHAPE: Final = (
    "a client certificate is PEM text: the certificate, those between it and its root, and its private key"
)


class _Asked(msgspec.Struct, frozen=True):
    """A certificate of a tenant. The value is part of it: a new one is another certificate."""

    tenant_id: int
    name: str
    pem: str

    def __repr__(self) -> str:
        return f"_Asked({self.tenant_id}, {self.name})"


class ClientCertificates:
    """The contexts of one worker. `trust` makes a context that knows whom to trust."""

    def __init__(self, trust: Callable[[], ssl.SSLContext] = default_ssl_context) -> None:
        self._trust = trust
        self._made: OrderedDict[_Asked, asyncio.Task[ssl.SSLContext]] = OrderedDict()

    async def context(self, tenant_id: int, name: str, pem: str) -> ssl.SSLContext:
        """The context with this certificate; always the same one, so that its connections can be shared."""
        asked = _Asked(tenant_id, name, pem)
        making = self._made.get(asked)
        if making is None:
            making = asyncio.create_task(asyncio.to_thread(self._make, asked), name="client certificate")
            making.add_done_callback(lambda done: self._forget_if_failed(asked, done))
            self._made[asked] = making
            if len(self._made) > _REMEMBERED:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(asked)
        return await asyncio.shield(making)

    def _forget_if_failed(self, asked: _Asked, done: asyncio.Task[ssl.SSLContext]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._made.pop(asked, None)

    def _make(self, asked: _Asked) -> ssl.SSLContext:
        context = self._trust()
        try:
            _load(context, asked.pem)
        except _Wrong as wrong:
            raise Refused(
                f"the secret {asked.name!r} is no client certificate: {wrong}",
                field="target.tls.client_certificate",
                hint=_SHAPE,
            ) from None
        return context


class _Wrong(Exception):
    """What is wrong with a text."""


def _load(context: ssl.SSLContext, pem: str) -> None:
    if "-----BEGIN CERTIFICATE-----" not in pem:
        raise _Wrong("it has no certificate")
    if "PRIVATE KEY-----" not in pem:
        raise _Wrong("it has no private key")
    try:
        with _file_of(pem.encode()) as path:
            # Without a function for the password OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=_refuse_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _Wrong("its private key belongs to another certificate") from None
        raise _Wrong("its certificate or private key cannot be read") from None


def _refuse_password() -> NoReturn:
    raise _Wrong("its private key is encrypted")


@contextlib.contextmanager
def _file_of(content: bytes) -> Iterator[Path]:
    """A file that no other user can read, there only for as long as the block runs."""
    descriptor = _memory_file()
    if descriptor is None:
        with tempfile.NamedTemporaryFile(prefix="tocsin-") as file:  # mode 0600
            file.write(content)
            file.flush()
            yield Path(file.name)
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield Path(f"/proc/self/fd/{descriptor}")


def _memory_file() -> int | None:
    """A file without a name, if the system has such, and shows them."""
    if not hasattr(os, "memfd_create") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        descriptor = os.memfd_create("tocsin-certificate", os.MFD_CLOEXEC)
    except OSError:
        return None
    os.fchmod(descriptor, 0o600)
    return descriptor
