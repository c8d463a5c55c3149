"""What follows from an outcome: an end that fits it, or another attempt that is not too soon."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import SECOND
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Finished, Outcome, TryAgain, Verdict, decide, fingerprint
from tocsin.domain.policy import Retry, backoff

NOW = 1_900_000_000 * SECOND
chances = st.floats(0, 1, exclude_max=True)
ENDS = {
    Verdict.SUCCEEDED: State.SUCCEEDED,
    Verdict.CANCELLED: State.CANCELLED,
    Verdict.REJECTED: State.DEAD,
    Verdict.SKIPPED: State.SKIPPED,
}
AGAIN = (Verdict.FAILED, Verdict.TIMED_OUT, Verdict.LOST)


@pytest.mark.parametrize("verdict", ENDS)
@given(made=st.integers(1, 100), chance=chances)
def test_some_verdicts_end_an_execution_whatever_the_policy_allows(
    verdict: Verdict, made: int, chance: float
) -> None:
    assert decide(Outcome(verdict), Retry(100), made, NOW, chance) == Finished(ENDS[verdict])


@pytest.mark.parametrize("verdict", AGAIN)
@given(most=st.integers(1, 100), made=st.integers(1, 120), chance=chances)
def test_a_failure_is_tried_again_until_the_attempts_are_used_up(
    verdict: Verdict, most: int, made: int, chance: float
) -> None:
    decision = decide(Outcome(verdict), Retry(most), made, NOW, chance)
    if made >= most:
        assert decision == Finished(State.DEAD)
    else:
        assert decision == TryAgain(NOW + backoff(Retry(most), made, chance))


@pytest.mark.parametrize("verdict", AGAIN)
@given(late=st.integers(0, 200), wait=st.integers(0, 100))
def test_no_retry_begins_later_than_the_policy_allows(verdict: Verdict, late: int, wait: int) -> None:
    retry = Retry(10, initial_backoff="1s", jitter=0, max_age="100s")
    outcome = Outcome(verdict, retry_after=wait * SECOND)
    decision = decide(outcome, retry, 1, NOW, 0, NOW - late * SECOND)
    at = NOW + max(1, wait) * SECOND
    assert decision == (TryAgain(at) if late + max(1, wait) <= 100 else Finished(State.DEAD))
    assert decide(outcome, retry, 1, NOW, 0) == TryAgain(at)


@given(st.integers(0, 3600 * SECOND), chances)
def test_a_target_that_asks_us_to_wait_is_not_called_sooner(asked: int, chance: float) -> None:
    decision = decide(Outcome(Verdict.FAILED, retry_after=asked), Retry(), 1, NOW, chance)
    assert isinstance(decision, TryAgain)
    assert decision.run_at >= NOW + asked


def test_every_verdict_leads_somewhere() -> None:
    assert {*ENDS, *AGAIN} == set(Verdict)


@given(st.integers(), st.integers())
def test_errors_that_differ_only_in_numbers_share_a_fingerprint(one: int, other: int) -> None:
    words = "connection to 10.0.0.{} refused after {} ms at 0x7f{:08x}"
    prints = {fingerprint(words.format(abs(n), abs(n) * 3, abs(n) % 2**32)) for n in (one, other)}
    assert len(prints) == 1


def test_errors_that_differ_in_words_do_not() -> None:
    assert fingerprint("connection refused") != fingerprint("connection reset")


@pytest.mark.parametrize(
    "words", ["the target answered {}", "no OAuth2 token from login.test: it answered {}"]
)
def test_errors_that_differ_in_the_status_of_the_answer_do_not(words: str) -> None:
    assert len({fingerprint(words.format(status)) for status in (401, 404, 410, 500, 503)}) == 5
