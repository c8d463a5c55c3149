"""A unary gRPC call: where to, which method, and the message as JSON.

Nothing is generated. The target carries the descriptors of its method, as a serialized FileDescriptorSet: the
user's, or what the server's reflection said when the job was written. So a fire asks no server for it.
"""

import base64
import binascii
import re
from typing import Annotated, Any, ClassVar, Final

import msgspec

from tocsin.domain.addresses import TargetUrl, parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.http_auth import Value
from tocsin.domain.instant import HOUR, SECOND, parse_span
from tocsin.domain.nesting import check_depth, too_deep
from tocsin.domain.secrets import SecretRef, check_secret_name
from tocsin.domain.template import places_of
from tocsin.domain.written import WrittenTimeout, at_most, described

GRPC: Final = "grpc"
MAX_MESSAGE: Final = 256 * 1024
MAX_DESCRIPTORS: Final = 256 * 1024
MAX_METADATA: Final = 64
MAX_PEM: Final = 32 * 1024
MAX_TIMEOUT: Final = 24 * HOUR
CODES: Final = (
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
RETRIED: Final[tuple[str, ...]] = (
    "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL",
)  # fmt: skip
"""What another attempt may mend."""
_METHOD: Final = r"[A-Za-z_][A-Za-z0-9_.]{0,254}/[A-Za-z_][A-Za-z0-9_]{0,127}"
_KEY: Final = r"[a-z0-9_.-]{1,128}"
_VALUE: Final = re.compile(r"[\x20-\x7e]{0,4096}")
_OURS: Final = frozenset({"te", "content-type", "user-agent", "host", "traceparent", "idempotency-key"})
_OUR_PREFIXES: Final = ("grpc-", "tocsin-")


class GrpcTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the two sides know each other."""

    ca: Annotated[str, described(maxLength=MAX_PEM)] | None = None
    """Certificates to trust instead of the public ones, as PEM text."""
    client_certificate: SecretRef | None = None


class GrpcTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="grpc"
):
    """A unary call. The body is the message in the JSON form of protobuf."""

    answers_at_once: ClassVar[bool] = False
    address: Annotated[str, described(minLength=1, maxLength=300, examples=["orders.example.com:443"])]
    method: Annotated[str, described(pattern=f"^{_METHOD}$", examples=["shop.Orders/Place"])]
    body: Any = {}
    descriptors: (
        Annotated[str, described(contentEncoding="base64", maxLength=MAX_DESCRIPTORS * 4 // 3 + 4)] | None
    ) = None
    """A FileDescriptorSet in base64. None: the server's reflection is asked when the job is written."""
    metadata: Annotated[
        dict[Annotated[str, described(pattern=f"^{_KEY}$")], Value], described(maxProperties=MAX_METADATA)
    ] = {}
    plaintext: bool = False
    tls: GrpcTls | None = None
    timeout: WrittenTimeout | None = None
    retry_on: Annotated[tuple[Annotated[str, described(enum=list(CODES))], ...], at_most(len(CODES))] = (
        RETRIED
    )
    template: bool = False
    """Whether ``{fire_at}`` and the like are filled in, in the body."""


def grpc_place(target: GrpcTarget) -> TargetUrl:
    """Where the call goes, read as strictly as a URL."""
    if any(sign in target.address for sign in "/?#@"):
        raise Refused("an address is host:port, such as orders.example.com:443", field="target.address")
    scheme = "http" if target.plaintext else "https"
    return parse_target_url(f"{scheme}://{target.address}/", field="target.address")


def descriptors_of(target: GrpcTarget) -> bytes | None:
    """The descriptors as bytes."""
    if target.descriptors is None:
        return None
    try:
        found = base64.b64decode(target.descriptors, validate=True)
    except (binascii.Error, ValueError):
        raise Refused("descriptors are a FileDescriptorSet in base64", field="target.descriptors") from None
    if len(found) > MAX_DESCRIPTORS:
        raise Refused(f"descriptors have at most {MAX_DESCRIPTORS // 1024} KiB", field="target.descriptors")
    return found


def secrets_of_grpc(target: GrpcTarget) -> list[str]:
    """The secrets that a target names."""
    named = {value.secret for value in target.metadata.values() if isinstance(value, SecretRef)}
    if target.tls is not None and target.tls.client_certificate is not None:
        named.add(target.tls.client_certificate.secret)
    return sorted(named)


def check_grpc(target: GrpcTarget) -> None:
    """Refuse what could never be called, as far as that is known without the method's descriptors."""
    grpc_place(target)
    if not re.fullmatch(_METHOD, target.method):
        raise Refused("a method is package.Service/Method", field="target.method")
    timeout = SECOND if target.timeout is None else parse_span(target.timeout, "target.timeout")
    if not SECOND // 10 <= timeout <= MAX_TIMEOUT:
        raise Refused("a timeout lies between 0.1s and 24h", field="target.timeout")
    for code in target.retry_on:
        if code not in CODES:
            raise Refused(f"one of {', '.join(CODES)}", field="target.retry_on")
    descriptors_of(target)
    _check_metadata(target.metadata)
    _check_tls(target)
    _check_body(target)


def _check_metadata(metadata: dict[str, Value]) -> None:
    if len(metadata) > MAX_METADATA:
        raise Refused(f"at most {MAX_METADATA} entries", field="target.metadata")
    for name, value in metadata.items():
        field = f"target.metadata.{name[:64]}"
        if not re.fullmatch(_KEY, name):
            raise Refused("a key has lower-case letters, digits and _ . -", field=field)
        if name in _OURS or name.startswith(_OUR_PREFIXES):
            raise Refused("this entry is set by Tocsin or by gRPC", field=field)
        if name.endswith("-bin"):
            raise Refused("binary entries cannot be given", field=field)
        if isinstance(value, SecretRef):
            check_secret_name(value.secret, field)
        elif not _VALUE.fullmatch(value):
            raise Refused("a value has at most 4096 printable ASCII characters", field=field)


def _check_tls(target: GrpcTarget) -> None:
    if target.tls is None:
        return
    if target.plaintext:
        raise Refused("a plaintext call has no TLS", field="target.tls")
    if target.tls.ca is not None and not (
        len(target.tls.ca) <= MAX_PEM
        and target.tls.ca.isascii()
        and "-----BEGIN CERTIFICATE-----" in target.tls.ca
    ):
        raise Refused("certificates to trust are PEM text", field="target.tls.ca")
    if target.tls.client_certificate is not None:
        check_secret_name(target.tls.client_certificate.secret, "target.tls.client_certificate")


def _check_body(target: GrpcTarget) -> None:
    try:
        size = len(written := msgspec.json.encode(target.body))
    except RecursionError:
        raise too_deep("the body", "target.body") from None
    if not isinstance(target.body, dict):
        raise Refused("the body is a message: a JSON object", field="target.body")
    if size > MAX_MESSAGE:
        raise Refused(f"the body is larger than {MAX_MESSAGE // 1024} KiB", field="target.body")
    check_depth(target.body, written, "the body", "target.body")
    if target.template:
        places_of({"target.body": target.body})
