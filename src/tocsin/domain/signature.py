"""Signatures of requests, by the Standard Webhooks specification.

``webhook-signature`` is a list of ``v1,`` and base64 of HMAC-SHA256 over ``id.timestamp.body``, one for each
secret that is live: while a secret is being replaced, a receiver that knows either of the two finds one that
fits. The id is the execution's, the same over all its attempts; the timestamp is of the attempt.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "whsec_"
_BYTES: Final = 32


def new_signing_secret() -> bytes:
    """The bytes of a fresh secret."""
    return os.urandom(_BYTES)


def signing_secret_text(secret: bytes) -> str:
    """A secret as receivers configure it."""
    return PREFIX + base64.b64encode(secret).decode()


def signature_headers(secrets: Iterable[bytes], id_: str, seconds: int, body: bytes) -> dict[str, str]:
    """The three headers of a signed request; without a secret, those that need none."""
    headers = {"webhook-id": id_, "webhook-timestamp": str(seconds)}
    content = f"{id_}.{seconds}.".encode() + body
    if signatures := [_sign(secret, content) for secret in secrets]:
        headers["webhook-signature"] = " ".join(signatures)
    return headers


def _sign(secret: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()
