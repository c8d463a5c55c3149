"""Calls HTTP targets: looks up the secrets, builds and signs the request, sends it, hands back an outcome.

Every way a call can end is an outcome. A secret is opened here and nowhere else, and what comes back is
masked before it leaves this module.
"""

import asyncio
import random
import re
import ssl
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

import msgspec
from msgspec.structs import replace

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl, parse_target_url
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.http_auth import OAuth2Auth
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict, pause_for_newer
from tocsin.domain.secrets import Redactor
from tocsin.domain.signature import signature_headers
from tocsin.domain.target import ClientTls, HttpTarget, body_of, template_parts
from tocsin.domain.template import fill, fill_value, in_header, in_text, in_url
from tocsin.domain.waits import Reason
from tocsin.targets.assignment import Assignment
from tocsin.targets.caller import Host
from tocsin.targets.filling import Names, NoNames, values_for
from tocsin.targets.http.breaker import HostBreaker, is_away
from tocsin.targets.http.client import HttpClient
from tocsin.targets.http.client_certificate import ClientCertificates
from tocsin.targets.http.exchange import DeliveryFailed, OutgoingRequest
from tocsin.targets.http.headers import (
    confidential,
    filled,
    own_headers,
    secret_names,
    user_headers,
)
from tocsin.targets.http.oauth2 import (
    FETCH_SECONDS,
    Grant,
    Token,
    TokenHostAtRest,
    TokenSource,
    TokenUnavailable,
)
from tocsin.targets.http.outcome import outcome_of_answer, outcome_of_failure
from tocsin.targets.http.resolver import StillResolving
from tocsin.targets.secrets import NoSecrets, SecretOfOthers, Secrets, SecretUnavailable

_URLS_REMEMBERED: Final = 4096
_NAME_PATIENCE: Final = 0.5
"""Seconds that a call keeps its place while name servers are silent. Then it is put off, and the lookup goes
on."""
_NAME_WAIT: Final = SECOND
_UNAUTHORIZED: Final = "401"
_TOKEN_DROPPED: Final = "the target answered 401; the next attempt fetches a new token"  # noqa: S105 - words
_PATH: Final = re.compile(r"[!$&-;=?@A-Z_a-z~%]+")
_NOTHING_SECRET: Final = Redactor(())


class _Prepared(msgspec.Struct, frozen=True):
    """A request that is ready to go, and what to do about its answer."""

    request: OutgoingRequest
    redactor: Redactor = _NOTHING_SECRET
    grant: Grant | None = None
    token: Token | None = None


