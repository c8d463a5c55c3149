"""Counts attempts as they start: how many, and how late, by queue."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tocsin.domain.instant import Instant
from tocsin.queue.claims import Claim
from tocsin.telemetry import Telemetry


def tell_started(telemetry: Telemetry, claims: Sequence[Claim], now: Instant) -> None:
    """These attempts began. A further attempt is late by its own run time, not by the first one's."""
    telemetry.started.inc(len(claims))
    for queue, some in _by_queue(claims):
        lags = [(c.started_at or now) - (c.due_at if c.attempt == 1 else c.run_at) for c in some]
        telemetry.lag.observe(lags, queue)


def _by_queue(claims: Sequence[Claim]) -> Iterator[tuple[str, Sequence[Claim]]]:
    """Under a drain nearly every batch is of one queue, and is passed on as it is."""
    queues = [claim.queue for claim in claims]
    if not queues:
        return
    if queues.count(queues[0]) == len(queues):
        yield queues[0], claims
        return
    groups: defaultdict[str, list[Claim]] = defaultdict(list)
    for queue, claim in zip(queues, claims, strict=True):
        groups[queue].append(claim)
    yield from groups.items()
