"""API requests per second: a token bucket per tenant, in each API process for itself.

A fleet of n API processes therefore lets n times the limit through; that keeps the check off the network and
off the database. Operators' keys pass: an operator who must lift a limit must not be locked out by it. Every
answer under a limit says what is left, in the `RateLimit` and `RateLimit-Policy` fields that the IETF
drafted.
"""

import math
from collections import OrderedDict
from typing import Final

from tocsin.api.endpoint import Asker
from tocsin.clock import Clock
from tocsin.domain.errors import Refused
from tocsin.domain.limits import Bucket

_MOST_TENANTS: Final = 10_000
_NONE: Final[dict[str, str]] = {}


class TooManyRequests(Refused):
    """The tenant asked more often than it may. `headers` say when to come again."""

    status = 429

    def __init__(self, detail: str, headers: dict[str, str]) -> None:
        super().__init__(detail, hint="wait as long as Retry-After says")
        self.headers = headers


class Throttle:
    """The buckets of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[int, tuple[float, int | None, Bucket]] = OrderedDict()

    def admit(self, asker: Asker) -> dict[str, str]:
        """Count a request, or refuse it. Returns the header fields that tell the asker how it stands."""
        rate, burst = asker.limits.requests_per_second, asker.limits.request_burst
        if rate is None or asker.operator:
            return _NONE
        words = f"more than {rate:g} requests per second (limit requests_per_second)"
        return self.take(asker.tenant_id, rate, burst, "requests", words)

    def take(self, tenant_id: int, rate: float, burst: int | None, what: str, words: str) -> dict[str, str]:
        """Count one of what a tenant may do so often, or refuse it."""
        bucket = self._bucket(tenant_id, rate, burst)
        grant = bucket.take(self._clock.monotonic())
        headers = {
            "ratelimit-policy": f'"{what}";q={bucket.quota};w={math.ceil(bucket.window)}',
            "ratelimit": f'"{what}";r={grant.remaining};t={math.ceil(grant.full_after)}',
        }
        if not grant.granted:
            wait = max(1, math.ceil(grant.retry_after))
            raise TooManyRequests(words, headers | {"retry-after": str(wait)})
        return headers

    def _bucket(self, tenant_id: int, rate: float, burst: int | None) -> Bucket:
        known = self._buckets.get(tenant_id)
        if known is None:
            bucket = Bucket(rate, burst, self._clock.monotonic())
        elif known[:2] == (rate, burst):
            self._buckets.move_to_end(tenant_id)
            return known[2]
        else:
            bucket = known[2]
            bucket.change(rate, burst)
        self._buckets[tenant_id] = (rate, burst, bucket)
        if len(self._buckets) > _MOST_TENANTS:
            self._buckets.popitem(last=False)
        return bucket
