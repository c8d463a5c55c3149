"""Kafka: a message counts as published when every replica in sync has it (`acks=all`).

We are an idempotent producer. Every batch of a partition has numbers, so a batch whose answer was lost, or
whose leader moved, is sent again and written once. One batch of a partition is under way at a time: the
numbers of one that was not written go to the next. Once it is unknown whether a batch was written its numbers
must not be used again, and this producer ends; the next one gets a number of its own.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence
from typing import Final, cast

import msgspec
from aiokafka.errors import KafkaError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from tocsin.clock import Clock
from tocsin.domain.instant import MILLISECOND
from tocsin.domain.message_target import KafkaTarget
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.targets.kafka.cluster import Cluster, Topic
from tocsin.targets.kafka.outcome import NO_LEADER, Meaning, meaning_of, words_of
from tocsin.targets.kafka.records import Producer, encoded, partition_of, sequence_after
from tocsin.targets.message.broker import Access, NotOpened
from tocsin.targets.message.message import Parcel, away, busy, lost, rejected

_ALL_IN_SYNC: Final = -1
_REPLICAS_MS: Final = 10_000
"""For how long a leader waits for its replicas before it says that it did not hear from them."""
_NO_TRANSACTION_MS: Final = 2**31 - 1
_NUMBER_TRIES: Final = 20
_NUMBER_PAUSE: Final = 0.1
"""A node gives out numbers from a block, and says that it is busy while it fetches another."""
_PATIENCE_SECONDS: Final = dict.fromkeys(Meaning, 0.0) | {Meaning.UNSURE: 12.0, Meaning.MOVED: 3.0}
"""For how long a batch is sent again here, before the job's own retries are left to do it. Those write a
second one where it is unknown what became of the first. A cluster without a node has new leaders by then."""
_PARTITIONS: Final = 10_000
"""For how many partitions a producer counts its messages."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_GIVEN_UP: Final = "the connection was given up after a batch without an answer"


class _Partition:
    """A partition, and the number of the next message to it."""

    __slots__ = ("lock", "number", "producer", "sequence", "topic")

    def __init__(self, topic: str, number: int, producer: Producer) -> None:
        self.topic = topic
        self.number = number
        self.producer = producer
        self.sequence = 0
        self.lock = asyncio.Lock()


class _Answer(msgspec.Struct, frozen=True):
    """What came of sending a batch once."""

    meaning: Meaning
    outcome: Outcome | Postponed | None = None
    """Of every message, unless it was written."""
    offset: int = -1


