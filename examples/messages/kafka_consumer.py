"""Makes the topic `due` and prints each message once, however often Tocsin published it.

    pip install aiokafka
    python3 examples/messages/kafka_consumer.py                     # Kafka on 127.0.0.1:9092
    python3 examples/messages/kafka_consumer.py 127.0.0.1:9192

Kafka keeps a second message with the same `idempotency-key`: a retry whose first acknowledgement was lost.
A consumer compares the keys. Yours keeps them where its effects are, so that both are written together.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError


async def main(address: str) -> None:
    """Consume until interrupted."""
    await make_topic(address)
    consumer = AIOKafkaConsumer(
        "due", bootstrap_servers=address, group_id="readers", auto_offset_reset="earliest"
    )
    await consumer.start()
    print("waiting for messages", flush=True)
    seen: set[str] = set()
    try:
        async for message in consumer:
            fields = {name: value.decode() for name, value in message.headers}
            key = fields["idempotency-key"]
            if key not in seen:
                seen.add(key)
                print(f"{key} attempt={fields['tocsin-attempt']} {message.value.decode()}", flush=True)
    finally:
        await consumer.stop()


async def make_topic(address: str) -> None:
    """Make it unless it is there."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic("due", num_partitions=3, replication_factor=1)])
    except TopicAlreadyExistsError:
        pass
    finally:
        await admin.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
