"""Messages to a stand-in for SQS that verifies every signature: batches, their parts, and lost answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.engines import sqs_server
from tests.engines.attempts import Attempts
from tests.engines.brokers import PASSWORD, SqsKind
from tests.engines.servers import FakeSqs
from tocsin.domain.message_target import SqsTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import NETWORK
from tocsin.domain.secrets import SecretRef
from tocsin.targets.message.trying import Brokers

KIND = SqsKind()
DUE = "https://nowhere.invalid/1/due"


@pytest.fixture
def server() -> Iterator[FakeSqs]:
    running = FakeSqs()
    running.ask("/_queue", "due")
    running.ask("/_queue", "due.fifo")
    yield running
    running.stop()


def standard(body: Any) -> SqsTarget:
    return SqsTarget(connection="bus", queue_url=DUE, body=body)


def run(server: FakeSqs, story: Callable[[Attempts], Awaitable[Any]], **more: Any) -> Any:
    async def scenario() -> Any:
        attempts = KIND.attempts(server, **more)
        try:
            return await story(attempts)
        finally:
            await attempts.caller.close()

    return asyncio.run(scenario())


def calls(*targets: SqsTarget) -> Callable[[Attempts], Awaitable[list[Outcome]]]:
    async def story(attempts: Attempts) -> list[Any]:
        return await asyncio.gather(*(attempts.call(one, number) for number, one in enumerate(targets, 1)))

    return story


def batches(server: FakeSqs) -> list[Any]:
    return [one for one in server.ask("/_asked") if one[1].endswith("SendMessageBatch")]


def test_each_message_of_a_batch_has_an_outcome_of_its_own(server: FakeSqs) -> None:
    good, bad, unlucky, last = run(server, calls(*map(standard, ("good", "poison", "unlucky", "last"))))
    assert [one.verdict for one in (good, bad, unlucky, last)] == [
        Verdict.SUCCEEDED,
        Verdict.REJECTED,
        Verdict.FAILED,
        Verdict.SUCCEEDED,
    ]
    assert bad.error == "the broker refused the message: InvalidMessageContents: no"
    assert unlucky.error == "the broker is busy: InternalError: no"
    assert good.detail == {"message_id": "1"}
    (batch,) = batches(server)
    assert batch[3]["QueueUrl"] == DUE
    assert "MessageDeduplicationId" not in batch[3]["Entries"][0]


def test_a_batch_has_ten_messages_at_most_and_no_more_bytes_than_a_queue_takes(server: FakeSqs) -> None:
    large = [standard("x" * 100_000) for _ in range(5)]
    outcomes = run(server, calls(*map(standard, range(25)), *large))
    assert {one.verdict for one in outcomes} == {Verdict.SUCCEEDED}
    sizes = sorted(len(batch[3]["Entries"]) for batch in batches(server))
    assert sum(sizes) == 30
    assert max(sizes) <= 10
    assert len(sizes) <= 7, "messages that are due together leave together"


def test_a_throttled_queue_and_a_missing_one_end_differently(server: FakeSqs) -> None:
    answer = {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow down"}
    server.ask("/_next", {"status": 400, "answer": answer})

    async def story(attempts: Attempts) -> list[Any]:
        absent = SqsTarget(connection="bus", queue_url=f"{DUE}-nowhere", body="x")
        return [await attempts.call(standard("x")), await attempts.call(absent, 2)]

    throttled, missing = run(server, story)
    assert (throttled.verdict, throttled.error) == (
        Verdict.FAILED,
        "the broker is busy: RequestThrottled: slow down",
    )
    assert missing.verdict is Verdict.REJECTED
    assert "QueueDoesNotExist" in missing.error


@pytest.mark.parametrize("fifo", [True, False], ids=["a fifo queue", "a standard queue"])
def test_after_a_lost_answer_the_retry_has_the_same_identity_which_a_fifo_queue_drops(
    server: FakeSqs, fifo: bool
) -> None:
    server.ask("/_next", {"cut": True})
    target = KIND.target("x") if fifo else standard("x")

    async def story(attempts: Attempts) -> list[Any]:
        return [await attempts.call(target), await attempts.call(target, attempt=2)]  # type: ignore[arg-type]

    lost, taken = run(server, story)
    assert (lost.verdict, lost.failure) == (Verdict.FAILED, NETWORK)
    assert taken.verdict is Verdict.SUCCEEDED
    messages = server.ask("/_messages")
    assert len(messages) == (1 if fifo else 2)
    keys = {one["entry"]["MessageAttributes"]["idempotency-key"]["StringValue"] for one in messages}
    assert len(keys) == 1
    if fifo:
        assert messages[0]["dedupe"] in keys


def test_a_session_is_known_by_its_token(server: FakeSqs) -> None:
    def try_out(token: str) -> Any:
        async def story(attempts: Attempts) -> Any:
            brokers = Brokers({"sqs": attempts.opening})
            tried = await brokers.try_out(1, attempts.book.known.connection)
            outcome = await attempts.call(standard("x"))
            return tried.error, outcome

        return run(server, story, token=SecretRef("session"), secrets={"session": token})

    error, outcome = try_out(sqs_server.SESSION)
    assert (error, outcome.verdict) == (None, Verdict.SUCCEEDED)
    error, outcome = try_out("another")
    assert error == "the broker did not let us in: InvalidClientTokenId"
    assert outcome.verdict is Verdict.REJECTED


def test_a_wrong_key_is_told_without_what_the_server_says_of_it(server: FakeSqs) -> None:
    (outcome,) = run(
        server, calls(standard("x")), password=PASSWORD, secrets={PASSWORD.secret: "not the right one"}
    )
    assert (outcome.verdict, outcome.error) == (
        Verdict.REJECTED,
        "the broker did not let us in: SignatureDoesNotMatch",
    )
