"""Messages to a real RabbitMQ. It takes seconds to start, so the tests of this file share one."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.brokers import PASSWORD, RabbitKind
from tests.engines.servers import KILLS, Rabbit
from tests.support.broker_faults import counted
from tests.support.figures import Note
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.message_target import RabbitTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import NETWORK
from tocsin.targets.message.trying import Brokers

pytestmark = pytest.mark.parametrize("kind", [RabbitKind()], ids=["rabbitmq"])


@pytest.fixture(scope="module")
def server() -> Iterator[Rabbit]:
    running = Rabbit()
    yield running
    running.stop()


def test_a_message_arrives_with_what_the_user_wrote_and_the_executions_identity(
    kind: RabbitKind, server: Rabbit
) -> None:
    outcome, (message,) = _sent(kind, server, [kind.target({"order": 7})])
    assert outcome[0].verdict is Verdict.SUCCEEDED
    assert json.loads(message.body) == {"order": 7}
    assert message.fields["colour"] == "red"
    assert message.fields["content-type"] == "application/json"
    assert message.fields["tocsin-attempt"] == "1"
    assert message.fields["idempotency-key"] == message.fields["tocsin-execution"]
    assert message.fields["message-id"] == message.fields["idempotency-key"]
    assert message.fields["delivery-mode"] == "2"
    assert message.fields["traceparent"].startswith("00-")


def test_a_crowd_arrives_whole_and_each_message_once(kind: RabbitKind, server: Rabbit) -> None:
    outcomes, messages = _sent(kind, server, [kind.target(n) for n in range(1000)], in_flight=100)
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert sorted(int(message.body) for message in messages) == list(range(1000))


def test_what_no_queue_takes_is_rejected_and_harms_nothing_beside_it(
    kind: RabbitKind, server: Rabbit
) -> None:
    unrouted = kind.target("x", where="nobodys")
    no_exchange = RabbitTarget(connection="bus", exchange="nowhere", routing_key="due", body="x")
    good = [kind.target(n) for n in range(50)]
    outcomes, messages = _sent(kind, server, [unrouted, no_exchange, *good, no_exchange, unrouted])
    first, second, *between, third, last = outcomes
    for outcome in (first, last):
        assert (outcome.verdict, outcome.error) == (
            Verdict.REJECTED,
            "the broker refused the message: no queue takes it",
        )
    for outcome in (second, third):
        assert outcome.verdict is Verdict.REJECTED
        assert "no exchange 'nowhere'" in (outcome.error or "")
    assert {outcome.verdict for outcome in between} == {Verdict.SUCCEEDED}
    assert len(messages) == 50


def test_a_full_queue_is_tried_again(kind: RabbitKind, server: Rabbit) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    outcomes, messages = _sent(kind, server, [kind.target(n) for n in range(3)], one_by_one=True, **full)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.SUCCEEDED, Verdict.FAILED, Verdict.FAILED]
    assert "the broker is busy" in (outcomes[1].error or "")
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"password": PASSWORD, "username": "guest"}, "the user or the password is wrong"),
        ({"virtual_host": "nowhere"}, "the virtual host is not there"),
    ],
    ids=["password", "virtual host"],
)
def test_a_broker_that_does_not_let_us_in_is_not_asked_again(
    kind: RabbitKind, server: Rabbit, more: dict[str, Any], words: str
) -> None:
    async def scenario() -> tuple[Any, Any]:
        attempts = kind.attempts(server, secrets={PASSWORD.secret: "hush-hush"}, **more)
        tried = await Brokers({kind.name: attempts.opening}).try_out(1, attempts.book.known.connection)
        outcome = await attempts.call(kind.target("x"))
        await attempts.caller.close()
        return outcome, tried

    outcome, tried = asyncio.run(scenario())
    assert outcome.verdict is Verdict.REJECTED
    assert words in outcome.error
    assert words in tried.error
    assert "hush-hush" not in outcome.error


def test_an_inner_address_is_refused_before_anything_is_sent(kind: RabbitKind, server: Rabbit) -> None:
    async def scenario() -> Any:
        attempts = kind.attempts(server, policy=AddressPolicy())
        outcome = await attempts.call(kind.target("x"))
        await attempts.caller.close()
        return outcome

    outcome = asyncio.run(scenario())
    assert outcome.verdict is Verdict.REJECTED
    assert "public address" in outcome.error


def test_a_broker_that_hangs_costs_a_timeout_and_the_retry_has_the_same_identity(
    kind: RabbitKind, server: Rabbit
) -> None:
    async def scenario() -> tuple[Any, list[Any]]:
        await kind.make_stream(server)
        attempts = kind.attempts(server)
        await attempts.until_taken(kind.target("first"), 1)
        server.freeze()
        hung = await attempts.call(kind.target("second"), 2, seconds=0.3)
        server.thaw()
        await attempts.until_taken(kind.target("second"), 2)
        await attempts.caller.close()
        return hung, await kind.received(server)

    hung, messages = asyncio.run(scenario())
    assert hung.verdict is Verdict.TIMED_OUT
    second = [message for message in messages if message.body == b"second"]
    assert 1 <= len(second) <= 2
    assert len({message.fields["idempotency-key"] for message in second}) == 1


def test_killed_under_load_it_loses_nothing(kind: RabbitKind, server: Rabbit, record_property: Note) -> None:
    async def scenario() -> tuple[Any, int, list[Any]]:
        await kind.make_stream(server)
        attempts = kind.attempts(server, in_flight=200)
        numbers = iter(range(1, 1_000_000))
        calls: list[asyncio.Task[int]] = []

        def send(count: int) -> list[asyncio.Task[int]]:
            return [
                asyncio.create_task(attempts.until_taken(kind.target(n), n))
                for n in itertools.islice(numbers, count)
            ]

        for _ in range(KILLS):
            calls += (load := send(300))
            while not any(call.done() for call in load):
                await asyncio.sleep(0.005)
            await asyncio.to_thread(server.kill)
            away = await kind.attempts(server).call(kind.target("x"), 10**6)
            starting = asyncio.create_task(asyncio.to_thread(server.start))
            calls += send(50)
            await starting
        await asyncio.gather(*calls)
        await attempts.caller.close()
        return away, len(calls), await kind.received(server)

    away, sent, messages = asyncio.run(scenario())
    assert isinstance(away, Outcome)
    assert (away.verdict, away.failure) == (Verdict.FAILED, NETWORK)
    assert "127.0.0.1" not in (away.error or "")
    assert counted(record_property, kind.name, "killed", KILLS, sent, messages).lost == 0


def _sent(
    kind: RabbitKind,
    server: Rabbit,
    targets: list[Any],
    in_flight: int = 1000,
    one_by_one: bool = False,
    **queue: Any,
) -> tuple[list[Outcome], list[Any]]:
    """How attempts at messages ended, and what is in the queue afterwards."""

    async def scenario() -> tuple[list[Any], list[Any]]:
        await kind.make_stream(server, **queue)
        attempts = kind.attempts(server, in_flight=in_flight)
        calls = [attempts.call(target, number) for number, target in enumerate(targets, 1)]
        outcomes = [await call for call in calls] if one_by_one else await asyncio.gather(*calls)
        await attempts.caller.close()
        return outcomes, await kind.received(server)

    return asyncio.run(scenario())
