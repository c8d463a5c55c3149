"""Calls HTTP targets: looks up the secrets, builds and signs the request, sends it, hands back an outcome.

Every way a call can end is an outcome. A secret is opened here and nowhere else, and what comes back is masked
before it leaves this module.
"""

import asyncio
import random
import ssl
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

import msgspec
from msgspec.structs import replace

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl, parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.http_auth import OAuth2Auth
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import VERSION, Outcome, Postponed, Verdict, pause_for_newer
from tocsin.domain.secrets import Redactor
from tocsin.domain.signature import signature_headers
from tocsin.domain.target import ClientTls, HttpTarget, body_of
from tocsin.queue.claims import Claim
from tocsin.worker.targets.client_certificate import ClientCertificates
from tocsin.worker.targets.http_breaker import HostBreaker, is_away
from tocsin.worker.targets.http_client import HttpClient
from tocsin.worker.targets.http_exchange import DeliveryFailed, OutgoingRequest
from tocsin.worker.targets.http_headers import (
    confidential,
    filled,
    own_headers,
    secret_names,
    user_headers,
)
from tocsin.worker.targets.http_outcome import outcome_of_answer, outcome_of_failure
from tocsin.worker.targets.oauth2 import (
    FETCH_SECONDS,
    Grant,
    Token,
    TokenHostAtRest,
    TokenSource,
    TokenUnavailable,
)
from tocsin.worker.targets.resolver import StillResolving
from tocsin.worker.vault import SecretOfOthers, SecretUnavailable, Vault

_URLS_REMEMBERED: Final = 4096
_NAME_PATIENCE: Final = 0.5
"""Seconds that a call keeps its place while name servers are silent. Then it is put off, and the lookup goes on."""
_NAME_WAIT: Final = SECOND
_UNAUTHORIZED: Final = "401"
_TOKEN_DROPPED: Final = "the target answered 401; the next attempt fetches a new token"  # noqa: S105 - words
_NOTHING_SECRET: Final = Redactor(())


class _Prepared(msgspec.Struct, frozen=True):
    """A request that is ready to go, and what to do about its answer."""

    request: OutgoingRequest
    redactor: Redactor = _NOTHING_SECRET
    grant: Grant | None = None
    token: Token | None = None


