"""How a call to an HTTP target says who calls. One tagged value per kind.

A credential is text or names a secret. The secret of an OAuth2 client must be one: it opens more than one
target.
"""

import re
from typing import Annotated, Final

import msgspec

from tocsin.domain.addresses import parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.secrets import SecretRef, check_secret_name
from tocsin.domain.written import WrittenUrl, described

_MAX_CREDENTIAL: Final = 4096
_MAX_PARAMETER: Final = 1024
_CREDENTIAL: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# RFC 6749, 3.3: words of printable ASCII without quotes and backslashes, one space between them.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")
_AUDIENCE: Final = re.compile(r"[\x20-\x7e]+")
Value = Annotated[str, described(maxLength=_MAX_CREDENTIAL, pattern=r"^[\t -~\u0080-\u00ff]*$")] | SecretRef


class BearerAuth(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="bearer",
):
    """`Authorization: Bearer …`."""

    token: Value


class BasicAuth(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="basic"
):
    """`Authorization: Basic …`: a user name, which has no colon, and a password."""

    username: Value
    password: Value


class OAuth2Auth(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="oauth2",
):
    """`Authorization: Bearer …` with a token that is fetched for the client's credentials (RFC 6749, 4.4)."""

    token_url: WrittenUrl
    client_id: Value
    client_secret: SecretRef
    scope: Annotated[str, described(maxLength=_MAX_PARAMETER, pattern=f"^{_SCOPE.pattern}$")] | None = None
    audience: Annotated[str, described(maxLength=_MAX_PARAMETER, pattern="^[ -~]+$")] | None = None


Auth = BearerAuth | BasicAuth | OAuth2Auth


def check_auth(auth: Auth) -> None:
    """Refuse credentials that could never be sent."""
    match auth:
        case BearerAuth(token=token):
            _check_credential("token", token)
        case BasicAuth(username=username, password=password):
            _check_credential("username", username)
            _check_credential("password", password)
            if isinstance(username, str) and ":" in username:
                raise Refused("a user name has no colon", field="target.auth.username")
        case OAuth2Auth():
            _check_oauth2(auth)


def _check_oauth2(auth: OAuth2Auth) -> None:
    parse_target_url(auth.token_url, "target.auth.token_url")
    _check_credential("client_id", auth.client_id)
    _check_credential("client_secret", auth.client_secret)
    if auth.scope is not None and not (len(auth.scope) <= _MAX_PARAMETER and _SCOPE.fullmatch(auth.scope)):
        raise Refused(
            f"a scope has at most {_MAX_PARAMETER} characters: words of printable ASCII, one space between them",
            field="target.auth.scope",
        )
    if auth.audience is not None and not (
        len(auth.audience) <= _MAX_PARAMETER and _AUDIENCE.fullmatch(auth.audience)
    ):
        raise Refused(
            f"an audience has at most {_MAX_PARAMETER} characters of printable ASCII",
            field="target.auth.audience",
        )


def _check_credential(name: str, value: Value) -> None:
    field = f"target.auth.{name}"
    if isinstance(value, SecretRef):
        check_secret_name(value.secret, field)
    elif len(value) > _MAX_CREDENTIAL or not _CREDENTIAL.fullmatch(value):
        raise Refused("a credential has at most 4096 Latin-1 characters, none of them control", field=field)
