"""Sealing of secrets for the database: AES-256-GCM, under a master key that the database never sees.

A sealed value is bound to where it belongs (tenant and name): moved to another row it does not open. The id
of a key says which one sealed a value and tells nothing else about it. Several keys may be given while one
replaces another: the first seals, each opens what it sealed.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tocsin.domain.errors import Refused, TocsinError

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class CannotOpen(TocsinError):
    """A value does not open: sealed with a key that is not here, or not what was sealed."""


class KeyMissing(CannotOpen):
    """The key that sealed it is not here. Another process may have it."""


class SecretBox:
    """Seals and opens. Holds the master keys, and never shows them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = {_id_of(key): AESGCM(key) for key in keys}
        self.key_id = _id_of(keys[0])

    def seal(self, tenant_id: int, name: str, value: bytes) -> bytes:
        """The value as it is stored, under `key_id`."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._ciphers[self.key_id].encrypt(nonce, value, _place(tenant_id, name))

    def open(self, tenant_id: int, name: str, key_id: str, sealed: bytes) -> bytes:
        """The value again."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise KeyMissing(f"it was sealed with key {key_id}, which this process does not have")
        try:
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _place(tenant_id, name))
        except (InvalidTag, ValueError):
            raise CannotOpen("what is stored is damaged") from None

    def __repr__(self) -> str:
        return f"SecretBox({self.key_id})"


def new_master_key() -> str:
    """A fresh key, as it is written down."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def read_master_keys(text: str, field: str) -> list[bytes]:
    """Keys as written: base64 or hexadecimal, separated by commas, spaces or lines; the first seals."""
    keys = [_read_key(word, field) for word in text.replace(",", " ").split()]
    if not keys:
        raise Refused("there is no key in it", field=field)
    return keys


def _read_key(word: str, field: str) -> bytes:
    try:
        if len(word) == 2 * KEY_BYTES:
            key = bytes.fromhex(word)
        else:
            standard = word.replace("-", "+").replace("_", "/")
            key = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise Refused(
            f"a key is {KEY_BYTES} random bytes in base64 or hexadecimal",
            field=field,
            hint="`openssl rand -base64 32` makes one",
        )
    return key


def _id_of(key: bytes) -> str:
    return hashlib.sha256(b"tocsin key id" + key).hexdigest()[:12]


def _place(tenant_id: int, name: str) -> bytes:
    return f"{tenant_id}/{name}".encode()
