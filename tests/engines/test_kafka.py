"""Messages to a real Kafka. It takes seconds to start, so the tests here share one, and have a topic each."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.acceptance.certificates import Authority
from tests.engines.brokers import PASSWORD, KafkaKind
from tests.engines.servers import KILLS, Kafka
from tests.support.broker_faults import counted
from tests.support.figures import Note
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.connection import BrokerTls
from tocsin.domain.message_target import KafkaTarget
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.policy import NETWORK
from tocsin.domain.secrets import SecretRef
from tocsin.targets.http.breaker import TRIP_AFTER
from tocsin.targets.message.trying import Brokers

KIND = KafkaKind()
AUTHORITY = Authority("kafka")
pytestmark = pytest.mark.parametrize("kind", [KIND], ids=["kafka"])


@pytest.fixture(scope="module")
def server() -> Iterator[Kafka]:
    running = Kafka("".join(reversed(AUTHORITY.issue("localhost"))), authority=AUTHORITY.pem)
    yield running
    running.stop()


@pytest.fixture
def topic(server: Kafka, request: pytest.FixtureRequest) -> str:
    name = f"due-{request.node.originalname[:60]}"
    asyncio.run(KIND.make_stream(server, name, **getattr(request, "param", {})))
    return name


def targets(topic: str, count: int, key: str | None = "k") -> list[Any]:
    return [KIND.target(number, topic, key) for number in range(count)]


def test_a_message_arrives_with_its_key_and_the_executions_identity(
    kind: KafkaKind, server: Kafka, topic: str
) -> None:
    (outcome,), (record,) = _sent(server, topic, [kind.target({"order": 7}, topic)])
    fields = {name: value.decode() for name, value in record.headers}
    assert outcome.verdict is Verdict.SUCCEEDED
    assert outcome.detail == {"topic": topic, "partition": record.partition, "offset": 0}
    assert (record.key, json.loads(record.value)) == (b"customer-7", {"order": 7})
    assert (fields["colour"], fields["content-type"]) == ("red", "application/json")
    assert fields["idempotency-key"] == fields["tocsin-execution"]
    assert fields["tocsin-attempt"] == "1"
    assert fields["tocsin-job"].startswith("job_")
    assert fields["tocsin-fire-at"].startswith("2027-")
    assert fields["traceparent"].startswith("00-")


def test_a_crowd_arrives_whole_once_and_a_key_stays_in_its_partition(
    kind: KafkaKind, server: Kafka, topic: str
) -> None:
    crowd = [kind.target(number, topic, f"key-{number % 7}") for number in range(1000)]
    outcomes, records = _sent(server, topic, crowd, in_flight=100)
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert sorted(int(record.value) for record in records) == list(range(1000))
    assert len({(record.key, record.partition) for record in records}) == 7
    assert len({record.partition for record in records}) > 1


def test_without_a_key_or_a_body_there_is_none(kind: KafkaKind, server: Kafka, topic: str) -> None:
    (outcome,), (record,) = _sent(server, topic, [KafkaTarget(connection="bus", topic=topic)])
    assert outcome.verdict is Verdict.SUCCEEDED
    assert (record.key, record.value) == (None, None)


def test_places_are_filled_in_for_each_attempt(kind: KafkaKind, server: Kafka, topic: str) -> None:
    target = KafkaTarget(
        connection="bus", topic=topic, key="{job}/{attempt}", body={"due": "{fire_at}"}, template=True
    )
    (_,), (record,) = _sent(server, topic, [target])
    assert record.key.decode() == f"{_header(record, 'tocsin-job')}/1"
    assert json.loads(record.value) == {"due": _header(record, "tocsin-fire-at")}


def test_a_topic_that_is_not_there_is_not_made_and_harms_nothing_beside_it(
    kind: KafkaKind, server: Kafka, topic: str
) -> None:
    nowhere = kind.target("x", "nowhere")
    (first, *between, last), records = _sent(server, topic, [nowhere, *targets(topic, 50), nowhere])
    for outcome in (first, last):
        assert (outcome.verdict, outcome.error) == (
            Verdict.REJECTED,
            "the broker refused the message: there is no such topic",
        )
    assert {outcome.verdict for outcome in between} == {Verdict.SUCCEEDED}
    assert len(records) == 50


@pytest.mark.parametrize("topic", [{"max_message_bytes": 4000}], indirect=True, ids=["kafka"])
def test_a_message_that_is_too_large_harms_none_of_its_batch(
    kind: KafkaKind, server: Kafka, topic: str
) -> None:
    crowd = targets(topic, 20)
    crowd[7] = kind.target("x" * 5000, topic, "k")
    outcomes, records = _sent(server, topic, crowd)
    assert outcomes[7].verdict is Verdict.REJECTED
    assert outcomes[7].error == "the broker refused the message: it is larger than the topic takes"
    assert {outcome.verdict for outcome in outcomes[:7] + outcomes[8:]} == {Verdict.SUCCEEDED}
    assert sorted(int(record.value) for record in records) == [n for n in range(20) if n != 7]
    again, records = _sent(server, topic, targets(topic, 3))
    assert {outcome.verdict for outcome in again} == {Verdict.SUCCEEDED}


@pytest.mark.parametrize("topic", [{"cleanup_policy": "compact"}], indirect=True, ids=["kafka"])
def test_a_compacted_topic_takes_no_message_without_a_key(kind: KafkaKind, server: Kafka, topic: str) -> None:
    first, second = _sent(server, topic, [kind.target("x", topic, None), kind.target("x", topic, "k")])[0]
    assert (first.verdict, second.verdict) == (Verdict.REJECTED, Verdict.SUCCEEDED)
    assert "needs a key" in (first.error or "")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_user_is_let_in_by_the_right_password_only(
    kind: KafkaKind, server: Kafka, topic: str, mechanism: str
) -> None:
    async def scenario(word: str) -> tuple[Any, Any]:
        attempts = kind.attempts(
            server, secrets={PASSWORD.secret: word}, username="tocsin", password=PASSWORD, mechanism=mechanism
        )
        connection = msgspec.structs.replace(
            attempts.book.known.connection, addresses=(f"127.0.0.1:{server.login_port}",)
        )
        attempts.book.known = msgspec.structs.replace(attempts.book.known, connection=connection)
        tried = await Brokers({kind.name: attempts.opening}).try_out(1, connection)
        outcome = await attempts.call(kind.target("x", topic))
        await attempts.caller.close()
        return tried.error, outcome

    error, outcome = asyncio.run(scenario("right"))
    assert (error, outcome.verdict) == (None, Verdict.SUCCEEDED)
    error, outcome = asyncio.run(scenario("hush-hush"))
    assert outcome.verdict is Verdict.REJECTED
    assert outcome.error == error == "the broker did not let us in: the user or the password is wrong"


def test_by_tls_both_sides_show_their_certificates(kind: KafkaKind, server: Kafka, topic: str) -> None:
    async def scenario(trusted: Authority, own: Authority | None) -> Any:
        tls = BrokerTls(ca=SecretRef("ca"), client_certificate=None if own is None else SecretRef("own"))
        secrets = {"ca": trusted.pem, "own": "".join((own or AUTHORITY).issue("tocsin"))}
        attempts = kind.attempts(server, secrets=secrets, tls=tls)
        connection = msgspec.structs.replace(
            attempts.book.known.connection, addresses=(f"localhost:{server.tls_port}",)
        )
        attempts.book.known = msgspec.structs.replace(attempts.book.known, connection=connection)
        outcome = await attempts.call(kind.target("x", topic))
        await attempts.caller.close()
        return outcome

    stranger = Authority("stranger")
    assert asyncio.run(scenario(AUTHORITY, AUTHORITY)).verdict is Verdict.SUCCEEDED
    untrusted = asyncio.run(scenario(stranger, AUTHORITY))
    assert untrusted.verdict is Verdict.FAILED
    assert "certificate" in untrusted.error
    for own in (None, stranger):
        assert asyncio.run(scenario(AUTHORITY, own)).verdict is Verdict.FAILED


def test_an_inner_address_is_refused_before_anything_is_sent(
    kind: KafkaKind, server: Kafka, topic: str
) -> None:
    (outcome,), records = _sent(server, topic, [kind.target("x", topic)], policy=AddressPolicy())
    assert outcome.verdict is Verdict.REJECTED
    assert "public address" in (outcome.error or "")
    assert records == []


def test_a_stopping_worker_leaves_nothing_behind(kind: KafkaKind, server: Kafka, topic: str) -> None:
    async def scenario() -> tuple[Any, Any]:
        attempts = kind.attempts(server)
        calls = [
            asyncio.create_task(attempts.call(target, n)) for n, target in enumerate(targets(topic, 50), 1)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await attempts.caller.close()
        return await asyncio.gather(*calls), await kind.records(server, topic)

    outcomes, records = asyncio.run(scenario())
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert len(records) == 50


def test_a_broker_that_hangs_costs_a_timeout_and_the_retry_has_the_same_identity(
    kind: KafkaKind, server: Kafka, topic: str
) -> None:
    async def scenario() -> tuple[Any, list[Any]]:
        attempts = kind.attempts(server)
        await attempts.until_taken(kind.target("first", topic), 1)
        server.freeze()
        hung = await attempts.call(kind.target("second", topic), 2, seconds=0.3)
        server.thaw()
        await attempts.until_taken(kind.target("second", topic), 2)
        await attempts.caller.close()
        return hung, await kind.received(server, topic)

    hung, messages = asyncio.run(scenario())
    assert hung.verdict is Verdict.TIMED_OUT
    second = [message for message in messages if message.body == b"second"]
    assert 1 <= len(second) <= 2
    assert len({message.fields["idempotency-key"] for message in second}) == 1


def test_killed_under_load_it_loses_nothing(
    kind: KafkaKind, server: Kafka, topic: str, record_property: Note
) -> None:
    async def scenario() -> tuple[list[Any], int, list[Any]]:
        attempts = kind.attempts(server, in_flight=200)
        numbers = iter(range(1, 1_000_000))
        calls: list[asyncio.Task[int]] = []

        def send(count: int) -> list[asyncio.Task[int]]:
            return [
                asyncio.create_task(attempts.until_taken(kind.target(n, topic, f"k{n % 5}"), n))
                for n in itertools.islice(numbers, count)
            ]

        for _ in range(KILLS):
            calls += (load := send(500))
            while not any(call.done() for call in load):
                await asyncio.sleep(0.002)
            await asyncio.to_thread(server.kill)
            elsewhere = kind.attempts(server)
            away = [await elsewhere.call(kind.target("x", topic), 10**6 + n) for n in range(TRIP_AFTER + 1)]
            starting = asyncio.create_task(asyncio.to_thread(server.start))
            calls += send(50)
            await starting
        await asyncio.gather(*calls)
        await attempts.caller.close()
        return away, len(calls), await kind.received(server, topic)

    (*away, resting), sent, messages = asyncio.run(scenario())
    for outcome in away:
        assert (outcome.verdict, outcome.failure) == (Verdict.FAILED, NETWORK)
        assert "127.0.0.1" not in (outcome.error or "")
    assert isinstance(resting, Postponed)
    assert counted(record_property, kind.name, "killed", KILLS, sent, messages).lost == 0


def _header(record: Any, name: str) -> str:
    return str(dict(record.headers)[name].decode())


def _sent(
    server: Kafka, topic: str, wanted: list[Any], in_flight: int = 1000, **how: Any
) -> tuple[list[Outcome], list[Any]]:
    """How attempts at messages ended, and what is in the topic afterwards."""

    async def scenario() -> tuple[list[Any], list[Any]]:
        attempts = KIND.attempts(server, in_flight=in_flight, **how)
        calls = [attempts.call(target, number) for number, target in enumerate(wanted, 1)]
        outcomes = await asyncio.gather(*calls)
        await attempts.caller.close()
        return outcomes, await KIND.records(server, topic)

    return asyncio.run(scenario())
