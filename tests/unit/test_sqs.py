"""SQS: signatures against published ones, what errors mean, and what is refused before anything is sent."""

from typing import Any

import pytest

from tests.engines import sqs_server
from tocsin.domain.connection import BrokerTls, Connection, check_connection
from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND
from tocsin.domain.message_target import SqsTarget, check_message
from tocsin.domain.outcome import Verdict
from tocsin.domain.secrets import SecretRef
from tocsin.targets.sqs.outcome import Failed, of_failed, trouble_of
from tocsin.targets.sqs.signing import Credentials, signed, signing_key

EXAMPLE = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1")
NOON = 1_440_938_160 * SECOND  # 2015-08-30T12:36:00Z


class TestSigning:
    @pytest.mark.parametrize(
        ("method", "signature"),
        [
            ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ],
    )
    def test_the_published_examples_come_out(self, method: str, signature: str) -> None:
        headers = signed(method, {"host": "example.amazonaws.com"}, b"", EXAMPLE, "service", NOON)
        assert headers["x-amz-date"] == "20150830T123600Z"
        assert headers["authorization"] == (
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            f"SignedHeaders=host;x-amz-date, Signature={signature}"
        )

    def test_the_published_key_of_a_day_comes_out(self) -> None:
        key = signing_key(EXAMPLE, "iam", "20120215")
        assert key.hex() == "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"

    def test_a_changed_request_is_found_out_and_a_session_is_signed_too(self) -> None:
        credentials = Credentials("me", "hush", "eu-central-1", "for-an-hour")
        given = {"host": "sqs.example.com", "content-type": "text/plain", "x-note": "two   blanks"}
        headers = signed("POST", given, b"body", credentials, "sqs", NOON)
        secrets = {"me": "hush"}
        forged = headers | {"x-amz-security-token": "for-ever"}
        assert sqs_server.verify("POST", "/", headers, b"body", secrets) is None
        for target, sent, body in (
            ("/?c", headers, b"body"),
            ("/", headers, b"Body"),
            ("/", forged, b"body"),
        ):
            assert sqs_server.verify("POST", target, sent, body, secrets) == "SignatureDoesNotMatch"
        assert "hush" not in repr(credentials)
        assert "for-an-hour" not in repr(credentials)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("status", "code", "verdict"),
        [
            (400, "com.amazonaws.sqs#QueueDoesNotExist", Verdict.REJECTED),
            (400, "com.amazonaws.sqs#BatchRequestTooLong", Verdict.REJECTED),
            (403, "com.amazon.coral.service#AccessDeniedException", Verdict.REJECTED),
            (403, "com.amazon.coral.service#ExpiredTokenException", Verdict.REJECTED),
            (400, "com.amazonaws.sqs#RequestThrottled", Verdict.FAILED),
            (400, "com.amazonaws.sqs#OverLimit", Verdict.FAILED),
            (400, "com.amazon.coral.availability#ThrottlingException", Verdict.FAILED),
            (400, "com.amazonaws.sqs#KmsThrottled", Verdict.FAILED),
            (429, "", Verdict.FAILED),
            (500, "com.amazon.coral.service#InternalFailure", Verdict.FAILED),
            (503, "", Verdict.FAILED),
            (301, "", Verdict.REJECTED),
        ],
    )
    def test_an_error_is_tried_again_if_time_may_mend_it(
        self, status: int, code: str, verdict: Verdict
    ) -> None:
        body = f'{{"__type": "{code}", "message": "words"}}'.encode()
        assert trouble_of(status, body).outcome.verdict is verdict

    def test_clocks_that_disagree_are_no_fault_of_the_message(self) -> None:
        words = "Signature expired: 20270115T080000Z is now earlier than 20270115T081000Z"
        body = f'{{"__type": "x#InvalidSignatureException", "message": "{words}"}}'.encode()
        assert trouble_of(403, body).outcome.verdict is Verdict.FAILED
        assert not trouble_of(403, body).not_let_in

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"__type": 7}', b"\xff{"])
    def test_what_cannot_be_read_is_judged_by_its_status(self, body: bytes) -> None:
        assert trouble_of(502, body).outcome.verdict is Verdict.FAILED
        assert trouble_of(400, body).outcome.error == "the broker refused the message: status 400"

    def test_a_message_of_a_batch_is_refused_only_if_it_is_at_fault(self) -> None:
        mine = Failed("0", "InvalidMessageContents", "no", sender_fault=True)
        theirs = Failed("1", "InternalError", "no", sender_fault=False)
        throttled = Failed("2", "ThrottlingException", "no", sender_fault=True)
        verdicts = [of_failed(one).verdict for one in (mine, theirs, throttled)]
        assert verdicts == [Verdict.REJECTED, Verdict.FAILED, Verdict.FAILED]


TARGET: dict[str, Any] = {"connection": "aws", "queue_url": "https://sqs.example.com/1/due", "body": "x"}
CONNECTION: dict[str, Any] = {
    "kind": "sqs", "addresses": ("sqs.example.com",), "region": "eu-central-1",
    "username": "AKIDEXAMPLE", "password": SecretRef("aws-key"),
}  # fmt: skip


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"queue_url": "due"}, "target.queue_url"),
            ({"queue_url": "https://sqs.example.com/1/due.fifo"}, "target.group"),
            ({"group": "a b"}, "target.group"),
            ({"body": None}, "target.body"),
            ({"body": ""}, "target.body"),
            ({"body": "a\x00b"}, "target.body"),
            ({"body": "x" * 10_000_000}, "target.body"),
            ({"attributes": {"AWS.x": "y"}}, "target.attributes.AWS.x"),
            ({"attributes": {"a..b": "y"}}, "target.attributes.a..b"),
            ({"attributes": {"a": ""}}, "target.attributes.a"),
            ({"attributes": {"tocsin-job": "mine"}}, "target.attributes.tocsin-job"),
            ({"attributes": {str(n): "x" for n in range(5)}}, "target.attributes"),
        ],
    )
    def test_what_sqs_would_not_take_is_refused_by_its_field(
        self, change: dict[str, Any], field: str
    ) -> None:
        check_message(SqsTarget(**TARGET))
        with pytest.raises(Refused) as refused:
            check_message(SqsTarget(**(TARGET | change)))
        assert refused.value.field == field

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"region": None}, "region"),
            ({"region": "Mars"}, "region"),
            ({"username": None}, "username"),
            ({"password": None}, "password"),
            ({"virtual_host": "x"}, "virtual_host"),
            ({"tls": BrokerTls(server_name="other.example.com")}, "tls.server_name"),
            ({"kind": "redis"}, "region"),
        ],
    )
    def test_a_connection_says_what_it_lacks(self, change: dict[str, Any], field: str) -> None:
        check_connection(Connection(**CONNECTION, token=SecretRef("session")))
        with pytest.raises(Refused) as refused:
            check_connection(Connection(**(CONNECTION | change)))
        assert refused.value.field == field
