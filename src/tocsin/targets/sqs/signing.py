"""Signature Version 4: a request that carries proof of a secret key instead of the key.

A pure function over one request to the root of a service. It signs every header that it is given, so nothing
that is signed can be changed on the way. Headers that are sent beside them are not its business.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from tocsin.domain.instant import SECOND, Instant

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class Credentials(msgspec.Struct, frozen=True):
    """Whose request it is."""

    key_id: str
    secret: str
    region: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.region})"


def signed(
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
    service: str,
    now: Instant,
) -> dict[str, str]:
    """The headers to send: those given, with `host` among them and names in lower case, and the proof."""
    when = datetime.fromtimestamp(now // SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")
    sent = {**headers, "x-amz-date": when}
    if credentials.session_token is not None:
        sent["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(sent))
    lines = "".join(f"{name}:{' '.join(sent[name].split())}\n" for name in sorted(sent))
    canonical = "\n".join((method, "/", "", lines, names, hashlib.sha256(body).hexdigest()))
    scope = f"{when[:8]}/{credentials.region}/{service}/aws4_request"
    claim = "\n".join((_ALGORITHM, when, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.new(signing_key(credentials, service, when[:8]), claim.encode(), hashlib.sha256)
    sent["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature.hexdigest()}"
    )
    return sent


def signing_key(credentials: Credentials, service: str, day: str) -> bytes:
    """The key of one day, region and service."""
    key = f"AWS4{credentials.secret}".encode()
    for word in (day, credentials.region, service, "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key
