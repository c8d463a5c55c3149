"""What becomes of a batch by what Kafka answers: sent again under the same numbers, or given up with them."""

import asyncio
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from tests.engines.attempts import Attempts
from tests.engines.brokers import KafkaKind
from tests.engines.fake_kafka import FakeKafka
from tocsin.domain.connection import Connection
from tocsin.domain.outcome import Verdict

KIND = KafkaKind()


def sent(kafka: FakeKafka, count: int = 1) -> list[Any]:
    """How attempts ended that were made one after another."""

    async def scenario() -> list[Any]:
        async with kafka:
            attempts = Attempts(KIND.make, Connection("kafka", (f"127.0.0.1:{kafka.port}",)))
            outcomes = [await attempts.call(KIND.target("x"), number) for number in range(1, count + 1)]
            await attempts.caller.close()
            return outcomes

    return asyncio.run(scenario())


def numbers(kafka: FakeKafka) -> list[tuple[int, int]]:
    """The producer and the first sequence number of every batch."""
    found = [DefaultRecordBatch(batch) for batch in kafka.batches]
    return [(batch.producer_id, batch.base_sequence) for batch in found]


@pytest.mark.parametrize("code", [None, 6, 20], ids=["hangs up", "leader moved", "replicas behind"])
def test_a_batch_is_sent_again_as_it_was_until_its_leader_has_it(code: int | None) -> None:
    kafka = FakeKafka(codes=[code, code])
    first, second = sent(kafka, 2)
    assert (first.verdict, second.verdict) == (Verdict.SUCCEEDED, Verdict.SUCCEEDED)
    assert first.detail == {"topic": "due", "partition": 0, "offset": 5}
    assert kafka.batches[0] == kafka.batches[1] == kafka.batches[2]
    assert numbers(kafka) == [(1001, 0), (1001, 0), (1001, 0), (1001, 1)]


def test_a_batch_that_had_been_written_before_is_a_success() -> None:
    (outcome,) = sent(FakeKafka(codes=[None, 46]))
    assert outcome.verdict is Verdict.SUCCEEDED


@pytest.mark.parametrize(
    ("code", "verdict", "words"),
    [
        (19, Verdict.FAILED, "the broker is busy: fewer replicas are in sync than the topic asks for"),
        (89, Verdict.FAILED, "the broker is busy: a quota is used up"),
        (10, Verdict.REJECTED, "the broker refused the message: it is larger than the topic takes"),
        (29, Verdict.REJECTED, "the broker refused the message: not allowed to write to this topic"),
        (998, Verdict.REJECTED, "the broker refused the message: error 998"),
    ],
)
def test_what_was_not_written_gives_its_number_to_the_next(code: int, verdict: Verdict, words: str) -> None:
    kafka = FakeKafka(codes=[code])
    first, second = sent(kafka, 2)
    assert (first.verdict, first.error) == (verdict, words)
    assert second.verdict is Verdict.SUCCEEDED
    assert numbers(kafka) == [(1001, 0), (1001, 0)]


def test_a_producer_that_the_cluster_forgot_is_replaced() -> None:
    kafka = FakeKafka(codes=[45])
    first, second = sent(kafka, 2)
    assert (first.verdict, second.verdict) == (Verdict.FAILED, Verdict.SUCCEEDED)
    assert numbers(kafka) == [(1001, 0), (1002, 0)]
