"""Messages to ElasticMQ, which speaks the protocol of SQS and is not ours. It starts once for this file."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines import sqs_server
from tests.engines.brokers import PASSWORD, SqsKind
from tests.engines.servers import ElasticMq
from tocsin.domain.message_target import SqsTarget
from tocsin.domain.outcome import Outcome, Verdict

KIND = SqsKind()
pytestmark = pytest.mark.parametrize("kind", [KIND], ids=["sqs_elasticmq"])


@pytest.fixture(scope="module")
def running() -> Iterator[ElasticMq]:
    server = ElasticMq()
    yield server
    server.stop()


@pytest.fixture
def server(running: ElasticMq) -> ElasticMq:
    for queue in ("due", "due.fifo"):
        running.ask("PurgeQueue", QueueUrl=_url(running, queue))
    return running


def test_a_message_to_a_fifo_queue_arrives_with_what_identifies_it_and_a_second_one_is_dropped(
    kind: SqsKind, server: ElasticMq
) -> None:
    target = SqsTarget(
        connection="bus",
        queue_url=_url(server, "due.fifo"),
        group="g",
        attributes={"colour": "red"},
        body={"order": 7},
    )
    outcomes = _sent(server, [(target, 1), (target, 1), (target, 2)], one_by_one=True)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.SUCCEEDED] * 3
    first, second = _received(server, "due.fifo")
    for message in (first, second):
        fields = {name: one["StringValue"] for name, one in message["MessageAttributes"].items()}
        assert json.loads(message["Body"]) == {"order": 7}
        assert (fields["colour"], fields["content-type"]) == ("red", "application/json")
        assert fields["idempotency-key"] == fields["tocsin-execution"]
        assert fields["tocsin-fire-at"].startswith("2027-")
        assert message["MessageId"] in {(outcome.detail or {})["message_id"] for outcome in outcomes}


def test_a_crowd_arrives_whole(kind: SqsKind, server: ElasticMq) -> None:
    targets = [
        SqsTarget(connection="bus", queue_url=_url(server, "due"), body=str(number)) for number in range(200)
    ]
    outcomes = _sent(server, [(target, number) for number, target in enumerate(targets)])
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert sorted(int(message["Body"]) for message in _received(server, "due")) == list(range(200))


def test_a_queue_that_is_not_there_is_rejected(kind: SqsKind, server: ElasticMq) -> None:
    target = SqsTarget(connection="bus", queue_url=_url(server, "nowhere"), body="x")
    (outcome,) = _sent(server, [(target, 1)])
    assert outcome.verdict is Verdict.REJECTED
    assert "queue" in (outcome.error or "").lower()


def _url(server: ElasticMq, queue: str) -> str:
    return f"http://{server.address}/000000000000/{queue}"


def _sent(server: ElasticMq, wanted: list[tuple[SqsTarget, int]], one_by_one: bool = False) -> list[Outcome]:
    async def scenario() -> list[Any]:
        attempts = KIND.attempts(
            server,
            secrets={PASSWORD.secret: sqs_server.SECRET},
            username=sqs_server.KEY_ID,
            password=PASSWORD,
            region="elasticmq",
        )
        calls = [attempts.call(target, number) for target, number in wanted]
        outcomes = [await call for call in calls] if one_by_one else await asyncio.gather(*calls)
        await attempts.caller.close()
        return outcomes

    return asyncio.run(scenario())


def _received(server: ElasticMq, queue: str) -> list[Any]:
    found: list[Any] = []
    while messages := server.ask(
        "ReceiveMessage",
        QueueUrl=_url(server, queue),
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
    ).get("Messages"):
        found += messages
        entries = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(messages)]
        server.ask("DeleteMessageBatch", QueueUrl=_url(server, queue), Entries=entries)
    return found
