"""What a NATS server says by its configuration: who is let in, what is taken, what is tried again."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.acceptance.certificates import Authority
from tests.engines.attempts import Attempts
from tests.engines.brokers import PASSWORD, NatsKind
from tests.engines.fake_nats import FakeNats
from tests.engines.servers import Nats
from tocsin.domain.connection import BrokerTls, Connection
from tocsin.domain.message_target import NatsTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.secrets import SecretRef
from tocsin.targets.message.trying import Brokers
from tocsin.targets.nats.broker import NatsBroker

KIND = NatsKind()
pytestmark = pytest.mark.parametrize("kind", [KIND], ids=["nats"])
TAKEN = {"stream": "DUE", "seq": 1}
SMALL_ACCOUNT = """
    accounts { A { jetstream { max_disk: 1K, max_mem: 1K }, users: [{user: a, password: a}] } }
    no_auth_user: a
"""
ONE_SUBJECT = """
    authorization { users: [
        { user: tocsin, password: right, permissions: { publish: ["due.>", "$JS.API.>"], subscribe: [">"] } }
    ] }
"""


@contextmanager
def _running(settings: str = "", *arguments: str) -> Iterator[Nats]:
    server = Nats(*arguments, settings=settings)
    try:
        yield server
    finally:
        server.stop()


def _sent(
    server: Nats, targets: list[Any], stream: dict[str, Any] | None = None, **how: Any
) -> list[Outcome]:
    """How attempts at messages ended that were made at once."""

    async def scenario() -> list[Any]:
        if stream is not None:
            await KIND.make_stream(server, **stream)
        attempts = KIND.attempts(server, **how)
        calls = [attempts.call(target, number) for number, target in enumerate(targets, 1)]
        outcomes = await asyncio.gather(*calls)
        await attempts.caller.close()
        return outcomes

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "err_code", "words"),
    [
        (409, 10158, "duplicate message id is in process"),
        (429, 10167, "too many requests"),
        (400, 10002, "resource limits exceeded for account"),
        (503, 10077, "maximum messages exceeded"),
        (500, 10118, "stream is offline"),
    ],
)
def test_what_may_be_taken_later_is_tried_again(kind: NatsKind, code: int, err_code: int, words: str) -> None:
    async def scenario() -> tuple[Any, int]:
        error = {"error": {"code": code, "err_code": err_code, "description": words}, **TAKEN}
        async with FakeNats([error, TAKEN]) as server:
            attempts = Attempts(NatsBroker, Connection("nats", (f"127.0.0.1:{server.port}",)))
            first = await attempts.call(kind.target("x"))
            took = await attempts.until_taken(kind.target("x"), 1)
            await attempts.caller.close()
            return first, took

    first, took = asyncio.run(scenario())
    assert (first.verdict, first.error, took) == (Verdict.FAILED, f"the broker is busy: {words}", 1)


@pytest.mark.parametrize(
    ("settings", "stream", "words"),
    [
        ("jetstream { max_buffered_msgs: 5 }", {}, "too many requests"),
        (SMALL_ACCOUNT, {}, "resource limits exceeded for account"),
        ("jetstream { max_file: 1K }", {}, "insufficient resources"),
        ("", {"max_msgs": 3, "discard": "new"}, "maximum messages exceeded"),
    ],
    ids=["in a rush", "account full", "server full", "stream full"],
)
def test_a_server_that_has_no_room_is_tried_again(
    kind: NatsKind, settings: str, stream: dict[str, Any], words: str
) -> None:
    with _running(settings) as server:
        outcomes = _sent(server, [kind.target("x" * 200)] * 500, stream)
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED, Verdict.FAILED}
    assert {outcome.error for outcome in outcomes} == {None, f"the broker is busy: {words}"}


def test_a_stream_that_is_not_the_expected_one_gets_no_message(kind: NatsKind) -> None:
    expecting = [
        NatsTarget(connection="bus", subject="due.orders", stream=stream, body="x")
        for stream in ("DUE", "OTHER")
    ]
    with _running() as server:
        right, wrong = _sent(server, expecting, {})
    assert right.verdict is Verdict.SUCCEEDED
    assert (wrong.verdict, wrong.error) == (
        Verdict.REJECTED,
        "the broker refused the message: expected stream does not match",
    )


def test_what_is_larger_than_the_stream_takes_is_rejected(kind: NatsKind) -> None:
    with _running() as server:
        large, small = _sent(server, [kind.target("x" * 3000), kind.target("x")], {"max_msg_size": 2000})
    assert (large.verdict, small.verdict) == (Verdict.REJECTED, Verdict.SUCCEEDED)
    assert "message size exceeds maximum allowed" in (large.error or "")


def test_a_subject_that_the_user_may_not_publish_to_is_rejected_and_harms_nothing_beside_it(
    kind: NatsKind,
) -> None:
    how = {"secrets": {PASSWORD.secret: "right"}, "username": "tocsin", "password": PASSWORD}
    with _running(ONE_SUBJECT) as server:
        forbidden = NatsTarget(connection="bus", subject="Other.orders", body="x")
        outcome, *others = _sent(server, [forbidden, *[kind.target("x")] * 20], **how)
    assert (outcome.verdict, outcome.error) == (
        Verdict.REJECTED,
        "the broker refused the message: not allowed to publish to this subject",
    )
    assert {other.error for other in others} == {
        "the broker refused the message: no stream takes this subject"
    }


def test_a_token_lets_in_and_a_wrong_one_does_not(kind: NatsKind) -> None:
    with _running("", "--auth", "right") as server:
        for word, let_in in (("wrong", False), ("right", True)):
            (outcome,) = _sent(server, [kind.target("x")], secrets={"token": word}, token=SecretRef("token"))
            assert ("did not let us in" not in (outcome.error or "")) == let_in, outcome
            assert word not in (outcome.error or "")


def test_by_tls_both_sides_show_their_certificates(kind: NatsKind, tmp_path: Path) -> None:
    authority, stranger = Authority("nats"), Authority("stranger")
    certificate, key = authority.issue("localhost")
    for name, text in (("server", certificate), ("key", key), ("ca", authority.pem)):
        (tmp_path / f"{name}.pem").write_text(text)
    files = (
        f'cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/key.pem", ca_file: "{tmp_path}/ca.pem"'
    )

    def tried(server: Nats, ca: Authority, own: Authority | None) -> str | None:
        async def scenario() -> str | None:
            secrets = {"ca": ca.pem, "own": "".join((own or authority).issue("tocsin"))}
            tls = BrokerTls(ca=SecretRef("ca"), client_certificate=None if own is None else SecretRef("own"))
            attempts = kind.attempts(server, secrets=secrets, tls=tls)
            connection = msgspec.structs.replace(
                attempts.book.known.connection, addresses=(f"localhost:{server.port}",)
            )
            return (await Brokers({kind.name: attempts.opening}).try_out(1, connection)).error

        return asyncio.run(scenario())

    with _running(f"tls {{ {files}, verify: true }}") as server:
        assert tried(server, authority, authority) is None
        assert "certificate" in (tried(server, stranger, authority) or "")
        for own in (None, stranger):
            assert "could not connect" in (tried(server, authority, own) or "")
