"""Signatures: an independent library accepts what we sign, with either of two live secrets, and nothing that
was altered."""

import base64
import time

import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from tocsin.domain.signature import new_signing_secret, signature_headers, signing_secret_text

BODY = b'{"report": "daily"}'
ID = "exec_0001"


def _now() -> int:
    return int(time.time())


@pytest.mark.parametrize("body", [b"", BODY, "Zürich".encode(), b"\n"])
def test_the_reference_library_verifies_our_signatures(body: bytes) -> None:
    secret = new_signing_secret()
    headers = signature_headers([secret], ID, _now(), body)
    _verify(secret, body, headers)


def test_a_secret_is_32_random_bytes_behind_a_prefix() -> None:
    text = signing_secret_text(new_signing_secret())
    assert text.startswith("whsec_")
    assert len(base64.b64decode(text.removeprefix("whsec_"))) == 32
    assert text != signing_secret_text(new_signing_secret())


def test_while_two_secrets_live_either_verifies() -> None:
    old, new, other = (new_signing_secret() for _ in range(3))
    headers = signature_headers([new, old], ID, _now(), BODY)
    assert headers["webhook-signature"].count("v1,") == 2
    _verify(new, BODY, headers)
    _verify(old, BODY, headers)
    with pytest.raises(WebhookVerificationError):
        _verify(other, BODY, headers)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_what_was_altered_does_not_verify(name: str) -> None:
    secret = new_signing_secret()
    headers = signature_headers([secret], ID, _now(), BODY)
    other = {"webhook-id": ID + "x", "webhook-timestamp": str(_now() - 60), "webhook-signature": "v1,AAAA"}
    altered = {**headers, name: other[name]}
    with pytest.raises(WebhookVerificationError):
        _verify(secret, BODY, altered)
    with pytest.raises(WebhookVerificationError):
        _verify(secret, BODY + b" ", headers)


def test_without_a_secret_the_request_is_named_and_dated_but_not_signed() -> None:
    assert signature_headers([], ID, 7, BODY) == {"webhook-id": ID, "webhook-timestamp": "7"}


def _verify(secret: bytes, body: bytes, headers: dict[str, str]) -> None:
    Webhook(signing_secret_text(secret)).verify(body, headers, json_parse=False)
