"""API keys: ``tocsin_<id>_<secret><checksum>``.

The prefix lets scanners find a leaked key, the id finds its row, the secret has 256 bits, and the checksum
tells a mistyped key from a wrong one without a look-up. Only a hash of the secret is stored; a fast hash is
right here because the secret is random, not chosen by a person.
"""

import hashlib
import hmac
import secrets
import string
import zlib
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.written import described

PREFIX: Final = "tocsin"
BOOTSTRAP_ID: Final = "bootstrap"
KEY_FILE: Final = "admin-key"
"""Where a data directory keeps the administrator's key."""
MIN_CHOSEN_LENGTH: Final = 16
LONGEST: Final = 512
_BASE62: Final = string.digits + string.ascii_letters
_SECRET_LETTERS: Final = 43  # 62^43 > 2^256
_CHECK_LETTERS: Final = 6
KeyId = Annotated[str, described(pattern="^[0-9A-Za-z]{1,32}$")]


class Scope(StrEnum):
    """What a key may do. `admin` includes the others."""

    READ = "read"
    WRITE = "write"
    WORKER = "worker"
    ADMIN = "admin"


class Presented(msgspec.Struct, frozen=True):
    """A key as a caller sent it, taken apart."""

    id: str
    secret: str


def new_key(key_id: str | None = None) -> tuple[str, str]:
    """A fresh key: its id and the whole text, which is shown once."""
    chosen = key_id or _random(12)
    secret = _random(_SECRET_LETTERS)
    body = f"{PREFIX}_{chosen}_{secret}"
    return chosen, body + _checksum(body)


def take_apart(text: str) -> Presented | None:
    """The parts of a key of our making, None if it is mistyped. Any other text is the operator's own key."""
    parts = text.split("_")
    if len(parts) != 3 or parts[0] != PREFIX:
        return Presented(BOOTSTRAP_ID, text)
    body = text[:-_CHECK_LETTERS]
    if not hmac.compare_digest(_checksum(body).encode(), text[-_CHECK_LETTERS:].encode()):
        return None
    return Presented(parts[1], text)


def check_chosen(text: str) -> None:
    """Refuse an operator's own key that could not be presented, or not be told from one of ours."""
    if not MIN_CHOSEN_LENGTH <= len(text) <= LONGEST:
        raise Refused(f"the key has {MIN_CHOSEN_LENGTH} to {LONGEST} characters", field="TOCSIN_ADMIN_KEY")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Refused("the key has letters, digits and signs only, no spaces", field="TOCSIN_ADMIN_KEY")
    presented = take_apart(text)
    if presented is None or presented.id != BOOTSTRAP_ID:
        raise Refused(f"a key of your own does not look like {PREFIX}_…_…", field="TOCSIN_ADMIN_KEY")


def hash_of(text: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(text.encode()).digest()


def matches(text: str, stored: bytes) -> bool:
    """Constant-time comparison with the stored hash."""
    return hmac.compare_digest(hash_of(text), stored)


def _random(letters: int) -> str:
    return "".join(secrets.choice(_BASE62) for _ in range(letters))


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    letters = ""
    for _ in range(_CHECK_LETTERS):
        value, digit = divmod(value, 62)
        letters += _BASE62[digit]
    return letters
