"""Tokens for targets that want OAuth2: fetched with the client's credentials (RFC 6749, 4.4), kept until just
before they expire.

A token is fetched by the same client as targets are called, so the same walls stand around its address and
the same bounds around its answer. Those who need the same token meanwhile wait for the fetch under way, so
that a herd of executions costs the token's host one question. A host that fails is given a rest, as the hosts
of targets are.

A token is known by everything it was asked with, the secret's value included: one fetched with a value that
has been replaced is not used again. Neither the secret nor a token is in any error: of an answer that is no
token, only the status and an error code that the RFC defines are told.
"""

import asyncio
import base64
import re
from collections import OrderedDict
from typing import Final
from urllib.parse import quote_plus, urlencode

import msgspec

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl, parse_target_url
from tocsin.domain.errors import Refused, TocsinError, Unavailable
from tocsin.domain.instant import Instant, Span
from tocsin.targets.http.breaker import Host, HostBreaker
from tocsin.targets.http.client import HttpClient
from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind, OutgoingRequest

FETCH_SECONDS: Final = 10.0
_LIFE_IF_UNSAID: Final = 300.0
_LONGEST_LIFE: Final = 24 * 3600.0
_MARGIN: Final = 30.0
_REMEMBERED: Final = 10_000
_OK: Final = 200
_AWAY: Final = frozenset({502, 503, 504})
_NEVER_SENT: Final = frozenset({FailureKind.REFUSED_ADDRESS, FailureKind.INVALID_REQUEST})
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")
_ERRORS: Final = frozenset(
    {
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
        "invalid_scope", "invalid_target", "temporarily_unavailable", "server_error",
    }
)  # fmt: skip


class TokenUnavailable(Unavailable):
    """There is no token now; another attempt may fare better."""


class TokenHostAtRest(TocsinError):
    """The token's host fails and is given a rest; come again after `wait`."""

    def __init__(self, wait: Span) -> None:
        super().__init__("the host of the token is given a rest")
        self.wait = wait


class Grant(msgspec.Struct, frozen=True):
    """What a token is asked with, and known by."""

    tenant_id: int
    token_url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    audience: str | None = None

    def __repr__(self) -> str:
        return f"Grant({self.tenant_id}, {self.token_url})"


class Token(msgspec.Struct, frozen=True):
    """A token to send. `fresh`: fetched for the one who asked, not found."""

    text: str
    fresh: bool

    def __repr__(self) -> str:
        return "Token(***)"


class _Kept(msgspec.Struct, frozen=True):
    text: str
    until: float

    def __repr__(self) -> str:
        return "Token(***)"