class HttpCaller:
    """One attempt at an HTTP target."""

    def __init__(
        self,
        client: HttpClient,
        clock: Clock,
        secrets: Secrets | None = None,
        certificates: ClientCertificates | None = None,
        names: Names | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._names = names or NoNames()
        self._secrets = secrets or NoSecrets()
        self._certificates = certificates or ClientCertificates()
        self._breaker = HostBreaker()
        self._tokens = TokenSource(client, self._breaker, clock)
        self._urls: OrderedDict[str, TargetUrl] = OrderedDict()

    def host(self, target: HttpTarget) -> Host | None:
        """The name and port that the request goes to; None if there will be none."""
        try:
            url = self._url(target.url)
        except Refused:
            return None
        return url.host, url.port

    async def call(self, assignment: Assignment, target: HttpTarget, timeout: float) -> Outcome | Postponed:
        """Send the request, unless its host is at rest; every way this can end is an outcome."""
        try:
            url = self._url(target.url)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        host = (assignment.tenant_id, url.host, url.port)
        wait = self._breaker.wait(host, assignment.due_at, self._clock.now())
        if wait is not None:
            return Postponed(wait, Reason.HOST_REST)
        loop = asyncio.get_running_loop()
        began = loop.time()
        sending = False
        try:
            prepared = await self._prepare(assignment, target, url, timeout)
            sending = isinstance(prepared, _Prepared)
            outcome = await self._send(target, prepared) if isinstance(prepared, _Prepared) else prepared
        except BaseException:
            # The cancellation may have come because the time was over.
            if not sending or loop.time() - began < timeout:
                self._breaker.forget(host)
            else:
                self._breaker.report(host, self._clock.now(), failed=True)
            raise
        if _tells_of_host(outcome):
            self._breaker.report(host, self._clock.now(), failed=is_away(outcome))
        else:
            self._breaker.forget(host)
        return outcome

    async def _prepare(
        self, assignment: Assignment, target: HttpTarget, url: TargetUrl, timeout: float
    ) -> _Prepared | Outcome | Postponed:
        """Everything that comes before the request itself, or why it will not be sent."""
        tenant_id = assignment.tenant_id
        try:
            secrets = await self._values(tenant_id, secret_names(target))
            tls = None if target.tls is None else await self._context(tenant_id, target.tls)
            grant = _grant(tenant_id, target, secrets)
            token = None
            if grant is not None:
                began = asyncio.get_running_loop().time()
                # Half of the time at most, so that the other half is left for the call.
                patience = min(FETCH_SECONDS, timeout / 2)
                host = (tenant_id, url.host, url.port)
                token = await self._tokens.token(grant, assignment.due_at, patience, host)
                timeout -= asyncio.get_running_loop().time() - began
            text = None if token is None else token.text
            given = user_headers(target, secrets, text)
            key = None
            if target.template or target.idempotency_key is not None:
                target, url, key = await self._filled_in(assignment, target, url)
            if target.path_secret is not None:
                url = _ended_by(url, secrets[target.path_secret.secret])
            request = await self._request(assignment, target, url, given, timeout, tls, key)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        except (SecretUnavailable, TokenUnavailable) as error:
            return Outcome(Verdict.FAILED, error=error.detail)
        except SecretOfOthers:
            return Postponed(pause_for_newer(assignment.due_at, self._clock.now()), Reason.KEY)
        except TokenHostAtRest as rest:
            return Postponed(rest.wait, Reason.HOST_TOKEN)
        except Unavailable as error:
            return Outcome(Verdict.FAILED, error=error.detail)
        if not secrets:
            return _Prepared(request)
        return _Prepared(request, Redactor(confidential(target, secrets, text)), grant, token)

    async def _send(self, target: HttpTarget, prepared: _Prepared) -> Outcome | Postponed:
        try:
            answer = await self._client.send(prepared.request)
        except StillResolving:
            return Postponed(_NAME_WAIT + round(_NAME_WAIT * random.random()), Reason.HOST_NAME)
        except DeliveryFailed as failure:
            return outcome_of_failure(failure, prepared.redactor)
        outcome = outcome_of_answer(target, answer, self._clock.now(), prepared.redactor)
        grant, token = prepared.grant, prepared.token
        if outcome.failure == _UNAUTHORIZED and grant is not None and token is not None and not token.fresh:
            self._tokens.drop(grant, token)
            return replace(outcome, verdict=Verdict.FAILED, error=_TOKEN_DROPPED, failure=None)
        return outcome

    async def _context(self, tenant_id: int, tls: ClientTls) -> ssl.SSLContext:
        name = tls.client_certificate.secret
        secrets = await self._values(tenant_id, [name])
        return await self._certificates.context(tenant_id, name, secrets[name])

    async def _values(self, tenant_id: int, names: Sequence[str]) -> dict[str, str]:
        return await self._secrets.values(tenant_id, names) if names else {}

    async def _filled_in(
        self, assignment: Assignment, target: HttpTarget, url: TargetUrl
    ) -> tuple[HttpTarget, TargetUrl, str | None]:
        """The request of this attempt, and its idempotency key if the target says one. The host stays: where
        the call goes was checked and is not filled in."""
        values = await values_for(assignment, template_parts(target), self._names)
        key = None if target.idempotency_key is None else fill(target.idempotency_key, values, in_header)
        if not target.template:
            return target, url, key
        return _filled_body(target, values), replace(url, path=fill(url.path, values, in_url)), key

    async def _request(
        self,
        assignment: Assignment,
        target: HttpTarget,
        url: TargetUrl,
        given: Mapping[str, str],
        timeout: float,
        tls: ssl.SSLContext | None,
        key: str | None = None,
    ) -> OutgoingRequest:
        body, content_type = body_of(target)
        now = self._clock.now()
        headers = own_headers(assignment)
        signing = await self._secrets.signing_secrets(assignment.tenant_id)
        headers |= signature_headers(signing, headers["idempotency-key"], now // SECOND, body)
        if key is not None:
            headers["idempotency-key"] = key
        # A job that was stored before a header became ours may still name it.
        given = {n: v for n, v in given.items() if n.lower() not in headers}
        lower = {name.lower() for name in given}
        if content_type is not None and "content-type" not in lower:
            headers["content-type"] = content_type
        if "user-agent" not in lower:
            headers["user-agent"] = "tocsin"
        return OutgoingRequest(
            target.method,
            url,
            (*headers.items(), *given.items()),
            body,
            total_timeout=timeout,
            tenant_id=assignment.tenant_id,
            name_patience=_NAME_PATIENCE,
            tls=tls,
        )

    def _url(self, text: str) -> TargetUrl:
        url = self._urls.get(text)
        if url is None:
            url = self._urls[text] = parse_target_url(text)
            if len(self._urls) > _URLS_REMEMBERED:
                self._urls.popitem(last=False)
        return url


def _ended_by(url: TargetUrl, secret: str) -> TargetUrl:
    """The address with a secret at its end. Only the path grows: the host was checked and stays."""
    if not _PATH.fullmatch(secret):
        raise Refused("the secret that ends the path has characters that no path has")
    return replace(url, path=url.path.removesuffix("/") + "/" + secret.removeprefix("/"))


def _filled_body(target: HttpTarget, values: Mapping[str, str]) -> HttpTarget:
    if isinstance(target.body, str):
        given = next(
            (value for name, value in target.headers.items() if name.lower() == "content-type"), None
        )
        kind = given if isinstance(given, str) else None
        return replace(target, body=fill(target.body, values, in_text(kind)))
    return replace(target, body=fill_value(target.body, values))


def _grant(tenant_id: int, target: HttpTarget, secrets: Mapping[str, str]) -> Grant | None:
    """What to ask a token with, if the target wants one."""
    auth = target.auth
    if not isinstance(auth, OAuth2Auth):
        return None
    return Grant(
        tenant_id,
        auth.token_url,
        filled(auth.client_id, secrets),
        filled(auth.client_secret, secrets),
        auth.scope,
        auth.audience,
    )


def _tells_of_host(outcome: Outcome | Postponed) -> TypeGuard[Outcome]:
    """Whether anything was sent, so that the outcome says how the host fares."""
    if isinstance(outcome, Postponed):
        return False
    return outcome.verdict is Verdict.SUCCEEDED or outcome.failure is not None or outcome.detail is not None
