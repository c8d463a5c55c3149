"""Each attempt that should have a line in the log has one, made of ids and numbers."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from tocsin.clock import DatabaseClock
from tocsin.domain.ids import execution_text, job_text, new_job_id
from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.failpoints import Failpoints
from tocsin.queue.attempt_log import AttemptLog, attempt_log
from tocsin.queue.claims import Again, AnyClaim, Claim, Finish
from tocsin.telemetry import Telemetry
from tocsin.worker.settler import Settlement, Settler

SAID = "what the target said"
RETRY = '{"retry": {"max_attempts": 2}}'


def claim(number: int, attempt: int = 1, policies: str = RETRY) -> Claim:
    return Claim(
        new_job_id(number), SECOND, 7, "a queue", 5, "noop", SECOND, SECOND, None, 1, SECOND + MILLISECOND, attempt, 0,
        None, None, None, None, None, '{"kind":"noop"}', policies, 1, number,
    )  # fmt: skip


class Settling:
    """Writes nothing, and has lost some claims."""

    def __init__(self, *lost: Claim) -> None:
        self._lost = lost

    async def succeed(self, claims: list[Claim], _: int) -> list[AnyClaim]:
        return [one for one in claims if one in self._lost]

    async def finish(self, finishes: list[Finish]) -> list[AnyClaim]:
        return [one.claim for one in finishes if one.claim in self._lost]

    async def postpone(self, _: list[Again]) -> list[Again]:
        return []

    async def retry(self, _: list[Again]) -> list[Again]:
        return []


def told(
    which: str,
    settlements: list[Settlement],
    settling: Settling,
    share: float = 1.0,
    telemetry: Telemetry | None = None,
) -> list[Any]:
    async def write() -> None:
        settler = Settler(
            settling, DatabaseClock(), telemetry or Telemetry(), Failpoints(), node_id=1,  # type: ignore[arg-type]
            attempts=attempt_log(which, share),
        )  # fmt: skip
        for one in settlements:
            settler.put(one)
        await settler.run_once(0)

    with capture_logs() as lines:
        asyncio.run(write())
    return [line for line in lines if line["event"] == "attempt.finished"]


def test_an_attempt_is_told_with_its_ids_its_state_and_its_times() -> None:
    failed = claim(1)
    [line] = told("failed", [Settlement(failed, Outcome(Verdict.FAILED, SAID), 3 * SECOND)], Settling())
    assert line == {
        "event": "attempt.finished", "log_level": "info", "job": job_text(failed.job_id),
        "execution": execution_text(failed.key), "tenant": 7, "attempt": 1, "state": "queued", "outcome": "failed",
        "lag_ms": 1.0, "duration_ms": 1999.0,
    }  # fmt: skip


def test_the_last_attempt_of_a_dead_letter_is_a_warning() -> None:
    [line] = told("failed", [Settlement(claim(1, attempt=2), Outcome(Verdict.FAILED, SAID), 1)], Settling())
    assert (line["state"], line["log_level"]) == ("dead", "warning")


@pytest.mark.parametrize(("which", "number"), [("off", 0), ("failed", 1), ("all", 3)])
def test_the_setting_says_which_attempts_are_told(which: str, number: int) -> None:
    settlements = [
        Settlement(claim(1), SUCCEEDED, 1),
        Settlement(claim(2), Outcome(Verdict.SUCCEEDED, detail={"status": 200}), 1),
        Settlement(claim(3), Outcome(Verdict.TIMED_OUT), 1),
        Settlement(claim(4), Outcome(Verdict.CANCELLED), 1, postponed_to=9),  # no attempt was made
        Settlement(claim(5), Outcome(Verdict.CANCELLED), 1, State.EXPIRED, "too late"),
    ]
    assert len(told(which, settlements, Settling())) == number


def test_what_belongs_to_another_worker_by_now_is_not_told() -> None:
    gone = [claim(1), claim(2, policies='{"retry": {"max_attempts": 1}}')]
    settlements = [Settlement(gone[0], SUCCEEDED, 1), Settlement(gone[1], Outcome(Verdict.FAILED), 1)]
    assert told("all", settlements, Settling(*gone)) == []


def test_a_share_is_the_same_executions_everywhere_and_about_as_large_as_asked() -> None:
    settlements = [Settlement(claim(number), SUCCEEDED, 1) for number in range(1000)]
    first = told("all", settlements, Settling(), share=0.25)
    assert first == told("all", settlements, Settling(), share=0.25)
    assert 150 < len(first) < 350
    assert told("all", settlements, Settling(), share=0.0) == []


def test_a_storm_of_failures_is_cut_and_counted() -> None:
    log, failed = AttemptLog(successes=False), claim(1)
    with capture_logs() as lines:
        for _ in range(1500):
            log.finished(failed, State.QUEUED, "5xx", SECOND)
        log.finished(failed, State.QUEUED, "5xx", 2 * SECOND)
    assert len(lines) == 1001
    assert lines[-1]["unsaid"] == 500


def test_attempts_are_counted_by_kind_and_outcome_and_by_how_long_they_ran() -> None:
    telemetry = Telemetry()
    settlements = [
        *(Settlement(claim(number), SUCCEEDED, 1) for number in range(3)),
        Settlement(claim(4), Outcome(Verdict.FAILED, detail={"status": 503}), 4 * SECOND),
        Settlement(claim(5), Outcome(Verdict.CANCELLED), 1, postponed_to=9),
    ]
    told("off", settlements, Settling(), telemetry=telemetry)
    counted = {
        (sample.name, *sample.labels.values()): sample.value
        for family in telemetry.registry.collect()
        for sample in family.samples
    }
    assert counted["tocsin_attempts_total", "noop", "succeeded"] == 3
    assert counted["tocsin_attempts_total", "noop", "5xx"] == 1
    assert counted["tocsin_run_seconds_count", "a queue"] == 1  # tallies count what succeeded
    assert counted["tocsin_run_seconds_sum", "a queue"] == pytest.approx(2.999)
