"""A connection: a broker under a name, with its addresses and what is needed to be let in.

Targets of jobs name a connection instead of repeating it. Credentials are secrets, named here and opened by
the process that connects. One struct serves all kinds; a table says which kind takes which of its fields, so
a field that would be ignored is refused.
"""

import re
from typing import Annotated, Final

import msgspec

from tocsin.domain.addresses import AddressPolicy, TargetUrl, parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.mail_address import WrittenMailAddress, check_mail_address
from tocsin.domain.secrets import SecretRef, check_secret_name
from tocsin.domain.written import at_most, between, described, line

BROKERS: Final = ("kafka", "nats", "rabbitmq", "redis", "sqs", "smtp")
"""Kinds of connections, each the kind of the targets that name it."""
MAX_ADDRESSES: Final = 16
MAX_WORD: Final = 256
MAX_IN_FLIGHT: Final = 10_000
_PORTS: Final = {"kafka": 9092, "nats": 4222, "rabbitmq": 5672, "redis": 6379, "sqs": 80, "smtp": 25}
_TLS_PORTS: Final = {"rabbitmq": 5671, "sqs": 443, "smtp": 465}
"""Of kinds that have a port of its own for TLS."""
_EVERY_KIND: Final = frozenset({"kind", "addresses", "tls", "username", "password", "in_flight"})
_OF_KIND: Final = {
    "kafka": frozenset({"mechanism"}),
    "nats": frozenset({"token"}),
    "rabbitmq": frozenset({"virtual_host"}),
    "redis": frozenset({"creates_streams", "replicas"}),
    "sqs": frozenset({"region", "token"}),
    "smtp": frozenset({"sender"}),
}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_REGION: Final = r"[a-z0-9-]{1,64}"
_REGION_NAME: Final = re.compile(_REGION)
_WORD: Final = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
_Word = Annotated[str, line(MAX_WORD)]


class BrokerTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """TLS to a broker: `{}` trusts the system's authorities and checks the name in the address."""

    ca: SecretRef | None = None
    """A secret with the certificates of the authorities to trust instead, as PEM text."""
    client_certificate: SecretRef | None = None
    """A secret with our certificate chain and its private key, as PEM text."""
    server_name: Annotated[str, line(253)] | None = None
    """The name in the broker's certificate, if it is not the one in the address."""