class KafkaBroker:
    """One producer for one cluster."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._cluster = Cluster(access)
        self._clock = clock
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._producer = Producer(-1, -1)
        self._renewing = asyncio.Lock()
        self.lost = False

    async def open(self) -> None:
        """Connect to the first node that answers, and be given a number."""
        # The client tells of every lost connection; the attempts tell what it meant.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._producer = await self._new_producer()

    async def _new_producer(self) -> Producer:
        """A number from the cluster. Raises NotOpened."""
        for _ in range(_NUMBER_TRIES):
            answer = await self._cluster.ask(InitProducerIdRequest(None, _NO_TRANSACTION_MS))
            meaning = meaning_of(answer.error_code)
            if meaning is Meaning.WRITTEN:
                return Producer(answer.producer_id, answer.producer_epoch)
            if meaning is Meaning.REFUSED:
                words = f"the broker did not let us in: {words_of(answer.error_code)}"
                raise NotOpened(Outcome(Verdict.REJECTED, words))
            await asyncio.sleep(_NUMBER_PAUSE)
        raise NotOpened(away("the broker is starting"))

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """Send them to the partitions that they belong to."""
        topics: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            topics.setdefault(cast("KafkaTarget", parcel.message.target).topic, []).append(parcel)
        await asyncio.gather(*(self._publish_to(name, some) for name, some in topics.items()))

    async def close(self) -> None:
        """Leave every node."""
        self.lost = True
        await self._cluster.close()

    async def _publish_to(self, name: str, parcels: list[Parcel]) -> None:
        try:
            topic = await self._cluster.topic(name)
            await self._renew()
        except NotOpened as error:
            _end(parcels, error.outcome)
            return
        by_partition = _by_partition(topic, parcels)
        await asyncio.gather(
            *(self._send(self._partition(name, number), some) for number, some in by_partition.items())
        )

    async def _renew(self) -> None:
        """Go on under a new number once there are many partitions. Those under way keep theirs: a number
        whose count was forgotten must not be used again."""
        async with self._renewing:
            if len(self._partitions) >= _PARTITIONS:
                self._producer = await self._new_producer()
                self._partitions = {}

    def _partition(self, topic: str, number: int) -> _Partition:
        known = self._partitions.get((topic, number))
        if known is None:
            known = self._partitions[topic, number] = _Partition(topic, number, self._producer)
        return known

    async def _send(self, partition: _Partition, parcels: list[Parcel]) -> None:
        """As many batches as it takes. A batch that is refused because of one message is halved until that
        message is alone."""
        async with partition.lock:
            waiting = [parcels]
            while waiting:
                left = [parcel for parcel in waiting.pop() if not parcel.ended.done()]
                if not left:
                    continue
                if self.lost:
                    _end(left, away(_GIVEN_UP))
                    continue
                now = self._clock.now() // MILLISECOND
                count, records = encoded(left, partition.producer, partition.sequence, now)
                if count < len(left):
                    waiting.append(left[count:])
                batch = left[:count]
                answer = await self._settle(partition, records, batch)
                if answer.meaning is Meaning.WRITTEN:
                    partition.sequence = sequence_after(partition.sequence, count)
                    _end_written(partition, batch, answer.offset)
                elif answer.meaning is Meaning.OF_ONE and count > 1:
                    waiting += [batch[count // 2 :], batch[: count // 2]]
                else:
                    _end(batch, answer.outcome or lost())

    async def _settle(self, partition: _Partition, records: bytes, parcels: Sequence[Parcel]) -> _Answer:
        """Send one batch until it is known what became of it, or waiting is no use any more."""
        began = asyncio.get_running_loop().time()
        pause = _FIRST_PAUSE
        unsure, known = False, False
        try:
            while True:
                answer = await self._once(partition, records)
                unsure = answer.meaning is not Meaning.WRITTEN and (
                    unsure or answer.meaning is Meaning.UNSURE
                )
                patience = _PATIENCE_SECONDS[Meaning.UNSURE if unsure else answer.meaning]
                if asyncio.get_running_loop().time() - began >= patience or self._is_left(parcels):
                    known = not unsure and answer.meaning is not Meaning.FORGOTTEN
                    return _Answer(Meaning.UNSURE, lost()) if unsure else answer
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                with contextlib.suppress(NotOpened):
                    await self._cluster.look_again(partition.topic)
        finally:
            if not known:  # its numbers may be taken, and another batch under them would pass for this one
                self.lost = True

    async def _once(self, partition: _Partition, records: bytes) -> _Answer:
        """Send a batch to the partition's leader, and what that says."""
        try:
            node = await self._cluster.leader(partition.topic, partition.number)
        except NotOpened as error:
            refused = isinstance(error.outcome, Outcome) and error.outcome.verdict is Verdict.REJECTED
            return _Answer(Meaning.REFUSED if refused else Meaning.MOVED, error.outcome)
        if node is None:
            return _Answer(Meaning.MOVED, busy(words_of(NO_LEADER)))
        topics = [(partition.topic, [(partition.number, records)])]
        try:
            answer = await node.ask(ProduceRequest(None, _ALL_IN_SYNC, _REPLICAS_MS, topics))
            ((_, ((_, code, offset, *_),)),) = answer.topics
        except (KafkaError, ValueError, TypeError):
            return _Answer(Meaning.UNSURE, lost())
        meaning = meaning_of(code)
        if meaning in (Meaning.OF_ONE, Meaning.REFUSED):
            return _Answer(meaning, rejected(words_of(code)))
        return _Answer(meaning, busy(words_of(code)), offset)

    def _is_left(self, parcels: Sequence[Parcel]) -> bool:
        """Whether no caller waits for them any more, or we are leaving."""
        return self._cluster.closed or all(parcel.ended.done() for parcel in parcels)


def _by_partition(topic: Topic, parcels: Sequence[Parcel]) -> dict[int, list[Parcel]]:
    """A key has its partition. Messages without a key go together to one that has a leader."""
    led = [number for number, leader in topic.leaders.items() if leader >= 0]
    anywhere = random.choice(led or list(topic.leaders))
    found: dict[int, list[Parcel]] = {}
    for parcel in parcels:
        key = cast("KafkaTarget", parcel.message.target).key
        number = anywhere if key is None else partition_of(key, len(topic.leaders))
        found.setdefault(number, []).append(parcel)
    return found


def _end(parcels: Sequence[Parcel], outcome: Outcome | Postponed) -> None:
    for parcel in parcels:
        parcel.end(outcome)


def _end_written(partition: _Partition, parcels: Sequence[Parcel], first: int) -> None:
    for offset, parcel in enumerate(parcels, first):
        detail = {"topic": partition.topic, "partition": partition.number}
        parcel.end(Outcome(Verdict.SUCCEEDED, detail=detail if first < 0 else detail | {"offset": offset}))
