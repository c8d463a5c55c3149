"""Calls HTTP targets: looks up the secrets, builds and signs the request, sends it, hands back an outcome.

Every way a call can end is an outcome. A secret is opened here and nowhere else, and what comes back is masked
before it leaves this module.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl, parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.secrets import Redactor
from tocsin.domain.signature import signature_headers
from tocsin.domain.target import HttpTarget, body_of
from tocsin.queue.claims import Claim
from tocsin.worker.targets.http_breaker import HostBreaker, is_away
from tocsin.worker.targets.http_client import HttpClient
from tocsin.worker.targets.http_exchange import DeliveryFailed, OutgoingRequest
from tocsin.worker.targets.http_headers import confidential, own_headers, secret_names, user_headers
from tocsin.worker.targets.http_outcome import outcome_of_answer, outcome_of_failure
from tocsin.worker.vault import SecretUnavailable, Vault

_URLS_REMEMBERED: Final = 4096
_NOTHING_SECRET: Final = Redactor(())


class HttpCaller:
    """One attempt at an HTTP target. Without a vault nothing is signed, and no secret is there."""

    def __init__(self, client: HttpClient, clock: Clock, vault: Vault | None = None) -> None:
        self._client = client
        self._clock = clock
        self._vault = vault
        self._breaker = HostBreaker()
        self._urls: OrderedDict[str, TargetUrl] = OrderedDict()

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
        try:
            outcome = await self._attempt(claim, target, url, timeout)
        except BaseException:
            # Whoever stopped us may have done so because the time was over.
            if loop.time() - began < timeout:
                self._breaker.forget(host)
            else:
                self._breaker.report(host, self._clock.now(), failed=True)
            raise
        if outcome.verdict is not Verdict.SUCCEEDED and outcome.failure is None:
            self._breaker.forget(host)  # nothing was sent
        else:
            self._breaker.report(host, self._clock.now(), failed=is_away(outcome))
        return outcome

    async def _attempt(self, claim: Claim, target: HttpTarget, url: TargetUrl, timeout: float) -> Outcome:
        redactor = _NOTHING_SECRET
        try:
            secrets = await self._secrets(claim, target)
            if secrets:
                redactor = Redactor(confidential(target, secrets))
            request = await self._request(claim, target, url, secrets, timeout)
            answer = await self._client.send(request)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        except SecretUnavailable as error:
            return Outcome(Verdict.FAILED, error=error.detail)
        except DeliveryFailed as failure:
            return outcome_of_failure(failure, redactor)
        return outcome_of_answer(target, answer, self._clock.now(), redactor)

    async def _secrets(self, claim: Claim, target: HttpTarget) -> dict[str, str]:
        names = secret_names(target)
        if not names:
            return {}
        if self._vault is None:
            raise SecretUnavailable("this worker has no secrets")
        return await self._vault.values(claim.tenant_id, names)

    async def _request(
        self, claim: Claim, target: HttpTarget, url: TargetUrl, secrets: dict[str, str], timeout: float
    ) -> OutgoingRequest:
        body, content_type = body_of(target)
        now = self._clock.now()
        headers = own_headers(claim, now)
        signing = () if self._vault is None else await self._vault.signing_secrets(claim.tenant_id)
        headers |= signature_headers(signing, headers["idempotency-key"], now // SECOND, body)
        # A job that was stored before a header became ours may still name it.
        given = {n: v for n, v in user_headers(target, secrets).items() if n.lower() not in headers}
        lower = {name.lower() for name in given}
        if content_type is not None and "content-type" not in lower:
            headers["content-type"] = content_type
        if "user-agent" not in lower:
            headers["user-agent"] = "tocsin"
        return OutgoingRequest(
            target.method, url, (*headers.items(), *given.items()), body, total_timeout=timeout
        )

    def _url(self, text: str) -> TargetUrl:
        url = self._urls.get(text)
        if url is None:
            url = self._urls[text] = parse_target_url(text)
            if len(self._urls) > _URLS_REMEMBERED:
                self._urls.popitem(last=False)
        return url
