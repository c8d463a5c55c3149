"""A rest for hosts that fail, so that executions wait instead of spending their attempts on them.

A host that fails `TRIP_AFTER` times in a row is given a rest. Meanwhile calls are put off, without counting
as attempts; when the rest is over one of them goes through as a probe. If it succeeds everything flows again;
if not, the next rest is longer. A host is judged by these failures: it cannot be reached, does not answer in
time, or says itself that it cannot (502, 503, 504): any other answer shows that it works.

Hosts are judged per tenant: no tenant's calls wait because of what another does to a host. And nothing waits
for ever: an execution that has been due for `LONGEST_WAIT` is called regardless.
"""

import random
from collections import OrderedDict
from typing import Final

from tocsin.domain.instant import MINUTE, SECOND, Instant, Span
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import NETWORK

TRIP_AFTER: Final = 10
FIRST_REST: Final = 1 * SECOND
LONGEST_REST: Final = 15 * SECOND
LONGEST_WAIT: Final = 15 * MINUTE
_REMEMBERED: Final = 10_000
_AWAY: Final = frozenset({NETWORK, "502", "503", "504"})

Host = tuple[int, str, int]
"""Tenant, name, port."""


class _Trouble:
    """A host that failed lately."""

    failures = 0
    rest: Span = 0
    closed_until: Instant = 0
    probing = False


class HostBreaker:
    """Which hosts are at rest, as this worker sees it. Time is given, never asked for."""

    def __init__(self) -> None:
        self._troubled: OrderedDict[Host, _Trouble] = OrderedDict()

    def wait(self, host: Host, due_at: Instant, now: Instant) -> Span | None:
        """How long a call should be put off; None lets it through. A caller that is let through must `report`
        or `forget`."""
        trouble = self._troubled.get(host)
        if trouble is None or trouble.failures < TRIP_AFTER or now - due_at >= LONGEST_WAIT:
            return None
        if trouble.closed_until > now or trouble.probing:
            # Spread, so that what has gathered does not come back all at once.
            return max(trouble.closed_until - now, FIRST_REST) + round(trouble.rest * random.random())
        trouble.probing = True
        return None

    def report(self, host: Host, now: Instant, *, failed: bool) -> None:
        """How a call that was let through ended."""
        if not failed:
            self._troubled.pop(host, None)
            return
        trouble = self._troubled.setdefault(host, _Trouble())
        self._troubled.move_to_end(host)
        if len(self._troubled) > _REMEMBERED:
            self._troubled.popitem(last=False)
        trouble.failures += 1
        # Calls that were under way when the rest began may fail too; only a failed probe makes it longer.
        if trouble.probing or trouble.failures == TRIP_AFTER:
            trouble.probing = False
            trouble.rest = min(max(2 * trouble.rest, FIRST_REST), LONGEST_REST)
            trouble.closed_until = now + trouble.rest

    def forget(self, host: Host) -> None:
        """A call that was let through ended without telling anything about its host."""
        if trouble := self._troubled.get(host):
            trouble.probing = False


def is_away(outcome: Outcome) -> bool:
    """Whether an outcome counts against the host."""
    return outcome.verdict is Verdict.TIMED_OUT or outcome.failure in _AWAY
