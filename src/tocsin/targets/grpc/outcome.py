"""From the status of a call to an outcome.

`OK` is success, whatever the message says. The target lists the statuses that are worth another attempt. A
server may ask to wait (`grpc-retry-pushback-ms`, `retry-after`, RetryInfo), or not to be asked again
(a negative pushback).
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from tocsin.domain.grpc_target import GrpcTarget
from tocsin.domain.instant import DAY, MILLISECOND, SECOND, Span
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import NETWORK, TIMEOUT
from tocsin.domain.secrets import Redactor
from tocsin.domain.storable import storable, storable_text

KEPT: Final = 64 * 1024
_PUSHBACK: Final = "grpc-retry-pushback-ms"
_DETAILS: Final = "grpc-status-details-bin"
_RETRY_INFO: Final = b"type.googleapis.com/google.rpc.RetryInfo"
Metadata = Iterable[tuple[str, Any]]


def succeeded(answer: dict[str, Any], redactor: Redactor) -> Outcome:
    """A call that ended with OK."""
    detail: dict[str, Any] = {"status": "OK"}
    text = json.dumps(answer, ensure_ascii=False)
    if redactor:
        text = redactor.body(text.encode(), truncated=False).decode("utf-8", "replace")
    if len(text) > KEPT:
        detail |= {"truncated": True}
    elif answer:
        detail["message"] = storable(json.loads(text))
    return Outcome(Verdict.SUCCEEDED, detail=detail)


def failed(target: GrpcTarget, code: str, words: str, trailing: Metadata, redactor: Redactor) -> Outcome:
    """A call that ended with another status."""
    told = redactor.text(storable_text(words))[:4096]
    detail = {"status": code, "message": told} if told else {"status": code}
    pushback, wait = _asked_to_wait(trailing)
    error = f"the target answered {code}"
    if code == "DEADLINE_EXCEEDED" and code in target.retry_on and not pushback:
        return Outcome(Verdict.TIMED_OUT, error, detail, wait, TIMEOUT)
    retried = code in target.retry_on and not pushback
    away = NETWORK if retried and code == "UNAVAILABLE" else None
    return Outcome(Verdict.FAILED if retried else Verdict.REJECTED, error, detail, wait, away)


def _asked_to_wait(trailing: Metadata) -> tuple[bool, Span | None]:
    """Whether the server wants no other attempt, and how long it asks to wait."""
    given = dict(trailing)
    pushback, after = (_number(given.get(name)) for name in (_PUSHBACK, "retry-after"))
    if pushback is not None:
        return pushback < 0, None if pushback < 0 else min(pushback * MILLISECOND, DAY)
    if after is not None and after >= 0:
        return False, min(after * SECOND, DAY)
    details = given.get(_DETAILS)
    return False, _retry_info(details) if isinstance(details, bytes) else None


def _number(value: Any) -> int | None:
    text = value if isinstance(value, str) else ""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def _retry_info(details: bytes) -> Span | None:
    """The delay of a RetryInfo in a google.rpc.Status. A status that cannot be read says nothing."""
    for field, value in _fields(details):
        if field == 3 and isinstance(value, bytes):
            inner = dict(_fields(value))
            info = inner.get(2)
            if inner.get(1) == _RETRY_INFO and isinstance(info, bytes):
                delay = dict(_fields(info)).get(1)
                parts = dict(_fields(delay)) if isinstance(delay, bytes) else {}
                seconds, nanos = parts.get(1, 0), parts.get(2, 0)
                if isinstance(seconds, int) and isinstance(nanos, int) and seconds < 2**31:
                    return min(seconds * SECOND + nanos // 1000, DAY)
    return None


def _fields(data: bytes) -> Iterable[tuple[int, int | bytes]]:
    """The numbers and byte strings of a message, read as the wire has them. Ends where it makes no sense."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value, at = _varint(data, at)
        if key is None or value is None:
            return
        if key & 7 == 0:
            yield key >> 3, value
        elif key & 7 == 2 and at + value <= len(data):
            yield key >> 3, data[at : at + value]
            at += value
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
    return None, at