class Connection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A broker and how to be let in."""

    kind: Annotated[str, described(enum=list(BROKERS))]
    addresses: Annotated[
        tuple[Annotated[str, described(maxLength=300, examples=["bus.example.com:4222"])], ...],
        at_most(MAX_ADDRESSES, minItems=1),
    ]
    """Hosts with their ports, tried in turn."""
    tls: BrokerTls | None = None
    """TLS, if the broker speaks it."""
    username: _Word | None = None
    """The user. SQS: the id of the access key, whose secret is the password."""
    password: SecretRef | None = None
    token: SecretRef | None = None
    """NATS: a token instead of a user and password. SQS: the session token of credentials that end."""
    mechanism: Annotated[str, described(enum=list(MECHANISMS))] = "PLAIN"
    """Kafka: how the user logs in (SASL)."""
    virtual_host: _Word = "/"
    """RabbitMQ: the virtual host to work in."""
    region: Annotated[str, described(pattern=f"^{_REGION}$", examples=["eu-central-1"])] | None = None
    """SQS: the region that requests are signed for."""
    sender: WrittenMailAddress | None = None
    """SMTP: the address that mails come from."""
    creates_streams: bool = False
    """Redis: whether a stream that does not exist is created; else a message to it is rejected."""
    replicas: Annotated[int, between(0, 16)] = 0
    """Redis: how many replicas must have a message before it counts as taken."""
    in_flight: Annotated[int, between(1, MAX_IN_FLIGHT)] = 1000
    """How many messages a worker has under way at once, without an acknowledgement."""


def check_connection(connection: Connection) -> None:
    """Refuse what could never be connected to."""
    if connection.kind not in BROKERS:
        raise Refused(f"{connection.kind[:20]!r} is not one of {', '.join(BROKERS)}", field="kind")
    known = _EVERY_KIND | _OF_KIND[connection.kind]
    for field in msgspec.structs.fields(Connection):
        if field.name not in known and getattr(connection, field.name) != field.default:
            raise Refused(f"a connection of the kind {connection.kind} has no {field.name}", field=field.name)
    if not 1 <= len(connection.addresses) <= MAX_ADDRESSES:
        raise Refused(f"1 to {MAX_ADDRESSES} addresses", field="addresses")
    places(connection)
    _check_access(connection)
    if connection.kind == "kafka":
        _check_kafka(connection)
    if connection.kind == "sqs":
        _check_sqs(connection)
    if connection.kind == "smtp":
        check_mail_address(connection.sender or "", "sender")
    if not 0 <= connection.replicas <= 16:
        raise Refused("0 to 16 replicas", field="replicas")
    if not 1 <= connection.in_flight <= MAX_IN_FLIGHT:
        raise Refused(f"1 to {MAX_IN_FLIGHT:,} messages under way", field="in_flight")


def _check_access(connection: Connection) -> None:
    both = connection.kind == "nats" and connection.token is not None
    if both and (connection.username or connection.password) is not None:
        raise Refused("a token or a user and password, not both", field="token")
    if connection.username is not None and not _WORD.fullmatch(connection.username):
        raise Refused("1 to 256 characters, none of them control", field="username")
    if connection.username is not None and connection.password is None:
        raise Refused("a user needs a password, which is a secret", field="password")
    if not _WORD.fullmatch(connection.virtual_host):
        raise Refused("1 to 256 characters, none of them control", field="virtual_host")
    tls = connection.tls or BrokerTls()
    for name, secret in (
        ("password", connection.password),
        ("token", connection.token),
        ("tls.ca", tls.ca),
        ("tls.client_certificate", tls.client_certificate),
    ):
        if secret is not None:
            check_secret_name(secret.secret, name)
    if tls.server_name is not None:
        read_place(tls.server_name, 1, "tls.server_name")


def _check_kafka(connection: Connection) -> None:
    if connection.mechanism not in MECHANISMS:
        words = f"{connection.mechanism[:20]!r} is not one of {', '.join(MECHANISMS)}"
        raise Refused(words, field="mechanism")
    if connection.password is not None and connection.username is None:
        raise Refused("Kafka asks whose password it is", field="username")


def _check_sqs(connection: Connection) -> None:
    if connection.region is None or not _REGION_NAME.fullmatch(connection.region):
        raise Refused("the region that the queues are in, such as eu-central-1", field="region")
    if connection.username is None:
        raise Refused("the id of the access key", field="username")
    if connection.tls is not None and connection.tls.server_name is not None:
        raise Refused("SQS is known by the name in its address", field="tls.server_name")


def secrets_of(connection: Connection) -> list[str]:
    """The secrets that must be opened to connect."""
    tls = connection.tls or BrokerTls()
    found = (connection.password, connection.token, tls.ca, tls.client_certificate)
    return sorted({one.secret for one in found if one is not None})


def places(connection: Connection) -> tuple[TargetUrl, ...]:
    """The addresses, read: hosts and ports as the address policy judges them."""
    ports = _PORTS if connection.tls is None else _PORTS | _TLS_PORTS
    port = ports[connection.kind]
    return tuple(
        read_place(text, port, f"addresses[{number}]") for number, text in enumerate(connection.addresses)
    )


def check_places(connection: Connection, policy: AddressPolicy) -> None:
    """Refuse early what is an address that may never be connected to. Names are judged at every connect."""
    for number, place in enumerate(places(connection)):
        policy.check_literal(place, f"addresses[{number}]")


def read_place(text: str, default_port: int, field: str) -> TargetUrl:
    """A host with its port, read as strictly as the host of a URL."""
    if any(sign in text for sign in "/?#@"):
        raise Refused("an address is a host and a port, such as bus.example.com:4222", field=field)
    place = parse_target_url(f"http://{text}", field)
    written = re.search(r":[0-9]+$", text) is not None and not text.endswith("]")
    return place if written else msgspec.structs.replace(place, port=default_port)
