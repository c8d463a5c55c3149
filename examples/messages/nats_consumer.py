"""Makes the stream `DUE` and prints each message.

    pip install nats-py
    python3 examples/messages/nats_consumer.py                      # NATS on 127.0.0.1:4222
    python3 examples/messages/nats_consumer.py 127.0.0.1:4322

JetStream drops a second message with the same id within the stream's duplicate window, two minutes here. A
retry after that is a second message: a consumer for which that matters compares `idempotency-key`.
"""

import asyncio
import sys

import nats


async def main(address: str) -> None:
    """Consume until interrupted."""
    client = await nats.connect(f"nats://{address}")
    stream = client.jetstream()
    await stream.add_stream(name="DUE", subjects=["due.>"])
    messages = await stream.subscribe("due.>", durable="readers")
    print("waiting for messages", flush=True)
    async for message in messages.messages:
        fields = message.headers or {}
        print(
            f"{fields['idempotency-key']} attempt={fields['tocsin-attempt']} {message.data.decode()}",
            flush=True,
        )
        await message.ack()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:4222"))
