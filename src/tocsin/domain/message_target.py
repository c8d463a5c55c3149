"""Messages: what an execution publishes to a broker. One tagged value per kind of broker.

A target names a connection, which knows where the broker is. The broker's acknowledgement is the success of
an attempt. Each message carries the execution's identity beside what the user wrote, so names of ours are
refused.
"""

import re
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import structs

from tocsin.domain.addresses import parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.mail_address import WrittenMailAddress, check_mail_address
from tocsin.domain.nesting import check_depth, too_deep
from tocsin.domain.template import Escape, Values, as_is, fill, fill_value, in_word, places_of
from tocsin.domain.written import WrittenName, WrittenUrl, between, described, line

MAX_MESSAGE: Final = 256 * 1024
MAX_FIELDS: Final = 64
MAX_LENGTH: Final = 1_000_000_000
_FIELD_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}"
_NAME: Final = re.compile(_FIELD_NAME)
_VALUE: Final = re.compile(r"[\t\x20-\x7e]{0,4096}")
_OURS: Final = frozenset({"idempotency-key", "traceparent", "content-type"})
_OUR_PREFIXES: Final = ("tocsin-", "nats-")
_SUBJECT: Final = r"[!-)+-=?-~]{1,255}"
_PLAIN_SUBJECT: Final = re.compile(_SUBJECT)
_STREAM: Final = r"[A-Za-z0-9_-]{1,255}"
_STREAM_NAME: Final = re.compile(_STREAM)
_TOPIC: Final = r"[A-Za-z0-9._-]{1,249}"
_TOPIC_NAME: Final = re.compile(_TOPIC)
MAX_KEY: Final = 1024
_EXCHANGE: Final = r"[^\x00-\x1f\x7f]{0,255}"
_EXCHANGE_NAME: Final = re.compile(_EXCHANGE)
MAX_ATTRIBUTES: Final = 4
"""Of a message to SQS: ten in all, of which six are ours."""
_GROUP: Final = r"[!-~]{1,128}"
_GROUP_NAME: Final = re.compile(_GROUP)
_ATTRIBUTE: Final = re.compile(r"(?!aws\.|amazon\.)[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.IGNORECASE)
MAX_RECIPIENTS: Final = 50
MAX_SUBJECT: Final = 500
_NOT_IN_SQS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
Fields = Annotated[
    dict[
        Annotated[str, described(pattern=f"^{_FIELD_NAME}$")],
        Annotated[str, described(maxLength=4096, pattern=r"^[\t -~]*$")],
    ],
    described(maxProperties=MAX_FIELDS),
]


class MessageTarget(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    tag_field="kind",
):
    """What messages of all kinds have: where they go, and what is in them. A body that is not a string is
    sent as JSON."""

    answers_at_once: ClassVar[bool] = False
    connection: WrittenName
    body: Any = None
    template: bool = False
    """Whether ``{fire_at}`` and the like are filled in, in the body and in what says where it goes."""


class KafkaTarget(MessageTarget, frozen=True, kw_only=True, tag="kafka"):
    """A message to a topic of Kafka. Without a body its value is null, by which a compacted topic deletes a
    key."""

    topic: Annotated[str, described(pattern=f"^{_TOPIC}$", examples=["due"])]
    key: Annotated[str, line(MAX_KEY)] | None = None
    """Messages with the same key go to the same partition, in order."""
    headers: Fields = {}


class NatsTarget(MessageTarget, frozen=True, kw_only=True, tag="nats"):
    """A message to a subject of a JetStream stream."""

    subject: Annotated[str, described(pattern=f"^{_SUBJECT}$", examples=["due.orders"])]
    stream: Annotated[str, described(pattern=f"^{_STREAM}$")] | None = None
    """The stream that must take it, if that is to be checked."""
    headers: Fields = {}


class RabbitTarget(MessageTarget, frozen=True, kw_only=True, tag="rabbitmq"):
    """A message to an exchange of RabbitMQ, which must route it to a queue."""

    exchange: Annotated[str, described(pattern=f"^{_EXCHANGE}$")] = ""
    """The default one routes to the queue that the routing key names."""
    routing_key: Annotated[str, described(maxLength=255, pattern=f"^{_EXCHANGE}$", examples=["due"])] = ""
    headers: Fields = {}


class RedisTarget(MessageTarget, frozen=True, kw_only=True, tag="redis"):
    """An entry of a Redis stream. The body is its field `body`."""

    stream: Annotated[str, line(512)]
    fields: Fields = {}
    max_length: Annotated[int, between(1, MAX_LENGTH)] | None = None
    """Roughly how many entries the stream keeps."""


class SqsTarget(MessageTarget, frozen=True, kw_only=True, tag="sqs"):
    """A message to a queue of SQS."""

    queue_url: WrittenUrl
    """The queue's name, as SQS gives it. Requests go to the connection's addresses."""
    group: Annotated[str, described(pattern=f"^{_GROUP}$")] | None = None
    """The message group; a FIFO queue needs it."""
    attributes: Annotated[Fields, described(maxProperties=MAX_ATTRIBUTES)] = {}


class SmtpTarget(MessageTarget, frozen=True, kw_only=True, tag="smtp"):
    """A mail. Its body is plain text."""

    to: Annotated[
        tuple[WrittenMailAddress, ...], described(maxItems=MAX_RECIPIENTS, minItems=1, uniqueItems=True)
    ]
    subject: Annotated[str, line(MAX_SUBJECT)]


_PLACES: Final[dict[type, str]] = {
    KafkaTarget: "key",
    NatsTarget: "subject",
    RabbitTarget: "routing_key",
    SmtpTarget: "subject",
    SqsTarget: "group",
}
"""What is filled in beside the body."""
_ESCAPES: Final[dict[type, Escape]] = {
    KafkaTarget: as_is,
    NatsTarget: in_word,
    RabbitTarget: in_word,
    SmtpTarget: as_is,
    SqsTarget: in_word,
}
_Target = TypeVar("_Target", bound=MessageTarget)


def is_fifo(target: SqsTarget) -> bool:
    """Whether the queue keeps the order of groups and drops duplicates: its name says so."""
    return target.queue_url.endswith(".fifo")


def check_message(target: MessageTarget) -> None:
    """Refuse what no broker would take."""
    _check_kind(target)
    _check_body(target)
    if target.template:
        places_of(parts_of_message(target))


def parts_of_message(target: MessageTarget) -> dict[str, Any]:
    """What is filled in, of a target that asks for it: the body, and where in the broker it goes."""
    place = _PLACES.get(type(target))
    written = None if place is None else getattr(target, place)
    return {"target.body": target.body} | ({} if written is None else {f"target.{place}": written})


def filled_message(target: _Target, values: Values) -> _Target:
    """The target of one attempt. Refused if no broker would take what came of it."""
    place = _PLACES.get(type(target))
    written = None if place is None else getattr(target, place)
    named = {} if written is None or place is None else {place: fill(written, values, _ESCAPES[type(target)])}
    filled = structs.replace(target, body=fill_value(target.body, values), template=False, **named)
    check_message(filled)
    return filled


def bytes_of(body: Any) -> tuple[bytes, str | None]:
    """What to send for a body, and the content type that goes with it unless the user names another."""
    match body:
        case None:
            return b"", None
        case str() as text:
            return text.encode(), "text/plain; charset=utf-8"
        case value:
            return msgspec.json.encode(value), "application/json"


def _check_kind(target: MessageTarget) -> None:
    match target:
        case KafkaTarget():
            _check_topic(target)
            _check_fields(target.headers, "target.headers")
        case NatsTarget():
            _check_subject(target)
            _check_fields(target.headers, "target.headers")
        case RabbitTarget():
            _check_routing(target)
            _check_fields(target.headers, "target.headers")
        case RedisTarget():
            if not 1 <= len(target.stream) <= 512 or not target.stream.isprintable():
                raise Refused("a stream has 1 to 512 characters, none of them control", field="target.stream")
            if target.max_length is not None and not 1 <= target.max_length <= MAX_LENGTH:
                raise Refused(f"a length lies between 1 and {MAX_LENGTH:,}", field="target.max_length")
            _check_fields(target.fields, "target.fields")
            if "body" in target.fields:
                raise Refused("the body has a place of its own", field="target.fields.body")
        case SqsTarget():
            _check_queue(target)
            _check_attributes(target.attributes)
        case SmtpTarget():
            _check_mail(target)


def _check_topic(target: KafkaTarget) -> None:
    if not _TOPIC_NAME.fullmatch(target.topic) or target.topic in (".", ".."):
        raise Refused("a topic has 1 to 249 of A-Z a-z 0-9 . _ -", field="target.topic")
    if target.key is not None and not 1 <= len(target.key) <= MAX_KEY:
        raise Refused(f"a key has 1 to {MAX_KEY:,} characters", field="target.key")


def _check_subject(target: NatsTarget) -> None:
    subject = target.subject
    words = subject.split(".")
    if not _PLAIN_SUBJECT.fullmatch(subject) or not all(words):
        raise Refused(
            "a subject is words with dots between them, without spaces, * and >", field="target.subject"
        )
    if subject.startswith(("$", "_INBOX.")):
        raise Refused("subjects that begin with $ or _INBOX are the server's own", field="target.subject")
    if target.stream is not None and not _STREAM_NAME.fullmatch(target.stream):
        raise Refused("a stream has 1 to 255 of A-Z a-z 0-9 _ -", field="target.stream")


def _check_routing(target: RabbitTarget) -> None:
    for field, word in (("exchange", target.exchange), ("routing_key", target.routing_key)):
        if not _EXCHANGE_NAME.fullmatch(word) or len(word.encode()) > 255:
            raise Refused("at most 255 bytes of text without control characters", field=f"target.{field}")
    if not target.exchange and not target.routing_key:
        raise Refused("the default exchange needs the name of a queue", field="target.routing_key")


def _check_queue(target: SqsTarget) -> None:
    parse_target_url(target.queue_url, "target.queue_url")
    if target.group is not None and not _GROUP_NAME.fullmatch(target.group):
        raise Refused("a group has 1 to 128 letters, digits and signs, without spaces", field="target.group")
    if target.group is None and is_fifo(target):
        raise Refused("a FIFO queue needs a group", field="target.group")
    if target.body is None or target.body == "":
        raise Refused("SQS takes no empty message", field="target.body")
    if isinstance(target.body, str) and _NOT_IN_SQS.search(target.body):
        raise Refused("SQS takes no control characters", field="target.body", hint="send it as JSON")


def _check_attributes(attributes: dict[str, str]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise Refused(f"at most {MAX_ATTRIBUTES}: SQS takes ten, and six are ours", field="target.attributes")
    _check_fields(attributes, "target.attributes")
    for name, value in attributes.items():
        field = f"target.attributes.{name[:64]}"
        if not _ATTRIBUTE.fullmatch(name):
            raise Refused("a name has letters, digits, _ and -, with single dots between", field=field)
        if not value:
            raise Refused("SQS takes no empty value", field=field)


def _check_mail(target: SmtpTarget) -> None:
    if not 1 <= len(target.to) <= MAX_RECIPIENTS:
        raise Refused(f"a mail goes to 1 to {MAX_RECIPIENTS} addresses", field="target.to")
    for number, address in enumerate(target.to):
        check_mail_address(address, f"target.to[{number}]")
    if len(set(target.to)) != len(target.to):
        raise Refused("an address is given twice", field="target.to")
    if not 1 <= len(target.subject) <= MAX_SUBJECT or not target.subject.isprintable():
        raise Refused(f"a subject is one line of 1 to {MAX_SUBJECT} characters", field="target.subject")
    if target.body is not None and not isinstance(target.body, str):
        raise Refused("the body of a mail is text", field="target.body")


def _check_fields(fields: dict[str, str], place: str) -> None:
    if len(fields) > MAX_FIELDS:
        raise Refused(f"at most {MAX_FIELDS} of them", field=place)
    for name, value in fields.items():
        field = f"{place}.{name[:64]}"
        if not _NAME.fullmatch(name):
            raise Refused("a name has 1 to 128 letters, digits and signs", field=field)
        if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIXES):
            raise Refused("this name is set by Tocsin", field=field)
        if not _VALUE.fullmatch(value):
            raise Refused("a value has at most 4096 ASCII characters, none of them control", field=field)
    if len({name.lower() for name in fields}) != len(fields):
        raise Refused("a name is given twice", field=place)


def _check_body(target: MessageTarget) -> None:
    try:
        body, _ = bytes_of(target.body)
    except RecursionError:
        raise too_deep("the body", "target.body") from None
    if len(body) > MAX_MESSAGE:
        raise Refused(f"the body is larger than {MAX_MESSAGE // 1024} KiB", field="target.body")
    check_depth(target.body, body, "the body", "target.body")