class _Answered(msgspec.Struct):
    """What a token's host says (RFC 6749, 5.1). Some leave out the type, and some write numbers as text."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - a kind
    expires_in: float | str | None = None


class _Refusal(msgspec.Struct):
    error: str = ""


class TokenSource:
    """The tokens that one worker knows. Time for their lives is the clock's monotonic one."""

    def __init__(self, client: HttpClient, breaker: HostBreaker, clock: Clock) -> None:
        self._client = client
        self._breaker = breaker
        self._clock = clock
        self._kept: OrderedDict[Grant, _Kept] = OrderedDict()
        self._underway: dict[Grant, asyncio.Task[_Kept]] = {}

    async def token(self, grant: Grant, due_at: Instant, patience: float, admitted: Host) -> Token:
        """A token that is still good: the one that is known, or else a new one, within `patience` seconds.

        `admitted` is a host to which the breaker has let the caller through already.
        """
        known = self._kept.get(grant)
        if known is not None and known.until > self._clock.monotonic():
            return Token(known.text, fresh=False)
        fetching = self._underway.get(grant) or self._begin(grant, due_at, admitted)
        try:
            async with asyncio.timeout(patience):
                # Shared: one who gives up must not take it from the others.
                return Token((await asyncio.shield(fetching)).text, fresh=True)
        except TimeoutError:
            raise TokenUnavailable(_words(grant, f"no answer within {patience:g} s")) from None

    def drop(self, grant: Grant, token: Token) -> None:
        """Forget a token that a target did not take. One that has replaced it meanwhile stays."""
        known = self._kept.get(grant)
        if known is not None and known.text == token.text:
            del self._kept[grant]

    def _begin(self, grant: Grant, due_at: Instant, admitted: Host) -> asyncio.Task[_Kept]:
        url = parse_target_url(grant.token_url, "target.auth.token_url")
        host = (grant.tenant_id, url.host, url.port)
        wait = None if host == admitted else self._breaker.wait(host, due_at, self._clock.now())
        if wait is not None:
            raise TokenHostAtRest(wait)
        fetching = asyncio.create_task(self._fetch(grant, url), name="oauth2 token")
        self._underway[grant] = fetching
        fetching.add_done_callback(lambda done: self._ended(grant, done))
        return fetching

    def _ended(self, grant: Grant, fetching: asyncio.Task[_Kept]) -> None:
        del self._underway[grant]
        # Asking for the exception also marks it as seen when every caller has given up waiting.
        if fetching.cancelled() or fetching.exception() is not None:
            return
        self._kept.pop(grant, None)
        self._kept[grant] = fetching.result()
        if len(self._kept) > _REMEMBERED:
            self._kept.popitem(last=False)

    async def _fetch(self, grant: Grant, url: TargetUrl) -> _Kept:
        host = (grant.tenant_id, url.host, url.port)
        asked = self._clock.monotonic()
        try:
            answer = await self._client.send(_request(grant, url))
        except DeliveryFailed as failure:
            if failure.kind in _NEVER_SENT:
                self._breaker.forget(host)
                raise Refused(_words(grant, failure.detail), field="target.auth.token_url") from None
            self._breaker.report(host, self._clock.now(), failed=True)
            raise TokenUnavailable(_words(grant, failure.detail)) from None
        except BaseException:
            self._breaker.forget(host)
            raise
        self._breaker.report(host, self._clock.now(), failed=answer.status in _AWAY)
        text, life = _read(grant, answer)
        return _Kept(text, asked + life - min(_MARGIN, life / 10))


def _request(grant: Grant, url: TargetUrl) -> OutgoingRequest:
    """RFC 6749, 2.3.1: name and secret are form-encoded each, before they become a pair."""
    pair = f"{quote_plus(grant.client_id)}:{quote_plus(grant.client_secret)}"
    form = {"grant_type": "client_credentials", "scope": grant.scope, "audience": grant.audience}
    headers = (
        ("authorization", "Basic " + base64.b64encode(pair.encode()).decode()),
        ("content-type", "application/x-www-form-urlencoded"),
        ("accept", "application/json"),
        ("user-agent", "tocsin"),
    )
    body = urlencode({name: value for name, value in form.items() if value is not None}).encode()
    return OutgoingRequest("POST", url, headers, body, total_timeout=FETCH_SECONDS, tenant_id=grant.tenant_id)


def _read(grant: Grant, answer: Answer) -> tuple[str, float]:
    """The token and for how many seconds it is good."""
    if answer.status != _OK:
        raise TokenUnavailable(_words(grant, f"it answered {answer.status}{_error_of(answer)}"))
    try:
        said = msgspec.json.decode(answer.body, type=_Answered)
        life = _LIFE_IF_UNSAID if said.expires_in is None else float(said.expires_in)
    except (msgspec.DecodeError, ValueError):
        raise TokenUnavailable(_words(grant, "its answer is not a token")) from None
    if said.token_type.lower() != "bearer" or not _TOKEN.fullmatch(said.access_token):
        raise TokenUnavailable(_words(grant, "its answer is not a bearer token"))
    # Also false for NaN.
    return said.access_token, min(life, _LONGEST_LIFE) if life > 0 else 0.0


def _error_of(answer: Answer) -> str:
    """The error code, if it is one of those that the RFC defines: whatever else is there may repeat what was
    sent."""
    try:
        error = msgspec.json.decode(answer.body, type=_Refusal).error
    except msgspec.DecodeError:
        return ""
    return f" ({error})" if error in _ERRORS else ""


def _words(grant: Grant, reason: str) -> str:
    return f"no OAuth2 token from {parse_target_url(grant.token_url).authority}: {reason}"
