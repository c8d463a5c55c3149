"""Kafka without a server: which partition takes a key, what a batch holds, and what codes mean."""

import asyncio

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from tocsin.domain.message_target import KafkaTarget
from tocsin.targets.kafka.outcome import Meaning, meaning_of, words_of
from tocsin.targets.kafka.records import BATCH_BYTES, Producer, encoded, partition_of, sequence_after
from tocsin.targets.message.message import Message, Parcel


@pytest.mark.parametrize(
    ("key", "partition"), [("21", 1), ("foobar", 9), ("a-little-bit-long-string", 5), ("abc", 7)]
)
def test_a_key_goes_where_the_java_client_sends_it(key: str, partition: int) -> None:
    # murmur2 of these keys, as the tests of the Java client have it, modulo 11 of the positive part.
    murmur2 = {
        "21": -973932308,
        "foobar": -790332482,
        "a-little-bit-long-string": -985981536,
        "abc": 479470107,
    }
    assert (murmur2[key] & 0x7FFFFFFF) % 11 == partition_of(key, 11)


def test_a_batch_has_the_producers_numbers_and_as_many_messages_as_fit() -> None:
    async def scenario() -> None:
        body = b"x" * 200_000
        target = KafkaTarget(connection="bus", topic="due", key="k", headers={"a": "b"}, body="x")
        parcels = [Parcel(Message(target, "id", {"tocsin-attempt": "1"}, body), 0.0) for _ in range(9)]
        count, records = encoded(parcels, Producer(4711, 3), 77, 1_800_000_000_000)
        assert count == BATCH_BYTES // len(body)
        batch = DefaultRecordBatch(records)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, 77)
        found = list(batch)
        assert len(found) == count
        assert (found[0].key, found[0].value, found[0].timestamp) == (b"k", body, 1_800_000_000_000)
        assert found[0].headers == [("a", b"b"), ("tocsin-attempt", b"1")]

    asyncio.run(scenario())


def test_numbers_begin_again_after_the_last() -> None:
    assert sequence_after(2**31 - 2, 5) == 3


def test_a_code_says_whether_the_batch_is_sent_again() -> None:
    assert {code: meaning_of(code) for code in (0, 6, 19, 20, 45, 10, 29, 999)} == {
        0: Meaning.WRITTEN,
        6: Meaning.MOVED,
        19: Meaning.BUSY,
        20: Meaning.UNSURE,
        45: Meaning.FORGOTTEN,
        10: Meaning.OF_ONE,
        29: Meaning.REFUSED,
        999: Meaning.REFUSED,
    }
    assert words_of(29) == "not allowed to write to this topic"
    assert words_of(999) == "error 999"