class HttpCaller:
    """One attempt at an HTTP target. Without a vault nothing is signed, and no secret is there."""

    def __init__(
        self,
        client: HttpClient,
        clock: Clock,
        vault: Vault | None = None,
        certificates: ClientCertificates | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._vault = vault
        self._certificates = certificates or ClientCertificates()
        self._breaker = HostBreaker()
        self._tokens = TokenSource(client, self._breaker, clock)
        self._urls: OrderedDict[str, TargetUrl] = OrderedDict()

    def host(self, target: HttpTarget) -> tuple[str, int] | None:
        """The name and port that the request goes to; None if there will be none."""
        try:
            url = self._url(target.url)
        except Refused:
            return None
        return url.host, url.port

    async def call(self, claim: Claim, target: HttpTarget, timeout: float) -> Outcome | Postponed:
        """Send the request, unless its host is at rest; every way this can end is an outcome."""
        try:
            url = self._url(target.url)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        host = (claim.tenant_id, url.host, url.port)
        wait = self._breaker.wait(host, claim.due_at, self._clock.now())
        if wait is not None:
            return Postponed(wait)
        loop = asyncio.get_running_loop()
        began = loop.time()
        sending = False
        try:
            prepared = await self._prepare(claim, target, url, timeout)
            sending = isinstance(prepared, _Prepared)
            outcome = await self._send(target, prepared) if isinstance(prepared, _Prepared) else prepared
        except BaseException:
            # Whoever stopped us may have done so because the time was over.
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
        self, claim: Claim, target: HttpTarget, url: TargetUrl, timeout: float
    ) -> _Prepared | Outcome | Postponed:
        """Everything that comes before the request itself, or why it will not be sent."""
        try:
            secrets = await self._secrets(claim, secret_names(target))
            tls = None if target.tls is None else await self._context(claim, target.tls)
            grant = _grant(claim, target, secrets)
            token = None
            if grant is not None:
                began = asyncio.get_running_loop().time()
                # Half of the time at most, so that the other half is left for the call.
                patience = min(FETCH_SECONDS, timeout / 2)
                host = (claim.tenant_id, url.host, url.port)
                token = await self._tokens.token(grant, claim.due_at, patience, host)
                timeout -= asyncio.get_running_loop().time() - began
            text = None if token is None else token.text
            request = await self._request(claim, target, url, user_headers(target, secrets, text))
            request = replace(request, total_timeout=timeout, name_patience=_NAME_PATIENCE, tls=tls)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        except (SecretUnavailable, TokenUnavailable) as error:
            return Outcome(Verdict.FAILED, error=error.detail)
        except SecretOfOthers:
            return Postponed(pause_for_newer(claim.due_at, self._clock.now()), VERSION)
        except TokenHostAtRest as rest:
            return Postponed(rest.wait)
        if not secrets:
            return _Prepared(request)
        return _Prepared(request, Redactor(confidential(target, secrets, text)), grant, token)

    async def _send(self, target: HttpTarget, prepared: _Prepared) -> Outcome | Postponed:
        try:
            answer = await self._client.send(prepared.request)
        except StillResolving:
            return Postponed(_NAME_WAIT + round(_NAME_WAIT * random.random()))
        except DeliveryFailed as failure:
            return outcome_of_failure(failure, prepared.redactor)
        outcome = outcome_of_answer(target, answer, self._clock.now(), prepared.redactor)
        grant, token = prepared.grant, prepared.token
        if outcome.failure == _UNAUTHORIZED and grant is not None and token is not None and not token.fresh:
            self._tokens.drop(grant, token)
            return replace(outcome, verdict=Verdict.FAILED, error=_TOKEN_DROPPED, failure=None)
        return outcome

    async def _context(self, claim: Claim, tls: ClientTls) -> ssl.SSLContext:
        name = tls.client_certificate.secret
        secrets = await self._secrets(claim, [name])
        return await self._certificates.context(claim.tenant_id, name, secrets[name])

    async def _secrets(self, claim: Claim, names: Sequence[str]) -> dict[str, str]:
        if not names:
            return {}
        if self._vault is None:
            raise SecretUnavailable("this worker has no secrets")
        return await self._vault.values(claim.tenant_id, names)

    async def _request(
        self, claim: Claim, target: HttpTarget, url: TargetUrl, given: Mapping[str, str]
    ) -> OutgoingRequest:
        body, content_type = body_of(target)
        now = self._clock.now()
        headers = own_headers(claim, now)
        signing = () if self._vault is None else await self._vault.signing_secrets(claim.tenant_id)
        headers |= signature_headers(signing, headers["idempotency-key"], now // SECOND, body)
        # A job that was stored before a header became ours may still name it.
        given = {n: v for n, v in given.items() if n.lower() not in headers}
        lower = {name.lower() for name in given}
        if content_type is not None and "content-type" not in lower:
            headers["content-type"] = content_type
        if "user-agent" not in lower:
            headers["user-agent"] = "tocsin"
        return OutgoingRequest(
            target.method, url, (*headers.items(), *given.items()), body, tenant_id=claim.tenant_id
        )

    def _url(self, text: str) -> TargetUrl:
        url = self._urls.get(text)
        if url is None:
            url = self._urls[text] = parse_target_url(text)
            if len(self._urls) > _URLS_REMEMBERED:
                self._urls.popitem(last=False)
        return url


def _grant(claim: Claim, target: HttpTarget, secrets: Mapping[str, str]) -> Grant | None:
    """What to ask a token with, if the target wants one."""
    auth = target.auth
    if not isinstance(auth, OAuth2Auth):
        return None
    return Grant(
        claim.tenant_id,
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
