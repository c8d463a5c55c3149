"""Makes the queue `due` and prints each message once, however often Tocsin published it.

    pip install aiormq
    python3 examples/messages/rabbitmq_consumer.py                  # RabbitMQ on 127.0.0.1:5672
    python3 examples/messages/rabbitmq_consumer.py 127.0.0.1:5772

RabbitMQ keeps a second message with the same `message_id`: a retry whose first acknowledgement was lost. A
consumer compares the ids. Yours keeps them where its effects are, so that both are written together.
"""

import asyncio
import sys

import aiormq
from aiormq.abc import DeliveredMessage


async def main(address: str) -> None:
    """Consume until interrupted."""
    connection = await aiormq.connect(f"amqp://{address}/")
    channel = await connection.channel()
    await channel.queue_declare("due", durable=True)
    seen: set[str | None] = set()

    async def show(message: DeliveredMessage) -> None:
        properties = message.header.properties
        if properties.message_id not in seen:
            seen.add(properties.message_id)
            attempt = (properties.headers or {})["tocsin-attempt"]
            print(f"{properties.message_id} attempt={attempt} {message.body.decode()}", flush=True)
        await channel.basic_ack(message.delivery_tag or 0)

    await channel.basic_consume("due", show)
    print("waiting for messages", flush=True)
    await connection.closing


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:5672"))
