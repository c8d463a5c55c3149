"""Writes down what remote workers tell, by the settler that every worker has, and tells them what became of
it.

Requests that arrive while a batch is being written share the next one. A claim that another gateway handed
out is found by its token. A claim that is not there any more was settled before, by this or an earlier try,
or has passed to another worker; history knows which.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import DAY, MILLISECOND, Instant, Span
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.domain.protocol import MAX_MESSAGE, MAX_RESULT, MAX_TRACE, TaskError, TaskSettlement
from tocsin.domain.storable import storable, storable_json, storable_text
from tocsin.domain.waits import Reason
from tocsin.queue.claiming.holding import Ref, ref_of
from tocsin.queue.claims import AnyClaim, Claim
from tocsin.service import Report
from tocsin.worker.settler import Settlement, Settler

_NOTHING_CALLED: Final = Outcome(Verdict.CANCELLED, error="cancelled before its task was run")
_LONGEST_WAIT: Final = 3650 * DAY
_TOO_LARGE: Final = "the result has {size:,} bytes, more than the {most:,} that are kept"


class Told(NamedTuple):
    """A settlement as a worker wrote it, and the claim that it is about."""

    claim: Claim
    written: TaskSettlement


class _Request:
    """Settlements that came together: `done` when the last of them is written. A future for each would cost
    as much as all that is done with them."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.lost: set[Ref] = set()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hear(self, ref: Ref, *, lost: bool) -> None:
        """One is written, or was lost before."""
        self.left -= 1
        if lost:
            self.lost.add(ref)
        if self.left == 0 and not self.done.done():
            self.done.set_result(None)


class RemoteSettler(Settler):
    """A settler that can be waited for."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._waiting: dict[Ref, list[_Request]] = {}
        self._lost: set[Ref] = set()

    async def settle(self, settlements: Sequence[Settlement]) -> set[Ref]:
        """Write these down. Returns which of the claims had been lost before."""
        by_ref = {ref_of(settlement.claim): settlement for settlement in settlements}
        if not by_ref:
            return set()
        request = _Request(len(by_ref))
        for ref, settlement in by_ref.items():
            if (others := self._waiting.get(ref)) is not None:
                others.append(request)  # an earlier try is on its way, and its answer is this one's
            else:
                self._waiting[ref] = [request]
                self.put(settlement)
        await request.done
        return request.lost

    def count_strays(self, strays: Sequence[Ref]) -> None:
        """These were settled, and still run in code that cannot be stopped."""
        self._telemetry.strays.inc(len(strays))

    async def run_once(self, now: Instant) -> Report:
        """Write one batch, and tell those that wait for it."""
        report = await super().run_once(now)
        unwritten = {ref_of(claim) for claim in self.claims()}
        for ref in [ref for ref in self._waiting if ref not in unwritten]:
            for request in self._waiting.pop(ref):
                request.hear(ref, lost=ref in self._lost)
        self._lost.clear()  # no request waits to hear of the others
        return report

    def _count_lost(self, lost: list[AnyClaim]) -> None:
        super()._count_lost(lost)
        self._lost.update(Ref(ExecutionKey(one.job_id, one.fire_at), one.token) for one in lost)


def settlement_of(told: Told, now: Instant) -> Settlement:
    """What a worker's words mean."""
    claim, written = told
    wait = _wait(written) or 0
    if written.verdict == "postponed":
        return Settlement(
            claim,
            _NOTHING_CALLED,
            now,
            postponed_to=now + wait,
            waits_for=Reason.TASK,
            reason=_words(written),
        )
    outcome = outcome_of(written)
    return Settlement(claim, outcome, now, reason=_words(written) if written.verdict == "skipped" else None)


def outcome_of(written: TaskSettlement) -> Outcome:
    """The outcome of an attempt that was made."""
    if written.verdict == "succeeded":
        if written.result is None:
            return SUCCEEDED
        return Outcome(Verdict.SUCCEEDED, result=storable(written.result))
    verdict = Verdict(written.verdict)
    if verdict is Verdict.SKIPPED:
        return Outcome(verdict, error=_words(written) or "its task found nothing to do")
    error = written.error or TaskError("Error", written.reason or "no error was told")
    detail = {"kind": storable_text(error.kind[:MAX_MESSAGE])}
    if error.trace:
        detail["trace"] = storable_text(error.trace[-MAX_TRACE:])
    return Outcome(verdict, _message(error), detail, _wait(written))


def refusal_of(written: TaskSettlement) -> str | None:
    """Why a settlement cannot be written, if it cannot."""
    if written.result is None:
        return None
    size = len(storable_json(written.result))
    return _TOO_LARGE.format(size=size, most=MAX_RESULT) if size > MAX_RESULT else None


def release_of(claim: Claim, now: Instant) -> Settlement:
    """The settlement of a claim of which nothing was run: it goes back as if it had not been claimed."""
    return Settlement(claim, _NOTHING_CALLED, now, postponed_to=claim.run_at)


def _message(error: TaskError) -> str:
    message = storable_text(error.message[:MAX_MESSAGE])
    kind = storable_text(error.kind)
    return f"{kind}: {message}" if message else kind


def _wait(written: TaskSettlement) -> Span | None:
    """How long the worker asks to wait, within what an instant can be after now."""
    asked = written.retry_after_ms
    return None if asked is None else min(asked * MILLISECOND, _LONGEST_WAIT)


def _words(written: TaskSettlement) -> str | None:
    return None if written.reason is None else storable_text(written.reason[:MAX_MESSAGE])
