"""Messages as Kafka stores them: which partition takes one, and batches of them in bytes.

Every batch carries the producer's number and the sequence number of its first message. A leader that was sent
a batch twice writes it once.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec
from aiokafka.partitioner import murmur2
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tocsin.domain.message_target import KafkaTarget
from tocsin.targets.message.message import Message, Parcel

BATCH_BYTES: Final = 900 * 1024
"""A topic takes a MiB unless it says otherwise, and no message of ours is larger than this."""
_FORMAT: Final = 2
_SEQUENCES: Final = 2**31


class Producer(msgspec.Struct, frozen=True):
    """The number that a cluster gave us."""

    number: int
    epoch: int


def partition_of(key: str, count: int) -> int:
    """The partition that takes messages with a key: the one that the Java client chooses."""
    return int((murmur2(key.encode()) & 0x7FFFFFFF) % count)


def encoded(
    parcels: Sequence[Parcel], producer: Producer, sequence: int, timestamp_ms: int
) -> tuple[int, bytes]:
    """One batch, and how many of the parcels are in it: all, or as many as there is room for."""
    batch = DefaultRecordBatchBuilder(
        magic=_FORMAT,
        compression_type=0,
        is_transactional=0,
        producer_id=producer.number,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        batch_size=BATCH_BYTES,
    )
    taken = 0
    for number, parcel in enumerate(parcels):
        message = parcel.message
        target = cast("KafkaTarget", message.target)
        key = None if target.key is None else target.key.encode()
        value = None if target.body is None else message.body
        if batch.append(number, timestamp_ms, key, value, _headers(message, target)) is None:
            break
        taken += 1
    return taken, bytes(batch.build())


def sequence_after(sequence: int, count: int) -> int:
    """The number of the next message of a partition."""
    return (sequence + count) % _SEQUENCES


def _headers(message: Message, target: KafkaTarget) -> list[tuple[str, bytes]]:
    return [(name, value.encode()) for name, value in (target.headers | dict(message.headers)).items()]
