"""A small SQS: takes signed batches for standard and FIFO queues, and keeps what it took in a file.

It verifies signatures with code of its own, and shares none with Tocsin. Paths that begin with /_ are the
tests' own: make a queue, read what is there, say how the next requests are answered. Run as a program:
`sqs_server.py PORT DIRECTORY`.
"""

import asyncio
import hashlib
import hmac
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

KEY_ID = "AKIDEXAMPLE"
SECRET = "right"
REGION = "eu-central-1"
SESSION = "a-session"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
    r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_TOKEN = re.compile(r"[!-~]{1,128}")


def verify(
    method: str, target: str, headers: dict[str, str], body: bytes, secrets: dict[str, str]
) -> str | None:
    """What is wrong with a request's signature, as SQS calls it; None if nothing is."""
    found = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if found is None:
        return "IncompleteSignature"
    key_id, day, region, service, names, given = found.groups()
    if key_id not in secrets:
        return "InvalidClientTokenId"
    stamp = headers.get("x-amz-date", "")
    if not stamp.startswith(day) or not {"host", "x-amz-date"} <= set(names.split(";")):
        return "IncompleteSignature"
    path, _, query = target.partition("?")
    pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parse_qsl(query, True))
    text = f"{method}\n{quote(unquote(path), safe='/-_.~')}\n{'&'.join(f'{k}={v}' for k, v in pairs)}\n"
    for name in names.split(";"):
        value = re.sub(" +", " ", headers.get(name, "").strip())
        text += f"{name}:{value}\n"
    text += f"\n{names}\n{hashlib.sha256(body).hexdigest()}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    claim = f"AWS4-HMAC-SHA256\n{stamp}\n{day}/{region}/{service}/aws4_request\n{digest}"
    first = _mac(b"AWS4" + secrets[key_id].encode(), day)
    expected = _mac(_mac(_mac(_mac(first, region), service), "aws4_request"), claim).hex()
    return None if hmac.compare_digest(expected, given) else "SignatureDoesNotMatch"


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


class Queues:
    """What is kept: over a crash, too."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "messages"
        self._file.touch()
        self.names: set[str] = set()
        self.messages: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, str], str] = {}
        for line in self._file.read_text().splitlines():
            self._learn(json.loads(line))

    def write(self, record: dict[str, Any]) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._learn(record)

    def take(self, queue: str, entry: dict[str, Any]) -> dict[str, Any]:
        """The id of a message; of a duplicate that of the first."""
        fifo = queue.endswith(".fifo")
        known = self._numbers.get((queue, entry.get("MessageDeduplicationId")))
        if known is not None:
            return {"Id": entry["Id"], "MessageId": known, "SequenceNumber": known}
        number = str(len(self.messages) + 1)
        self.write(
            {"queue": queue, "id": number, "dedupe": entry.get("MessageDeduplicationId"), "entry": entry}
        )
        return {"Id": entry["Id"], "MessageId": number} | ({"SequenceNumber": number} if fifo else {})

    def _learn(self, record: dict[str, Any]) -> None:
        if "made" in record:
            self.names.add(record["made"])
        else:
            self.messages.append(record)
            if record["dedupe"]:
                self._numbers[record["queue"], record["dedupe"]] = record["id"]


class Sqs:
    """Answers requests."""

    def __init__(self, directory: Path) -> None:
        self._queues = Queues(directory)
        self._next: list[dict[str, Any]] = []
        self._asked: list[Any] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split(" ")
                headers: dict[str, str] = {}
                while (field := (await reader.readline()).decode().rstrip("\r\n")) != "":
                    name, _, value = field.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                answered = self._answer(method, target, headers, body)
                if answered is None:
                    break  # as a connection that is cut
                status, answer = answered
                data = json.dumps(answer).encode()
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any] | None:
        given = json.loads(body) if body else {}
        if target.startswith("/_"):
            return 200, self._control(target, given)
        if (wrong := verify(method, target, headers, body, {KEY_ID: SECRET})) is not None:
            return 403, {"__type": f"com.amazon.coral.service#{wrong}", "message": f"expected {SECRET}…"}
        if headers.get("x-amz-security-token", SESSION) != SESSION:
            return 403, {"__type": "com.amazon.coral.service#InvalidClientTokenId"}
        self._asked.append([target, headers.get("x-amz-target"), headers.get("x-amz-security-token"), given])
        action = headers.get("x-amz-target")
        if action == "AmazonSQS.ListQueues":
            return 200, {"QueueUrls": []}
        assert action == "AmazonSQS.SendMessageBatch", action
        how = self._next.pop(0) if self._next else {}
        if "status" in how:
            return how["status"], how["answer"]
        answer = self._batch(given)
        return None if how.get("cut") else answer

    def _control(self, target: str, given: Any) -> Any:
        if target == "/_queue":
            self._queues.write({"made": given})
        elif target == "/_next":
            self._next.append(given)
        elif target == "/_asked":
            return self._asked
        return self._queues.messages

    def _batch(self, given: Any) -> tuple[int, Any]:
        queue, entries = given["QueueUrl"].rpartition("/")[2], given["Entries"]
        if queue not in self._queues.names:
            words = "The specified queue does not exist."
            return 400, {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": words}
        assert 1 <= len(entries) <= 10
        assert all(_ID.fullmatch(entry["Id"]) for entry in entries)
        assert len({entry["Id"] for entry in entries}) == len(entries)
        if sum(len(entry["MessageBody"].encode()) for entry in entries) > 262_144:
            return 400, {"__type": "com.amazonaws.sqs#BatchRequestTooLong"}
        answer: dict[str, list[Any]] = {"Successful": [], "Failed": []}
        for entry in entries:
            code = self._fault(queue, entry)
            if code is None:
                answer["Successful"].append(self._queues.take(queue, entry))
            else:
                fault = {
                    "Id": entry["Id"],
                    "Code": code,
                    "Message": "no",
                    "SenderFault": code != "InternalError",
                }
                answer["Failed"].append(fault)
        return 200, answer

    def _fault(self, queue: str, entry: dict[str, Any]) -> str | None:
        attributes = entry["MessageAttributes"]
        assert 1 <= len(attributes) <= 10
        assert all(one["DataType"] == "String" and one["StringValue"] for one in attributes.values())
        if not entry["MessageBody"] or len(entry["MessageBody"]) > 262_144:
            return "InvalidParameterValue"
        if queue.endswith(".fifo"):
            for field in ("MessageGroupId", "MessageDeduplicationId"):
                if not _TOKEN.fullmatch(entry.get(field, "")):
                    return "MissingParameter"
        elif "MessageDeduplicationId" in entry:
            return "InvalidParameterValue"
        return {"poison": "InvalidMessageContents", "unlucky": "InternalError"}.get(entry["MessageBody"])


async def main(port: int, directory: Path) -> None:
    """Serve until killed."""
    server = await asyncio.start_server(Sqs(directory).serve, "127.0.0.1", port, limit=1 << 20)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
