"""Makes the queue `due.fifo` and prints each message. Standard library only.

    python3 examples/messages/sqs_consumer.py                       # ElasticMQ on 127.0.0.1:9324
    python3 examples/messages/sqs_consumer.py 127.0.0.1:9424

It asks without a signature, which ElasticMQ takes and SQS does not: with SQS, use the client that you have
(`boto3` for Python). A FIFO queue drops a second message with the same id for five minutes. A consumer of a
standard queue compares `idempotency-key`.
"""

import json
import sys
import urllib.request
from typing import Any


def ask(address: str, action: str, **body: Any) -> Any:
    """One action of the protocol."""
    headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"AmazonSQS.{action}"}
    request = urllib.request.Request(f"http://{address}/", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")


def main(address: str) -> None:
    """Consume until interrupted."""
    queue = ask(address, "CreateQueue", QueueName="due.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    print("waiting for messages", flush=True)
    while True:
        answer = ask(
            address, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=5, MessageAttributeNames=["All"]
        )
        for message in answer.get("Messages", ()):
            fields = {name: one["StringValue"] for name, one in message["MessageAttributes"].items()}
            print(
                f"{fields['idempotency-key']} attempt={fields['tocsin-attempt']} {message['Body']}",
                flush=True,
            )
            ask(address, "DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9324")
