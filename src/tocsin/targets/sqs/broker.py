"""SQS: a message counts as published when the queue's answer names it among those that succeeded.

There is no connection to keep: each batch of up to ten messages to one queue is a signed request over our own
HTTP client, which resolves, checks and connects as it does for webhooks. Requests go to the connection's own
addresses. The URL of a queue is its name and nothing more: it is never called, so a target cannot send the
credentials elsewhere.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl, parse_target_url
from tocsin.domain.connection import places
from tocsin.domain.message_target import SqsTarget, is_fifo
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.http.client import HttpClient
from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind, OutgoingRequest
from tocsin.targets.message.broker import Access, NotOpened
from tocsin.targets.message.message import Message, Parcel, away
from tocsin.targets.message.opening import OPEN_SECONDS
from tocsin.targets.sqs.outcome import BatchAnswer, Trouble, of_failed, of_taken, trouble_of
from tocsin.targets.sqs.signing import Credentials, signed

_ENTRIES: Final = 10
_BATCH_BYTES: Final = 256 * 1024
"""What every queue takes in one request."""
_LEFT_OUT: Final = frozenset({"tocsin-job", "tocsin-lag-ms"})
"""A message has at most ten attributes, and users need some: the job is in the execution's name."""
_NEVER_LEFT: Final = frozenset({FailureKind.DNS, FailureKind.CONNECT, FailureKind.TLS})
_ALLOWED_LESS: Final = ("AccessDenied", "AccessDeniedException")
"""We are known and may not list queues: enough to publish, perhaps."""


class SqsBroker:
    """An SQS endpoint and our credentials for it."""

    def __init__(self, access: Access, client: HttpClient, clock: Clock) -> None:
        self._access = access
        self._client = client
        self._clock = clock
        connection = access.connection
        self._credentials = Credentials(
            connection.username or "", access.password or "", connection.region or "", access.token
        )
        self._endpoint: TargetUrl | None = None
        self.lost = False

    async def open(self) -> None:
        """Find the first address that answers and knows us."""
        refusal: Outcome | None = None
        trouble: Outcome | None = None
        for place in places(self._access.connection):
            self._endpoint = self._url(place)
            try:
                answer = await self._ask("ListQueues", {"MaxResults": 1}, OPEN_SECONDS)
            except DeliveryFailed as error:
                if error.kind is FailureKind.REFUSED_ADDRESS:
                    refusal = Outcome(Verdict.REJECTED, error.detail)
                else:
                    trouble = away(error.detail)
                continue
            if not isinstance(answer, Trouble) or answer.code in _ALLOWED_LESS:
                return
            if not answer.is_busy:
                raise NotOpened(
                    Outcome(Verdict.REJECTED, f"the broker did not let us in: {answer.code}"[:500])
                )
            trouble = answer.outcome
        raise NotOpened(trouble or refusal or away("no address answered"))

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """As many requests as it takes, at once."""
        async with asyncio.TaskGroup() as sending:
            for queue_url, batch in _batches(parcels):
                sending.create_task(self._send(queue_url, batch))

    async def close(self) -> None:
        """Nothing: the client closes what is idle."""

    async def _send(self, queue_url: str, parcels: list[Parcel]) -> None:
        entries = [_entry(number, parcel.message) for number, parcel in enumerate(parcels)]
        left = max(parcel.deadline for parcel in parcels) - asyncio.get_running_loop().time()
        try:
            answer = await self._ask("SendMessageBatch", {"QueueUrl": queue_url, "Entries": entries}, left)
        except DeliveryFailed as error:
            self._failed(error, parcels)
            return
        if isinstance(answer, Trouble):
            self.lost = self.lost or answer.not_let_in  # so that changed secrets are read
            for parcel in parcels:
                parcel.end(answer.outcome)
            return
        _end_each(parcels, answer)

    def _failed(self, error: DeliveryFailed, parcels: list[Parcel]) -> None:
        """No answer. Messages that may have arrived are left to be told as lost."""
        self.lost = True
        if error.kind in _NEVER_LEFT:
            outcome = away(error.detail)
        elif not error.kind.retryable:
            outcome = Outcome(Verdict.REJECTED, error.detail)
        else:
            return
        for parcel in parcels:
            parcel.end(outcome)

    async def _ask(self, action: str, body: dict[str, Any], seconds: float) -> Answer | Trouble:
        url = cast("TargetUrl", self._endpoint)
        data = msgspec.json.encode(body)
        headers = {
            "host": url.authority,
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"AmazonSQS.{action}",
        }
        headers = signed("POST", headers, data, self._credentials, "sqs", self._clock.now())
        del headers["host"]  # the client writes it
        answer = await self._client.send(
            OutgoingRequest(
                "POST",
                url,
                tuple(headers.items()),
                data,
                connect_timeout=OPEN_SECONDS,
                total_timeout=max(seconds, 0.001),
                tls=self._access.tls,
            )
        )
        return answer if answer.status == 200 else trouble_of(answer.status, answer.body)

    def _url(self, place: TargetUrl) -> TargetUrl:
        scheme = "http" if self._access.tls is None else "https"
        host = f"[{place.host}]" if ":" in place.host else place.host
        return parse_target_url(f"{scheme}://{host}:{place.port}/", "addresses")


def _batches(parcels: Iterable[Parcel]) -> Iterator[tuple[str, list[Parcel]]]:
    """Parcels by queue, as many together as one request takes."""
    queues: dict[str, list[Parcel]] = {}
    for parcel in parcels:
        queues.setdefault(cast("SqsTarget", parcel.message.target).queue_url, []).append(parcel)
    for queue_url, waiting in queues.items():
        batch: list[Parcel] = []
        size = 0
        for parcel in waiting:
            more = _size(parcel.message)
            if batch and (len(batch) == _ENTRIES or size + more > _BATCH_BYTES):
                yield queue_url, batch
                batch, size = [], 0
            batch.append(parcel)
            size += more
        yield queue_url, batch


def _attributes(message: Message) -> dict[str, str]:
    ours = {name: value for name, value in message.headers.items() if name not in _LEFT_OUT}
    return cast("SqsTarget", message.target).attributes | ours


def _size(message: Message) -> int:
    """As SQS counts it: the body, and the attributes with their types."""
    named = sum(len(name) + len("String") + len(value) for name, value in _attributes(message).items())
    return len(message.body) + named


def _entry(number: int, message: Message) -> dict[str, Any]:
    target = cast("SqsTarget", message.target)
    entry: dict[str, Any] = {
        "Id": str(number),
        "MessageBody": message.body.decode(),
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value} for name, value in _attributes(message).items()
        },
    }
    if target.group is not None:
        entry["MessageGroupId"] = target.group
    if is_fifo(target):
        entry["MessageDeduplicationId"] = message.key
    return entry


def _end_each(parcels: list[Parcel], answer: Answer) -> None:
    """Messages that the answer does not name are left to be told as lost."""
    try:
        batch = msgspec.json.decode(answer.body, type=BatchAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    by_id = {str(number): parcel for number, parcel in enumerate(parcels)}
    for taken in batch.successful:
        if (parcel := by_id.get(taken.id)) is not None:
            parcel.end(of_taken(taken))
    for failed in batch.failed:
        if (parcel := by_id.get(failed.id)) is not None:
            parcel.end(of_failed(failed))
