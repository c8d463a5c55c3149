"""Calls HTTP targets: builds the request, sends it, reads the answer as an outcome.

2xx is success. A redirect is not followed and counts as failure. 408, 425, 429 and 5xx may be tried again,
`Retry-After` is honoured; other 4xx say that the same request will not fare better, so they end at once.
"""

from collections import OrderedDict
from email.utils import parsedate_to_datetime
from typing import Any, Final

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl, parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.ids import execution_text, job_text
from tocsin.domain.instant import DAY, SECOND, Instant, Span, format_instant, from_datetime
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.target import HttpTarget, body_of
from tocsin.queue.claims import Claim
from tocsin.worker.targets.http_client import HttpClient
from tocsin.worker.targets.http_exchange import Answer, DeliveryFailed, FailureKind, OutgoingRequest

_RETRYABLE: Final = frozenset({408, 425, 429})
_KEPT_HEADERS: Final = 32
_URLS_REMEMBERED: Final = 4096


class HttpCaller:
    """One attempt at an HTTP target."""

    def __init__(self, client: HttpClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._urls: OrderedDict[str, TargetUrl] = OrderedDict()

    async def call(self, claim: Claim, target: HttpTarget, timeout: float) -> Outcome:
        """Send the request; every way this can end is an outcome."""
        try:
            request = self._request(claim, target, timeout)
            answer = await self._client.send(request)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        except DeliveryFailed as failure:
            return _outcome_of_failure(failure)
        return _outcome_of_answer(answer, self._clock.now())

    def _request(self, claim: Claim, target: HttpTarget, timeout: float) -> OutgoingRequest:
        body, content_type = body_of(target)
        headers = _own_headers(claim)
        given = {name.lower() for name in target.headers}
        if content_type is not None and "content-type" not in given:
            headers["content-type"] = content_type
        if "user-agent" not in given:
            headers["user-agent"] = "tocsin"
        return OutgoingRequest(
            target.method,
            self._url(target.url),
            (*headers.items(), *target.headers.items()),
            body,
            total_timeout=timeout,
        )

    def _url(self, text: str) -> TargetUrl:
        url = self._urls.get(text)
        if url is None:
            url = self._urls[text] = parse_target_url(text)
            if len(self._urls) > _URLS_REMEMBERED:
                self._urls.popitem(last=False)
        return url


def _own_headers(claim: Claim) -> dict[str, str]:
    """What every request carries. The idempotency key is the execution's identity: the same over retries."""
    execution = execution_text(claim.key)
    return {
        "idempotency-key": execution,
        "tocsin-job": job_text(claim.job_id),
        "tocsin-execution": execution,
        "tocsin-attempt": str(claim.attempt),
        "tocsin-fire-at": format_instant(
            claim.fire_at if claim.origin_fire_at is None else claim.origin_fire_at
        ),
    }


def _outcome_of_answer(answer: Answer, now: Instant) -> Outcome:
    detail: dict[str, Any] = {"status": answer.status, "headers": dict(answer.headers[:_KEPT_HEADERS])}
    if answer.body:
        # NUL cannot be stored in JSON by PostgreSQL; undecodable bytes are shown as such.
        detail["body"] = answer.body.decode("utf-8", "backslashreplace").replace("\x00", "\\x00")
    if answer.truncated:
        detail["truncated"] = True
    if 200 <= answer.status < 300:
        return Outcome(Verdict.SUCCEEDED, detail=detail)
    error = f"the target answered {answer.status}"
    if answer.status in _RETRYABLE or answer.status >= 500:
        return Outcome(Verdict.FAILED, error, detail, _retry_after(answer.header("retry-after"), now))
    return Outcome(Verdict.REJECTED, error, detail)


def _outcome_of_failure(failure: DeliveryFailed) -> Outcome:
    if failure.kind is FailureKind.TIMEOUT:
        verdict = Verdict.TIMED_OUT
    else:
        verdict = Verdict.FAILED if failure.kind.retryable else Verdict.REJECTED
    return Outcome(verdict, error=str(failure))


def _retry_after(value: str | None, now: Instant) -> Span | None:
    """Seconds or an HTTP date, bounded to a day; anything else is ignored."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(int(value[:9]) * SECOND, DAY)
    try:
        moment = from_datetime(parsedate_to_datetime(value))
    except (ValueError, TypeError):
        return None
    return min(max(0, moment - now), DAY)
