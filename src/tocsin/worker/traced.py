"""What traces say about attempts that were settled."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tocsin.domain.ids import execution_text, job_text
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Verdict
from tocsin.queue.claims import AnyClaim, Claim, Finish
from tocsin.tracing import TracedAttempt

if TYPE_CHECKING:
    from tocsin.worker.settler import Settlement


def traced_successes(
    claims: Sequence[Claim], finished_at: Instant, lost: Sequence[AnyClaim]
) -> list[TracedAttempt]:
    """Claims that succeeded and had nothing more to tell. A lost claim is another worker's to tell."""
    gone = {id(claim) for claim in lost}
    return [
        _traced(claim, str(Verdict.SUCCEEDED), finished_at, None, str(State.SUCCEEDED))
        for claim in claims
        if id(claim) not in gone
    ]


def traced_settlements(
    settlements: Sequence["Settlement"], finishes: Sequence[Finish], lost: Sequence[AnyClaim]
) -> list[TracedAttempt]:
    """Attempts that were made, with the final state of executions that are over."""
    states = {id(finish.claim): str(finish.state) for finish in finishes}
    return list(_told(settlements, states, {id(claim) for claim in lost}))


def _told(
    settlements: Sequence["Settlement"], states: dict[int, str], gone: set[int]
) -> Iterator[TracedAttempt]:
    for settlement in settlements:
        claim, outcome = settlement.claim, settlement.outcome
        made = settlement.postponed_to is None and claim.started_at is not None and claim.target is not None
        if made and id(claim) not in gone:
            ended = states.get(id(claim))
            yield _traced(claim, str(outcome.verdict), settlement.finished_at, outcome.error, ended)


def _traced(
    claim: Claim, verdict: str, finished_at: Instant, error: str | None, ended: str | None
) -> TracedAttempt:
    return TracedAttempt(
        execution=execution_text(claim.key),
        job=job_text(claim.job_id),
        tenant_id=claim.tenant_id,
        queue=claim.queue,
        kind=claim.route.partition(":")[0],
        attempt=claim.attempt,
        due_at=claim.due_at,
        started_at=claim.started_at or claim.run_at,
        finished_at=finished_at,
        verdict=verdict,
        error=error,
        ended=ended,
    )
