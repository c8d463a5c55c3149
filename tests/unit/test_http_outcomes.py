"""Answers become outcomes, and outcomes become retries or ends: by the statuses the target expects and the
job's policy."""

from typing import Any

import msgspec
import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Finished, Outcome, TryAgain, Verdict, decide, judged
from tocsin.domain.policy import Policies, Retry, check_policies
from tocsin.domain.secrets import Redactor
from tocsin.domain.target import HttpTarget, check_target
from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind
from tocsin.targets.http.outcome import outcome_of_answer, outcome_of_failure

URL = "https://example.com/"
NOTHING = Redactor(())


def _answered(status: int, target: HttpTarget | None = None, *, secret: str = "", **answer: Any) -> Outcome:
    fields = {"headers": (), "body": b"", "body_bytes_read": 0, "truncated": False} | answer
    redactor = Redactor([secret] if secret else ())
    return outcome_of_answer(target or HttpTarget(URL), Answer(status, **fields), 0, redactor)


def _follows(outcome: Outcome, **retry: Any) -> str:
    """What follows from an outcome under a policy: again, or the state in which the execution ends."""
    policy = Retry(**retry)
    match decide(judged(outcome, policy), policy, 1, 0, 0.5):
        case TryAgain():
            return "again"
        case Finished(state):
            return state


@pytest.mark.parametrize(
    ("status", "follows"),
    [(200, "succeeded"), (204, "succeeded"), (299, "succeeded"), (302, "dead"), (400, "dead"), (404, "dead"), (408, "again"),
     (410, "dead"), (425, "again"), (429, "again"), (500, "again"), (503, "again"), (599, "again")],
)  # fmt: skip
def test_what_follows_from_a_status_by_default(status: int, follows: str) -> None:
    assert _follows(_answered(status)) == follows


@pytest.mark.parametrize(
    ("expect", "good", "bad"),
    [((204,), [204], [200, 500]), (("204", "3xx"), [204, 302], [200]), (("2xx", 404), [200, 404], [400]), (("5xx",), [503], [200])],
)  # fmt: skip
def test_a_target_may_expect_other_statuses(
    expect: tuple[int | str, ...], good: list[int], bad: list[int]
) -> None:
    target = HttpTarget(URL, expect=expect)
    check_target(target)
    assert {_answered(status, target).verdict for status in good} == {Verdict.SUCCEEDED}
    assert Verdict.SUCCEEDED not in {_answered(status, target).verdict for status in bad}


@pytest.mark.parametrize(
    "expect", [(), ("2x",), (99,), (600,), ("200-299",), ("network",), ("",), tuple(range(200, 240))]
)
def test_an_expectation_that_names_no_status_is_refused(expect: tuple[int | str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        check_target(HttpTarget(URL, expect=expect))
    assert refused.value.field == "target.expect"


def test_retry_on_says_which_failures_are_tried_again() -> None:
    assert _follows(_answered(404), on=(404,)) == "again"
    assert _follows(_answered(404), on=("4xx",)) == "again"
    assert _follows(_answered(503), on=("network", 429)) == "dead"
    assert _follows(_answered(200, HttpTarget(URL, expect=(204,))), on=("2xx",)) == "again"
    for kind in (
        FailureKind.DNS,
        FailureKind.CONNECT,
        FailureKind.TLS,
        FailureKind.PROTOCOL,
        FailureKind.CLOSED,
    ):
        failed = outcome_of_failure(DeliveryFailed(kind, "x"), NOTHING)
        assert (_follows(failed), _follows(failed, on=("5xx",))) == ("again", "dead")
    late = outcome_of_failure(DeliveryFailed(FailureKind.TIMEOUT, "x"), NOTHING)
    assert (_follows(late), _follows(late, on=("network",))) == ("again", "dead")
    # The runner's own deadline is no different from the client's.
    assert _follows(Outcome(Verdict.TIMED_OUT), on=("network",)) == "dead"


def test_retry_on_changes_nothing_for_what_is_not_the_targets_doing() -> None:
    refused = outcome_of_failure(DeliveryFailed(FailureKind.REFUSED_ADDRESS, "x"), NOTHING)
    assert _follows(refused, on=("network", "timeout", "5xx")) == "dead"
    assert _follows(Outcome(Verdict.LOST), on=()) == "again"
    assert _follows(Outcome(Verdict.FAILED, error="internal error"), on=()) == "again"


def test_the_verdict_kept_with_the_attempt_is_the_policys() -> None:
    assert judged(_answered(404), Retry(on=(404,))).verdict is Verdict.FAILED
    assert judged(_answered(503), Retry(on=())).verdict is Verdict.REJECTED
    assert judged(_answered(200), Retry(on=())).verdict is Verdict.SUCCEEDED


@pytest.mark.parametrize("on", [("dns",), ("2x",), (700,), ("",), tuple(range(400, 440))])
def test_a_policy_that_names_no_failure_is_refused(on: tuple[int | str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        check_policies(Policies(Retry(on=on)))
    assert refused.value.field == "retry.on"


def test_policies_stored_before_there_was_a_choice_mean_the_default() -> None:
    stored = msgspec.json.decode(b'{"retry": {"max_attempts": 3}}', type=Policies)
    assert stored.retry.on == ("network", "timeout", "5xx", 408, 425, 429)
    assert b"on" not in msgspec.json.encode(stored.retry)


def test_only_410_says_gone_and_only_when_it_is_not_expected() -> None:
    assert [status for status in range(200, 600) if _answered(status).gone] == [410]
    assert not _answered(410, HttpTarget(URL, expect=(410,))).gone


def test_retry_after_is_honoured_for_every_failure() -> None:
    headers = (("retry-after", "7"),)
    assert _answered(503, headers=headers).retry_after == 7 * SECOND
    assert _answered(404, headers=headers).retry_after == 7 * SECOND
    assert _answered(200, headers=headers).retry_after is None


def test_an_answer_that_echoes_a_secret_is_kept_without_it() -> None:
    outcome = _answered(
        500, secret="canary-value", headers=(("x-echo", "Bearer canary-value"), ("canary-value", "1")), body=b'{"k":"canary-value"}'
    )  # fmt: skip
    text = msgspec.json.encode(outcome).decode()
    assert "canary" not in text
    assert outcome.detail is not None
    assert outcome.detail["headers"]["x-echo"] == "Bearer ***"
    failed = outcome_of_failure(
        DeliveryFailed(FailureKind.TLS, "said canary-value"), Redactor(["canary-value"])
    )
    assert failed.error == "tls: said ***"


def test_states_are_those_of_the_lifecycle() -> None:
    assert _follows(_answered(404)) == State.DEAD
