"""Mail, to a small server: taken over once for all, encrypted or not sent, refused for now or for good."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.acceptance.self_signed import server_context, write_certificate
from tests.engines.attempts import Attempts
from tests.engines.mail_server import MailServer, mail_server
from tocsin.clock import VirtualClock
from tocsin.domain.connection import BrokerTls, Connection
from tocsin.domain.message_target import SmtpTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import NETWORK
from tocsin.domain.secrets import SecretRef
from tocsin.targets.message.trying import Brokers
from tocsin.targets.smtp import broker as smtp_broker
from tocsin.targets.smtp.broker import SmtpBroker

MAIL = SmtpTarget(connection="bus", to=("ops@example.com", "pager@example.com"), subject="Grüße", body="x")
LOGIN = {"username": "tocsin", "password": SecretRef("password")}


def play(
    story: Callable[[MailServer, Attempts], Awaitable[Any]],
    secrets: dict[str, str] | None = None,
    server: dict[str, Any] | None = None,
    **connection: Any,
) -> Any:
    async def scenario() -> Any:
        async with mail_server(**server or {}) as running:
            known = Connection(
                "smtp", (f"127.0.0.1:{running.port}",), sender="tocsin@shop.example", **connection
            )
            attempts = Attempts(lambda access: SmtpBroker(access, VirtualClock(0)), known, secrets)
            try:
                return await story(running, attempts)
            finally:
                await attempts.caller.close()

    return uvloop.run(scenario())  # as workers do


def test_a_mail_arrives_as_it_was_written_with_the_executions_identity() -> None:
    body = ".\n..dots stay\nümläut and a line of " + "x" * 2000 + "\n.\nend"

    async def story(server: MailServer, attempts: Attempts) -> Any:
        mail = SmtpTarget(connection="bus", to=MAIL.to, subject="Grüße, €", body=body)
        return await attempts.call(mail), server

    outcome, server = play(story)
    assert outcome.verdict is Verdict.SUCCEEDED
    assert outcome.detail["answer"] == "250 2.0.0 taken as 1"
    (letter,) = server.letters
    assert server.recipients == [["ops@example.com", "pager@example.com"]]
    assert letter["subject"] == "Grüße, €"
    assert letter["from"] == "tocsin@shop.example"
    assert letter["to"] == "ops@example.com, pager@example.com"
    assert letter["auto-submitted"] == "auto-generated"
    assert letter.get_content().replace("\r\n", "\n").rstrip("\n") == body
    assert letter["message-id"] == f"<{letter['tocsin-execution']}@shop.example>" == outcome.detail["id"]
    assert letter["tocsin-job"].startswith("job_")
    assert server.raw[0].isascii()
    assert max(map(len, server.raw[0].split(b"\r\n"))) <= 998, "no server takes a longer line"


def test_many_mails_leave_over_one_session_and_a_retry_has_the_same_id() -> None:
    async def story(server: MailServer, attempts: Attempts) -> Any:
        outcomes = await asyncio.gather(*(attempts.call(MAIL, number) for number in range(1, 51)))
        outcomes.append(await attempts.call(MAIL, 50, attempt=2))
        return outcomes, server

    outcomes, server = play(story)
    assert {one.verdict for one in outcomes} == {Verdict.SUCCEEDED}
    assert (len(server.letters), server.sessions) == (51, 1)
    assert len({letter["message-id"] for letter in server.letters}) == 50


@pytest.mark.parametrize(
    ("script", "verdict", "words"),
    [
        ({"RCPT": "550 5.1.1 nobody here"}, Verdict.REJECTED, "550 5.1.1 nobody here"),
        ({"RCPT": "450 4.2.1 try later"}, Verdict.FAILED, "450 4.2.1 try later"),
        ({"MAIL": "552 5.3.4 too large"}, Verdict.REJECTED, "552 5.3.4 too large"),
        ({"END": "554 5.7.1 spam"}, Verdict.REJECTED, "554 5.7.1 spam"),
        ({"END": "451 4.3.0 disk full"}, Verdict.FAILED, "451 4.3.0 disk full"),
        ({"MAIL": "421 4.3.2 closing"}, Verdict.FAILED, "421 4.3.2 closing"),
        ({"MAIL": "250-" + "x" * 9000}, Verdict.FAILED, "before the mail was sent"),
    ],
)
def test_what_the_server_says_decides_and_the_next_mail_fares_better(
    script: dict[str, str], verdict: Verdict, words: str
) -> None:
    async def story(server: MailServer, attempts: Attempts) -> Any:
        server.script = dict(script)
        first = await attempts.call(MAIL, 1)
        server.script = {}
        return first, await attempts.call(MAIL, 2), server

    first, second, server = play(story)
    assert first.verdict is verdict, first
    assert words in first.error
    assert second.verdict is Verdict.SUCCEEDED
    assert server.recipients[-1] == list(MAIL.to), "nothing is left of the one that was refused"


@pytest.mark.parametrize(
    ("where", "words"), [("DATA", "before the mail was sent"), ("END", "the broker may have the message")]
)
def test_a_lost_connection_says_whether_the_mail_may_have_left(where: str, words: str) -> None:
    async def story(server: MailServer, attempts: Attempts) -> Any:
        server.script = {where: None}
        lost, after = await asyncio.gather(attempts.call(MAIL, 1), attempts.call(MAIL, 2))
        server.script = {}
        return lost, after, await attempts.call(MAIL, 1, attempt=2)

    lost, after, again = play(story)
    assert (lost.verdict, lost.failure) == (Verdict.FAILED, NETWORK)
    assert words in lost.error
    assert "before the mail was sent" in after.error, "what stood in line behind it was not sent"
    assert again.verdict is Verdict.SUCCEEDED


def test_a_server_that_hangs_costs_one_timeout() -> None:
    async def story(server: MailServer, attempts: Attempts) -> Any:
        server.script = {"MAIL": "250-and"}
        hung = await attempts.call(MAIL, 1, seconds=0.2)
        server.script = {}
        return hung, await attempts.call(MAIL, 2), server

    hung, well, server = play(story)
    assert hung.verdict is Verdict.TIMED_OUT
    assert well.verdict is Verdict.SUCCEEDED
    assert server.sessions == 2


class TestLettingIn:
    @pytest.mark.parametrize("mechanisms", ["PLAIN LOGIN", "LOGIN", "CRAM-MD5 PLAIN"])
    def test_a_right_password_lets_us_in_and_a_wrong_one_is_told_without_it(self, mechanisms: str) -> None:
        async def story(server: MailServer, attempts: Attempts) -> Any:
            server.mechanisms = mechanisms
            return await attempts.call(MAIL)

        for word, verdict in (("right", Verdict.SUCCEEDED), ("wröng", Verdict.REJECTED)):
            given = {"login": ("tocsin", "right")}
            outcome = play(story, {"password": word}, given, **LOGIN)
            assert outcome.verdict is verdict, outcome
            assert word not in (outcome.error or "")

    def test_after_starttls_the_mail_is_encrypted_and_what_came_before_is_forgotten(
        self, tmp_path: Path
    ) -> None:
        certificate = write_certificate(tmp_path, "127.0.0.1")
        server = {"tls": server_context(certificate), "login": ("tocsin", "right")}
        secrets = {"password": "right", "ca": certificate.read_text().partition("-----BEGIN EC")[0]}

        async def story(server: MailServer, attempts: Attempts) -> Any:
            return await attempts.call(MAIL), server

        outcome, running = play(story, secrets, server, tls=BrokerTls(ca=SecretRef("ca")), **LOGIN)
        assert outcome.verdict is Verdict.SUCCEEDED, outcome
        words = [line.split(" ")[0] for line in running.heard]
        assert words[:4] == ["EHLO", "STARTTLS", "EHLO", "AUTH"]
        assert running.heard[3].startswith("AUTH PLAIN "), "the forged offer was not believed"

    def test_on_the_port_for_it_tls_comes_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        certificate = write_certificate(tmp_path, "127.0.0.1")
        authorities = certificate.read_text().partition("-----BEGIN EC")[0]

        async def scenario() -> Any:
            server = MailServer()
            listening = await asyncio.start_server(
                server.talk, "127.0.0.1", 0, ssl=server_context(certificate)
            )
            port = listening.sockets[0].getsockname()[1]
            monkeypatch.setattr(smtp_broker, "_TLS_AT_ONCE", port)
            tls = BrokerTls(ca=SecretRef("ca"))
            known = Connection("smtp", (f"127.0.0.1:{port}",), tls, sender="tocsin@shop.example")
            attempts = Attempts(lambda a: SmtpBroker(a, VirtualClock(0)), known, {"ca": authorities})
            outcome = await attempts.call(MAIL)
            await attempts.caller.close()
            listening.close()
            server.hang_up()
            return outcome, server.heard

        outcome, heard = asyncio.run(scenario())
        assert outcome.verdict is Verdict.SUCCEEDED, outcome
        assert "STARTTLS" not in heard

    def test_a_server_without_tls_gets_neither_password_nor_mail(self) -> None:
        async def story(server: MailServer, attempts: Attempts) -> Any:
            return await attempts.call(MAIL), server

        given = {"login": ("tocsin", "right")}
        outcome, server = play(story, {"password": "right"}, given, tls=BrokerTls(), **LOGIN)
        assert outcome.verdict is Verdict.REJECTED
        assert outcome.error == "the mail server does not offer TLS (STARTTLS)"
        assert not [line for line in server.heard if line.startswith(("AUTH", "MAIL"))]

    @pytest.mark.parametrize(
        ("hello", "verdict", "words"),
        [
            ("554 go away", Verdict.REJECTED, "did not let us in: 554 go away"),
            ("421 too many", Verdict.FAILED, "busy: 421 too many"),
            ("HTTP/1.1 400 Bad Request", Verdict.FAILED, "does not speak SMTP"),
        ],
    )
    def test_what_greets_us_otherwise_is_told(self, hello: str, verdict: Verdict, words: str) -> None:
        async def story(server: MailServer, attempts: Attempts) -> Any:
            server.script = {"HELLO": hello}
            tried = await Brokers({"smtp": attempts.opening}).try_out(1, attempts.book.known.connection)
            return await attempts.call(MAIL), tried

        outcome, tried = play(story)
        assert isinstance(outcome, Outcome)
        assert (outcome.verdict, words in (outcome.error or "")) == (verdict, True), outcome
        assert words in (tried.error or "")
