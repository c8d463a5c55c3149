"""What to do when things go wrong: retry, misfire, overlap. Values, and pure decisions over them."""

from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, HOUR, SECOND, Instant, Span, parse_span
from tocsin.domain.statuses import MAX_PATTERNS, check_statuses, matches
from tocsin.domain.written import (
    STATUS_TEXT,
    SpanText,
    UpToAMonth,
    UpToAnHour,
    UpToAYear,
    WrittenTimeout,
    at_most,
    between,
    described,
    line,
)

MAX_ATTEMPTS: Final = 100
MAX_MISFIRES: Final = 1000
MAX_PARALLEL: Final = 1000
MAX_MULTIPLIER: Final = 100
MAX_RATE: Final = 1_000_000
MAX_KEY: Final = 200
MAX_PAUSE_AFTER: Final = 100
NETWORK: Final = "network"
TIMEOUT: Final = "timeout"
Grace = SpanText | Annotated[float, between(1, 86_400)]
PauseAfter = Annotated[int, between(1, MAX_PAUSE_AFTER)]
StartWithin = SpanText | Annotated[float, between(1, 100 * 366 * 86_400)]
MaxAge = SpanText | Annotated[float, between(1, 366 * 86_400)]
_RetryOn = (
    Annotated[int, between(200, 599)]
    | Annotated[str, described(pattern=f"^({NETWORK}|{TIMEOUT}|{STATUS_TEXT})$")]
)
_RETRY_ON: Final[tuple[int | str, ...]] = (NETWORK, TIMEOUT, "5xx", 408, 425, 429)


class Retry(msgspec.Struct, frozen=True, cache_hash=True, forbid_unknown_fields=True, omit_defaults=True):
    """Exponential backoff: initial · multiplierⁿ up to max, of which a `jitter` share is random.

    `on` lists what is worth another attempt: ``network``, ``timeout``, statuses and classes of statuses.
    """

    max_attempts: Annotated[int, between(1, MAX_ATTEMPTS)] = 5
    initial_backoff: UpToAMonth = "1s"
    max_backoff: UpToAMonth = "5m"
    multiplier: Annotated[float, between(1, MAX_MULTIPLIER)] = 2.0
    jitter: Annotated[float, between(0, 1)] = 0.5
    on: Annotated[tuple[_RetryOn, ...], at_most(MAX_PATTERNS)] = _RETRY_ON
    max_age: MaxAge | None = None
    """No retry begins later than this after the execution was due."""


class MisfirePolicy(StrEnum):
    """Which of the missed fire times still run."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


class Misfire(msgspec.Struct, frozen=True, cache_hash=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fire time that has not started `grace` after its instant was missed. Older than `lookback` it never
    runs; of the others, what `policy` says.

    Under `fire_all` at most the latest `max` run. What runs late does so in the catch-up lane, one every
    `pace`.
    """

    policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    lookback: UpToAYear = "1h"
    max: Annotated[int, between(1, MAX_MISFIRES)] = 100
    pace: UpToAnHour = 0
    grace: Grace = "1m"

    def live_from(self, now: Instant) -> Instant:
        """What is due from here on can still run as if nothing had happened."""
        return now - parse_span(self.grace, "misfire.grace")

    @property
    def kept(self) -> int:
        """How many missed fire times may run."""
        match self.policy:
            case MisfirePolicy.FIRE_ONCE:
                return 1
            case MisfirePolicy.FIRE_ALL:
                return self.max
            case MisfirePolicy.SKIP:
                return 0


class Overlap(StrEnum):
    """What happens when a fire time comes while an earlier execution of the job is still running."""

    ALLOW = "allow"  # both run
    SKIP = "skip"  # the new one does not run
    QUEUE = "queue"  # the new one waits its turn; all run, in order
    COLLAPSE = "collapse"  # the new one waits, but only the latest of those that wait
    REPLACE = "replace"  # the older one is asked to stop, the new one follows


class Precision(StrEnum):
    """How close to its instant an execution fires."""

    NORMAL = "normal"  # started 25 ms ahead and fired by a timer: within a millisecond or two when idle
    EXACT = "exact"  # started half a second ahead, the timer's last moment spent looking at the clock


class Limit(msgspec.Struct, frozen=True, cache_hash=True, forbid_unknown_fields=True, omit_defaults=True):
    """Over all jobs of a tenant that share `key`, and over the whole fleet: at most `max_parallel` executions
    at once, and at most `rate` starts per `per`, evenly spaced."""

    key: Annotated[str, line(MAX_KEY)]
    max_parallel: Annotated[int, between(1, MAX_PARALLEL)] | None = None
    rate: Annotated[int, between(1, MAX_RATE)] | None = None
    per: SpanText | Annotated[float, between(1, 86_400)] = "1s"


class Policies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job's policies as stored."""

    retry: Retry = Retry()
    misfire: Misfire = Misfire()
    overlap: Overlap = Overlap.ALLOW
    timeout: WrittenTimeout | None = None
    start_within: StartWithin | None = None
    limit: Limit | None = None
    precision: Precision = Precision.NORMAL
    pause_after: PauseAfter | None = None
    """How many executions may fail for good in a row before the job is paused. Of recurring jobs."""

    def start_by(self, due_at: Instant) -> Instant | None:
        """When an execution that is due at `due_at` must have started; None if it may start whenever it
        can."""
        return None if self.start_within is None else due_at + parse_span(self.start_within, "start_within")


