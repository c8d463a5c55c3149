"""Credentials that are written into a target as plain text, where each user who may read the job sees them.

They are known by where they stand: in `auth`, in a header that carries credentials, in a parameter of the URL
that is called like one. What is refused says how to write it instead.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tocsin.domain.errors import Refused
from tocsin.domain.grpc_target import GrpcTarget
from tocsin.domain.http_auth import BasicAuth, BearerAuth
from tocsin.domain.target import HttpTarget, Target

CODE: Final = "plain_secret"
_HEADER: Final = re.compile(
    r"(proxy-)?authorization|cookie|x-token"
    r"|(x-)?(api|auth|access|private|session|vault|gitlab|github)[-_]?(key|token)|.*(secret|password|passwd).*",
    re.IGNORECASE,
)
_PARAMETER: Final = re.compile(
    r"(access|auth|api|id|private)?[-_]?token|api[-_]?key|passw(or)?d|pwd|(client[-_]?)?secret", re.IGNORECASE
)
_HOW: Final = 'store it with `tocsin secrets put NAME`, and write {"secret": "NAME"} here'
_HOW_IN_URL: Final = (
    "send it in a header, as a secret: tocsin secrets put NAME; or let a secret end the path: path_secret"
)


def check_plain_secrets(target: Target) -> None:
    """Refuse a target that shows a credential."""
    for field, hint in _found(target):
        raise Refused(
            "a credential in plain text: all users who may read the job see it",
            field=field,
            hint=hint,
            code=CODE,
        )


def _found(target: Target) -> Iterator[tuple[str, str]]:
    if isinstance(target, GrpcTarget):
        yield from _headers("target.metadata", target.metadata)
    if not isinstance(target, HttpTarget):
        return
    yield from _headers("target.headers", target.headers)
    match target.auth:
        case BearerAuth(token=str(token)) if token:
            yield "target.auth.token", _HOW
        case BasicAuth(password=str(password)) if password:
            yield "target.auth.password", _HOW
    if "?" in target.url and any(
        value and _PARAMETER.fullmatch(name) for name, value in _parameters(target.url)
    ):
        yield "target.url", _HOW_IN_URL


def _headers(field: str, headers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in headers.items():
        if isinstance(value, str) and value and _HEADER.fullmatch(name):
            yield f"{field}.{name[:64]}", _HOW


def _parameters(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query, max_num_fields=1000)
    except ValueError:
        return []  # the address itself is judged elsewhere
