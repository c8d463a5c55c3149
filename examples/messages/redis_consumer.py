"""Makes the group `readers` of the stream `due` and prints each entry once, however often Tocsin added it.

    pip install redis
    python3 examples/messages/redis_consumer.py                     # Redis on 127.0.0.1:6379
    python3 examples/messages/redis_consumer.py 127.0.0.1:6479

Redis keeps a second entry with the same `idempotency-key`: a retry whose first acknowledgement was lost. A
consumer compares the keys. Yours keeps them where its effects are, so that both are written together.
"""

import contextlib
import sys

import redis


def main(address: str) -> None:
    """Consume until interrupted."""
    host, port = address.rsplit(":", 1)
    client = redis.Redis(host, int(port), decode_responses=True)
    with contextlib.suppress(redis.ResponseError):  # it is there
        client.xgroup_create("due", "readers", id="0", mkstream=True)
    print("waiting for messages", flush=True)
    seen: set[str] = set()
    while True:
        for _, entries in client.xreadgroup("readers", "one", {"due": ">"}, count=10, block=1000):
            for number, fields in entries:
                key = fields["idempotency-key"]
                if key not in seen:
                    seen.add(key)
                    print(f"{key} attempt={fields['tocsin-attempt']} {fields['body']}", flush=True)
                client.xack("due", "readers", number)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:6379")
