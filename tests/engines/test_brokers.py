"""One suite for every kind of broker, over real servers: delivered, refused, away, lost, killed."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.brokers import KINDS, PASSWORD, Kind, SqsKind
from tests.engines.servers import Server
from tests.support.broker_faults import counted
from tests.support.figures import Note
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.policy import NETWORK
from tocsin.domain.waits import Reason
from tocsin.targets.http.breaker import TRIP_AFTER
from tocsin.targets.message.caller import Known
from tocsin.targets.message.publisher import Publisher
from tocsin.targets.message.trying import Brokers

pytestmark = pytest.mark.parametrize("kind", [*KINDS, SqsKind()], ids=lambda kind: kind.label)


@pytest.fixture
def server(kind: Kind) -> Iterator[Server]:
    running = kind.server()
    yield running
    running.stop()


class TestDelivery:
    def test_a_message_arrives_with_what_the_user_wrote_and_the_executions_identity(
        self, kind: Kind, server: Server
    ) -> None:
        async def scenario() -> tuple[Any, Any]:
            await kind.make_stream(server)
            attempts = kind.attempts(server)
            outcome = await attempts.call(kind.target({"order": 7}))
            await attempts.caller.close()
            return outcome, await kind.received(server)

        outcome, (message,) = asyncio.run(scenario())
        assert outcome.verdict is Verdict.SUCCEEDED
        assert outcome.detail
        assert json.loads(message.body) == {"order": 7}
        assert message.fields["colour"] == "red"
        assert message.fields["content-type"] == "application/json"
        assert message.fields["tocsin-attempt"] == "1"
        assert message.fields["idempotency-key"] == message.fields["tocsin-execution"]
        assert message.fields["tocsin-fire-at"].startswith("2027-")
        assert message.fields["traceparent"].startswith("00-")
        if kind.name != "sqs":  # which takes ten attributes only
            assert message.fields["tocsin-job"].startswith("job_")

    def test_a_crowd_arrives_whole_and_each_message_once(self, kind: Kind, server: Server) -> None:
        async def scenario() -> tuple[Any, Any]:
            await kind.make_stream(server)
            attempts = kind.attempts(server, in_flight=100)
            calls = (attempts.call(kind.target(n), n) for n in range(1, 1001))
            outcomes = await asyncio.gather(*calls)
            await attempts.caller.close()
            return outcomes, await kind.received(server)

        outcomes, messages = asyncio.run(scenario())
        assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
        assert sorted(int(message.body) for message in messages) == list(range(1, 1001))

    def test_a_second_attempt_has_the_same_identity_and_is_dropped_where_the_broker_can(
        self, kind: Kind, server: Server
    ) -> None:
        async def scenario() -> list[Any]:
            await kind.make_stream(server)
            attempts = kind.attempts(server)
            for attempt in (1, 2):
                outcome = await attempts.call(kind.target("x"), attempt=attempt)
                assert isinstance(outcome, Outcome)
                assert outcome.verdict is Verdict.SUCCEEDED
            await attempts.caller.close()
            return await kind.received(server)

        messages = asyncio.run(scenario())
        assert len(messages) == (1 if kind.drops_duplicates else 2)
        assert len({message.fields["idempotency-key"] for message in messages}) == 1

    def test_a_stopping_worker_leaves_nothing_behind(self, kind: Kind, server: Server) -> None:
        async def scenario() -> tuple[Any, Any]:
            await kind.make_stream(server)
            attempts = kind.attempts(server)
            calls = [asyncio.create_task(attempts.call(kind.target(n), n)) for n in range(1, 51)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await attempts.caller.close()
            return await asyncio.gather(*calls), await kind.received(server)

        outcomes, messages = asyncio.run(scenario())
        assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
        assert len(messages) == 50

    def test_an_idle_connection_is_closed_and_opened_again(self, kind: Kind, server: Server) -> None:
        async def scenario() -> int:
            await kind.make_stream(server)
            attempts = kind.attempts(server)
            opened = 0

            async def count_and_open() -> Any:
                nonlocal opened
                opened += 1
                return await attempts.opening.open(1, attempts.book.known.connection)

            publisher = Publisher(count_and_open, 10, idle_seconds=0.01)
            attempts.caller._publisher = lambda *_: publisher  # type: ignore[method-assign]
            for number in (1, 2):
                await attempts.call(kind.target(number), number)
                while publisher._broker is not None:
                    await asyncio.sleep(0.01)
            await publisher.close()
            return opened

        assert asyncio.run(scenario()) == 2


class TestRefusals:
    def test_what_no_stream_takes_is_rejected(self, kind: Kind, server: Server) -> None:
        outcome = _one(kind, server, kind.target("x", where="nowhere"))
        assert outcome.verdict is Verdict.REJECTED
        assert kind.home in (outcome.error or "")

    def test_a_wrong_password_is_rejected_and_a_right_one_is_not(self, kind: Kind) -> None:
        server = kind.server(*kind.forbidding)  # type: ignore[attr-defined]
        try:
            user = {"username": "tocsin"} if kind.name == "nats" else {}
            for word, let_in in (("wrong", False), ("right", True)):
                secrets = {PASSWORD.secret: word}
                outcome = _one(kind, server, kind.target("x"), secrets=secrets, password=PASSWORD, **user)
                assert ("did not let us in" not in (outcome.error or "")) == let_in, outcome
                assert word not in (outcome.error or "")
        finally:
            server.stop()

    def test_an_inner_address_is_refused_before_anything_is_sent(self, kind: Kind, server: Server) -> None:
        outcome = _one(kind, server, kind.target("x"), policy=AddressPolicy())
        assert outcome.verdict is Verdict.REJECTED
        assert "public address" in (outcome.error or "")

    def test_a_missing_secret_is_named(self, kind: Kind, server: Server) -> None:
        outcome = _one(kind, server, kind.target("x"), password=PASSWORD)
        assert (outcome.verdict, outcome.error) == (
            Verdict.REJECTED,
            "there is no secret 'broker-password'",
        )

    def test_a_connection_of_another_kind_is_refused(self, kind: Kind, server: Server) -> None:
        async def scenario() -> Any:
            attempts = kind.attempts(server)
            other = next(one for one in KINDS if one is not kind)
            attempts.book.known = Known(other.attempts(server).book.known.connection, 2)
            return await attempts.call(kind.target("x"))

        assert asyncio.run(scenario()).verdict is Verdict.REJECTED


class TestTrouble:
    def test_a_broker_that_is_away_gets_a_rest_and_serves_again(self, kind: Kind, server: Server) -> None:
        async def scenario() -> None:
            await kind.make_stream(server)
            attempts = kind.attempts(server)
            server.kill()
            for number in range(TRIP_AFTER):
                outcome = await attempts.call(kind.target("x"), number + 1)
                assert isinstance(outcome, Outcome)
                assert (outcome.verdict, outcome.failure) == (Verdict.FAILED, NETWORK)
                assert "127.0.0.1" not in (outcome.error or "")
            resting = await attempts.call(kind.target("x"), 99)
            assert isinstance(resting, Postponed)
            assert resting.waits_for is Reason.HOST_REST
            server.start()
            await attempts.until_taken(kind.target("x"), 99)
            await attempts.caller.close()

        asyncio.run(scenario())

    def test_a_broker_that_hangs_costs_a_timeout_and_no_more(self, kind: Kind, server: Server) -> None:
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
        assert len(second) == (1 if kind.drops_duplicates else 2)
        assert len({message.fields["idempotency-key"] for message in second}) == 1

    def test_killed_three_times_under_load_nothing_is_lost(
        self, kind: Kind, server: Server, record_property: Note
    ) -> None:
        async def scenario() -> tuple[int, list[Any]]:
            await kind.make_stream(server)
            attempts = kind.attempts(server, in_flight=200)
            taken = 0

            async def send(number: int) -> None:
                nonlocal taken
                await attempts.until_taken(kind.target(number), number)
                taken += 1

            numbers = iter(range(1, 1_000_000))
            calls: list[asyncio.Task[None]] = []
            for _ in range(3):
                goal = taken + 300
                while taken < goal:
                    calls += [asyncio.create_task(send(next(numbers))) for _ in range(50)]
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(server.kill)
                calls += [asyncio.create_task(send(next(numbers))) for _ in range(50)]
                await asyncio.sleep(0.05)
                await asyncio.to_thread(server.start)
            await asyncio.gather(*calls)
            await attempts.caller.close()
            return len(calls), await kind.received(server)

        sent, messages = asyncio.run(scenario())
        tally = counted(record_property, kind.label, "killed", 3, sent, messages)
        assert tally.lost == 0
        assert tally.duplicates == 0 or not kind.drops_duplicates
        assert len({(m.fields["idempotency-key"], m.body) for m in messages}) == sent

    def test_a_changed_connection_is_used_from_the_next_message_on(self, kind: Kind, server: Server) -> None:
        other = kind.server()

        async def scenario() -> tuple[int, int]:
            for one in (server, other):
                await kind.make_stream(one)
            attempts = kind.attempts(server)
            await attempts.until_taken(kind.target("x"), 1)
            attempts.book.known = Known(kind.attempts(other).book.known.connection, 2)
            await attempts.until_taken(kind.target("x"), 2)
            await attempts.caller.close()
            return len(await kind.received(server)), len(await kind.received(other))

        try:
            assert asyncio.run(scenario()) == (1, 1)
        finally:
            other.stop()

    def test_trying_out_tells_whether_the_broker_is_there(self, kind: Kind, server: Server) -> None:
        async def scenario() -> tuple[Any, Any]:
            attempts = kind.attempts(server)
            brokers = Brokers({kind.name: attempts.opening})
            connection = attempts.book.known.connection
            well = await brokers.try_out(1, connection)
            server.kill()
            return well, await brokers.try_out(1, connection)

        well, ill = asyncio.run(scenario())
        assert well.error is None
        assert "could not connect" in ill.error


def _one(kind: Kind, server: Server, target: Any, **how: Any) -> Outcome:
    async def scenario() -> Any:
        attempts = kind.attempts(server, **how)
        try:
            return await attempts.call(target)
        finally:
            await attempts.caller.close()

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Outcome), outcome
    return outcome
