"""From an answer, or the lack of one, to an outcome.

The statuses that the target expects are success. A redirect is not followed and counts as any other status.
Each failure carries its name (a status, ``network``, ``timeout``), so that the job's retry policy can tell
whether another attempt is worth it; the verdict is what holds if nothing else is said. 410 says that there is
nothing to call any more. Secrets of the request that the answer repeats are masked before it becomes part of
the outcome.
"""

from email.utils import parsedate_to_datetime
from typing import Any, Final

from tocsin.domain.instant import DAY, SECOND, Instant, Span, from_datetime
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import NETWORK, TIMEOUT, Retry, is_retried
from tocsin.domain.secrets import Redactor
from tocsin.domain.target import HttpTarget, is_expected
from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind

GONE: Final = 410
_KEPT_HEADERS: Final = 32
_USUAL: Final = Retry()


def outcome_of_answer(target: HttpTarget, answer: Answer, now: Instant, redactor: Redactor) -> Outcome:
    """What an answer means."""
    detail = _detail(answer, redactor)
    if is_expected(target, answer.status):
        return Outcome(Verdict.SUCCEEDED, detail=detail)
    failure = str(answer.status)
    verdict = Verdict.FAILED if is_retried(_USUAL, failure) else Verdict.REJECTED
    return Outcome(
        verdict,
        f"the target answered {answer.status}",
        detail,
        _retry_after(answer.header("retry-after"), now),
        failure,
        gone=answer.status == GONE,
    )


def outcome_of_failure(failed: DeliveryFailed, redactor: Redactor) -> Outcome:
    """What it means that there is no answer."""
    error = redactor.text(str(failed))
    if failed.kind is FailureKind.TIMEOUT:
        return Outcome(Verdict.TIMED_OUT, error, failure=TIMEOUT)
    if failed.kind.retryable:
        return Outcome(Verdict.FAILED, error, failure=NETWORK)
    return Outcome(Verdict.REJECTED, error)


def _detail(answer: Answer, redactor: Redactor) -> dict[str, Any]:
    kept = answer.headers[:_KEPT_HEADERS]
    detail: dict[str, Any] = {"status": answer.status, "headers": dict(kept)}
    body = answer.body
    if redactor:
        detail["headers"] = {redactor.text(name): redactor.text(value) for name, value in kept}
        body = redactor.body(body, truncated=answer.truncated)
    if body:
        # NUL cannot be stored in JSON by PostgreSQL; undecodable bytes are shown as such.
        detail["body"] = body.decode("utf-8", "backslashreplace").replace("\x00", "\\x00")
    if answer.truncated:
        detail["truncated"] = True
    return detail


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
