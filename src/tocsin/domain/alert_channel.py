"""Channels: where alerts are told, and as what. Every channel is a target, called by a job.

`webhook` sends the message as JSON, signed like any webhook; `slack` sends what Slack and those like it take;
`json` fills a body of the user's own in; `mail` goes through a connection to a mail server. A credential is
never text here: it names a secret.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from tocsin.domain.alerting import Message
from tocsin.domain.errors import Refused
from tocsin.domain.mail_address import WrittenMailAddress
from tocsin.domain.message_target import MAX_RECIPIENTS, MAX_SUBJECT, SmtpTarget
from tocsin.domain.nesting import check_depth
from tocsin.domain.secrets import SecretRef
from tocsin.domain.target import HttpTarget, Target, check_target
from tocsin.domain.template import check_places, fill_value
from tocsin.domain.written import WrittenName, WrittenUrl, at_most, described

Kind = Literal["webhook", "slack", "json", "mail"]
KINDS: Final = ("webhook", "slack", "json", "mail")
METHODS: Final = ("POST", "PUT", "GET")
PLACES: Final = ("rule", "kind", "state", "title", "text", "tenant", "at")
"""What a body of the user's own may have filled in."""
MAX_HEADERS: Final = 16
MAX_OWN_BODY: Final = 16 * 1024
_TIMEOUT: Final = "15s"


class AlertChannel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where to tell of alerts."""

    kind: Annotated[Kind, described(enum=list(KINDS))]
    url: WrittenUrl | None = None
    """Where it is sent. A mail has `connection` and `to` instead."""
    path_secret: SecretRef | None = None
    """A secret that ends the URL's path: an address of Slack is a credential."""
    method: Annotated[str, described(enum=list(METHODS))] = "POST"
    headers: Annotated[dict[str, SecretRef], described(maxProperties=MAX_HEADERS)] = {}
    """Header fields, whose values are secrets."""
    body: Any = None
    """Of `json`: the body, with places such as ``{text}``."""
    connection: WrittenName | None = None
    """Of `mail`: the connection to the mail server."""
    to: Annotated[tuple[WrittenMailAddress, ...], at_most(MAX_RECIPIENTS)] = ()
    """Of `mail`: who gets it."""


def check_channel(channel: AlertChannel) -> Target:
    """Refuse a channel that nothing could be sent to, naming the field. Returns the target that it is."""
    if channel.kind not in KINDS:
        raise Refused(f"{channel.kind[:20]!r} is not one of {', '.join(KINDS)}", field="kind")
    if channel.method not in METHODS:
        raise Refused(f"{channel.method[:20]!r} is not one of {', '.join(METHODS)}", field="method")
    if len(channel.headers) > MAX_HEADERS:
        raise Refused(f"at most {MAX_HEADERS} headers", field="headers")
    _check_fields(channel)
    if (channel.kind == "json") != (channel.body is not None):
        words = "needs a body" if channel.kind == "json" else "has a body of its own"
        raise Refused(f"a channel of the kind {channel.kind} {words}", field="body")
    if channel.kind == "json":
        _check_own_body(channel.body)
    target = target_of(channel, TRIAL)
    try:
        check_target(target)
    except Refused as error:
        raise Refused(error.detail, field=_own_field(error.field), hint=error.hint) from None
    return target


def _check_fields(channel: AlertChannel) -> None:
    """A channel has what its kind needs, and nothing that would be ignored."""
    mail = channel.kind == "mail"
    for name in ("connection", "to") if mail else ("url",):
        if not getattr(channel, name):
            raise Refused(f"a channel of the kind {channel.kind} needs it", field=name)
    if mail and channel.method != "POST":
        raise Refused("a mail has no method", field="method")
    for name in ("url", "path_secret", "headers") if mail else ("connection", "to"):
        if getattr(channel, name):
            raise Refused(f"a channel of the kind {channel.kind} has none", field=name)


def _check_own_body(body: Any) -> None:
    encoded = msgspec.json.encode(body)
    if len(encoded) > MAX_OWN_BODY:
        raise Refused(f"the body is larger than {MAX_OWN_BODY // 1024} KiB", field="body")
    check_depth(body, encoded, "the body", "body")
    check_places({"body": body}, PLACES)


def target_of(channel: AlertChannel, message: Message) -> Target:
    """The call that tells a message."""
    if channel.kind == "mail":
        subject = message.title[:MAX_SUBJECT]
        return SmtpTarget(
            connection=channel.connection or "", to=channel.to, subject=subject, body=message.text
        )
    return HttpTarget(
        channel.url or "",
        channel.method,
        headers=dict(channel.headers),
        body=None if channel.method == "GET" else _body(channel, message),
        timeout=_TIMEOUT,
        path_secret=channel.path_secret,
    )


def _body(channel: AlertChannel, message: Message) -> Any:
    match channel.kind:
        case "webhook":
            return msgspec.to_builtins(message)
        case "slack":
            return {"text": f"{message.title}\n{message.text}".rstrip()}
        case "json":
            return fill_value(channel.body, {name: getattr(message, name) for name in PLACES})
        case "mail":
            return message.text


def _own_field(field: str | None) -> str | None:
    return None if field is None else field.removeprefix("target.")


TRIAL: Final = Message(
    rule="test",
    kind="test",
    scope="tenant",
    tenant="",
    state="test",
    at="1970-01-01T00:00:00Z",
    title="Test of an alert channel",
    text="If you can read this, alerts arrive here.",
)
"""What a test of a channel sends, but for the time and the tenant."""