@lru_cache(maxsize=4096)
def check_policies(policies: Policies) -> None:
    """Refuse values that make no sense, naming the field. Most jobs have the same few, which are checked
    once."""
    _check_retry(policies.retry)
    _check_misfire(policies.misfire)
    timeout = None if policies.timeout is None else parse_span(policies.timeout, "timeout")
    if timeout is not None and not SECOND // 10 <= timeout <= 24 * HOUR:
        raise Refused("a timeout lies between 0.1s and 24h", field="timeout")
    if policies.start_within is not None and parse_span(policies.start_within, "start_within") < SECOND:
        raise Refused("start_within is at least 1s", field="start_within")
    if policies.pause_after is not None and not 1 <= policies.pause_after <= MAX_PAUSE_AFTER:
        raise Refused(f"pause_after lies between 1 and {MAX_PAUSE_AFTER}", field="pause_after")
    if policies.limit is not None:
        _check_limit(policies.limit)


def _check_retry(retry: Retry) -> None:
    if not 1 <= retry.max_attempts <= MAX_ATTEMPTS:
        raise Refused(f"max_attempts lies between 1 and {MAX_ATTEMPTS}", field="retry.max_attempts")
    if not 1 <= retry.multiplier <= MAX_MULTIPLIER:
        raise Refused(f"multiplier lies between 1 and {MAX_MULTIPLIER}", field="retry.multiplier")
    if not 0 <= retry.jitter <= 1:
        raise Refused("jitter is a share between 0 and 1", field="retry.jitter")
    check_statuses(retry.on, "retry.on", also=(NETWORK, TIMEOUT))
    initial = parse_span(retry.initial_backoff, "retry.initial_backoff")
    longest = parse_span(retry.max_backoff, "retry.max_backoff")
    if initial > longest:
        raise Refused("initial_backoff is longer than max_backoff", field="retry.initial_backoff")
    if longest > 30 * DAY:
        raise Refused("max_backoff is at most 30 days", field="retry.max_backoff")
    if retry.max_age is not None and not SECOND <= parse_span(retry.max_age, "retry.max_age") <= 366 * DAY:
        raise Refused("max_age lies between 1s and a year", field="retry.max_age")


def _check_misfire(misfire: Misfire) -> None:
    if not SECOND <= parse_span(misfire.grace, "misfire.grace") <= DAY:
        raise Refused("grace lies between 1s and 1d", field="misfire.grace")
    if parse_span(misfire.lookback, "misfire.lookback") > 366 * DAY:
        raise Refused("lookback is at most a year", field="misfire.lookback")
    if not 1 <= misfire.max <= MAX_MISFIRES:
        raise Refused(f"max lies between 1 and {MAX_MISFIRES}", field="misfire.max")
    if parse_span(misfire.pace, "misfire.pace") > HOUR:
        raise Refused("pace is at most an hour", field="misfire.pace")


def _check_limit(limit: Limit) -> None:
    if not 1 <= len(limit.key) <= MAX_KEY or not limit.key.isprintable():
        raise Refused(f"key has 1 to {MAX_KEY} printable characters", field="limit.key")
    if limit.max_parallel is None and limit.rate is None:
        raise Refused("give max_parallel, rate, or both", field="limit")
    if limit.max_parallel is not None and not 1 <= limit.max_parallel <= MAX_PARALLEL:
        raise Refused(f"max_parallel lies between 1 and {MAX_PARALLEL}", field="limit.max_parallel")
    if limit.rate is not None and not 1 <= limit.rate <= MAX_RATE:
        raise Refused(f"rate lies between 1 and {MAX_RATE:,}", field="limit.rate")
    if not SECOND <= parse_span(limit.per, "limit.per") <= DAY:
        raise Refused("per lies between 1s and 1d", field="limit.per")


def backoff(retry: Retry, attempt: int, chance: float) -> Span:
    """The wait after failed attempt number `attempt` (1 is the first). `chance` lies in [0, 1)."""
    initial = parse_span(retry.initial_backoff, "retry.initial_backoff")
    longest = parse_span(retry.max_backoff, "retry.max_backoff")
    # The exponent is capped before the power is taken: 100 attempts at ×100 would not fit a float.
    raw = min(float(longest), initial * retry.multiplier ** min(attempt - 1, 64))
    return round(raw * (1 - retry.jitter * chance))


def may_retry(retry: Retry, attempts_made: int) -> bool:
    """Whether the policy allows another attempt after `attempts_made`."""
    return attempts_made < retry.max_attempts


def is_too_old(retry: Retry, due_at: Instant, at: Instant) -> bool:
    """Whether a retry at this instant would come later than the policy allows."""
    return retry.max_age is not None and at - due_at > parse_span(retry.max_age, "retry.max_age")


def is_retried(retry: Retry, failure: str) -> bool:
    """Whether this kind of failure is worth another attempt: ``network``, ``timeout``, or a status."""
    return matches(retry.on, int(failure)) if failure.isdigit() else failure in retry.on
