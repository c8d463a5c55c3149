"""How a task is run and enqueued: what its decorator says, and what one call says otherwise."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.job import check_queue
from tocsin.domain.policy import Limit as StoredLimit
from tocsin.domain.policy import Policies, check_policies
from tocsin.domain.policy import Retry as StoredRetry
from tocsin.sdk.traces import trace_here

Run = Literal["async", "thread", "process"]
Span = str | float


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """When a failed attempt is followed by another. `on`, if given, are the only exceptions that are worth
    one; `never` are not."""

    max_attempts: int = 5
    initial_backoff: Span = "1s"
    max_backoff: Span = "5m"
    multiplier: float = 2.0
    jitter: float = 0.5
    max_age: Span | None = None
    on: Sequence[type[BaseException]] = ()
    never: Sequence[type[BaseException]] = ()

    def stored(self) -> StoredRetry:
        """The part that the server keeps to."""
        return StoredRetry(
            self.max_attempts,
            self.initial_backoff,
            self.max_backoff,
            self.multiplier,
            self.jitter,
            max_age=self.max_age,
        )


class Limit(msgspec.Struct, frozen=True):
    """A cap on the executions that share a key: on those at once, or on the starts per period. The key may
    name parameters: ``customer:{customer}``."""

    key: str
    max_parallel: int | None = None
    rate: int | None = None
    per: Span = "1s"

    def stored(self, payload: Mapping[str, Any]) -> StoredLimit:
        """The limit of one call."""
        key = _filled(self.key, payload, "limit's key")
        return StoredLimit(key, self.max_parallel, self.rate, self.per)


def _filled(key: str, payload: Mapping[str, Any], what: str) -> str:
    try:
        return key.format_map(payload)
    except (KeyError, ValueError, AttributeError, IndexError) as error:
        raise Refused(f"the {what} {key!r} names what the call has not: {error}") from None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a job says beside its target."""

    queue: str = "default"
    priority: int = 5
    timeout: Span | None = None
    retry: Retry = Retry()
    limit: Limit | None = None
    start_within: Span | None = None
    tags: tuple[str, ...] = ()
    at: str | None = None
    delay: Span | None = None
    idempotency_key: str | None = None
    unique: str | None = None
    debounce: str | None = None
    max_wait: Span | None = None
    trace: str | None = None

    @property
    def asked_by(self) -> str | None:
        """The caller's ``traceparent``: the one that was given, or that of the span here."""
        return self.trace or trace_here()

    def key_for(self, payload: Mapping[str, Any]) -> str | None:
        """The unique key of one call."""
        key = self.debounce if self.unique is None else self.unique
        return None if key is None else _filled(key, payload, "unique key")

    def check(self) -> None:
        """Refuse what no call could be enqueued with: said where the task is written."""
        check_queue(self.queue, self.priority)
        retry = self.retry.stored()
        check_policies(Policies(retry=retry, timeout=self.timeout, start_within=self.start_within))

    def job(self, target: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a creation. What makes no sense is refused here, by the server's own rules."""
        if self.at is not None and self.delay is not None:
            raise Refused("give at or delay, not both", field="at")
        limit = None if self.limit is None else self.limit.stored(payload)
        retry = self.retry.stored()
        check_policies(
            Policies(retry=retry, timeout=self.timeout, start_within=self.start_within, limit=limit)
        )
        body: dict[str, Any] = {
            "schedule": {"at": self.at} if self.at is not None else {"in": self.delay or 0},
            "target": dict(target),
            "queue": self.queue,
            "priority": self.priority,
            "retry": msgspec.to_builtins(retry),
        }
        if self.tags:
            body["tags"] = list(self.tags)
        for name in ("timeout", "start_within"):
            if (value := getattr(self, name)) is not None:
                body[name] = value
        if limit is not None:
            body["limit"] = msgspec.to_builtins(limit)
        return body | self._uniqueness(payload)

    def _uniqueness(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        if self.unique is not None and self.debounce is not None:
            raise Refused("give unique or debounce, not both", field="unique")
        if self.max_wait is not None and self.debounce is None:
            raise Refused("max_wait goes with debounce", field="max_wait")
        if (key := self.key_for(payload)) is None:
            return {}
        if self.debounce is None:
            return {"unique": key}
        return {"debounce": key} | ({} if self.max_wait is None else {"max_wait": self.max_wait})
