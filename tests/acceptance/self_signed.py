"""TLS certificates made on the spot, in plain Python: an ECDSA key on P-256 and just enough DER.

Nothing to install and no `openssl` command needed. Not for anything but tests: the arithmetic is not
constant-time.
"""

import base64
import hashlib
import secrets
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
GENERATOR = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
EC_PUBLIC_KEY = "1.2.840.10045.2.1"
PRIME256V1 = "1.2.840.10045.3.1.7"
ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2"
COMMON_NAME = "2.5.4.3"
SUBJECT_ALT_NAME = "2.5.29.17"
BASIC_CONSTRAINTS = "2.5.29.19"

Point = tuple[int, int] | None


def write_certificate(folder: Path, *names: str, valid_days: int = 1) -> Path:
    """A self-signed certificate with its key in one PEM file. Negative `valid_days` make one that has
    expired."""
    private = secrets.randbelow(ORDER - 1) + 1
    certificate = _certificate(private, names, valid_days)
    path = folder / f"{'-'.join(names).replace(':', '_')}{valid_days}.pem"
    path.write_text(_pem("CERTIFICATE", certificate) + _pem("EC PRIVATE KEY", _private_key(private)))
    return path


def server_context(certificate: Path) -> ssl.SSLContext:
    """What a server with this certificate listens with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def trusting_context(certificate: Path) -> ssl.SSLContext:
    """What a client that trusts this certificate, and checks everything else, connects with."""
    return ssl.create_default_context(cafile=str(certificate))


def _certificate(private: int, names: tuple[str, ...], valid_days: int) -> bytes:
    now = datetime.now(UTC)
    first, last = sorted((now - timedelta(days=10), now + timedelta(days=valid_days)))
    algorithm = _sequence(_oid(ECDSA_WITH_SHA256))
    name = _sequence(_set(_sequence(_oid(COMMON_NAME), _tlv(0x0C, names[0].encode()))))
    extensions = _sequence(
        _sequence(_oid(BASIC_CONSTRAINTS), _octets(_sequence(_tlv(0x01, b"\xff")))),
        _sequence(_oid(SUBJECT_ALT_NAME), _octets(_sequence(*map(_general_name, names)))),
    )
    body = _sequence(
        _tlv(0xA0, _integer(2)),
        _integer(secrets.randbits(120)),
        algorithm,
        name,
        _sequence(_time(first), _time(last)),
        name,
        _sequence(_sequence(_oid(EC_PUBLIC_KEY), _oid(PRIME256V1)), _bits(_public_key(private))),
        _tlv(0xA3, extensions),
    )
    return _sequence(body, algorithm, _bits(_signature(private, body)))


def _private_key(private: int) -> bytes:
    return _sequence(
        _integer(1),
        _octets(private.to_bytes(32, "big")),
        _tlv(0xA0, _oid(PRIME256V1)),
        _tlv(0xA1, _bits(_public_key(private))),
    )


def _public_key(private: int) -> bytes:
    x, y = _times(private, GENERATOR)
    return b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")


def _signature(private: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    nonce = secrets.randbelow(ORDER - 1) + 1
    r = _times(nonce, GENERATOR)[0] % ORDER
    s = pow(nonce, -1, ORDER) * (digest + r * private) % ORDER
    return _sequence(_integer(r), _integer(s))


def _times(factor: int, point: tuple[int, int]) -> tuple[int, int]:
    total: Point = None
    power: Point = point
    while factor:
        if factor & 1:
            total = _plus(total, power)
        power = _plus(power, power)
        factor >>= 1
    assert total is not None
    return total


def _plus(a: Point, b: Point) -> Point:
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    slope = (3 * a[0] ** 2 - 3) * pow(2 * a[1], -1, P) if a == b else (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope**2 - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def _tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tlv(0x30, b"".join(parts))


def _set(*parts: bytes) -> bytes:
    return _tlv(0x31, b"".join(parts))


def _integer(value: int) -> bytes:
    return _tlv(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _octets(content: bytes) -> bytes:
    return _tlv(0x04, content)


def _bits(content: bytes) -> bytes:
    return _tlv(0x03, b"\x00" + content)


def _time(moment: datetime) -> bytes:
    return _tlv(0x18, moment.strftime("%Y%m%d%H%M%SZ").encode())


def _oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    encoded = bytearray((first * 40 + second,))
    for number in rest:
        septets = [number & 0x7F]
        while number := number >> 7:
            septets.append(0x80 | number & 0x7F)
        encoded += bytes(reversed(septets))
    return _tlv(0x06, bytes(encoded))


def _general_name(name: str) -> bytes:
    try:
        return _tlv(0x87, ip_address(name).packed)
    except ValueError:
        return _tlv(0x82, name.encode())


def _pem(label: str, der: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----\n"
