"""Targets: what could never be delivered is refused, by field; the rest becomes the bytes of a request."""

from typing import Any

import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.instant import HOUR, SECOND
from tocsin.domain.nesting import MAX_DEPTH
from tocsin.domain.target import (
    DEFAULT_TIMEOUT,
    MAX_BODY,
    HttpTarget,
    NoopTarget,
    body_of,
    check_target,
    timeout_of,
)
from tocsin.domain.task_target import MAX_PAYLOAD, TaskTarget

URL = "https://example.com/hook"


def _refused(**fields: Any) -> str | None:
    with pytest.raises(Refused) as refused:
        check_target(HttpTarget(URL, **fields))
    return refused.value.field


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_the_methods_of_http_are_accepted(method: str) -> None:
    check_target(HttpTarget(URL, method))


@pytest.mark.parametrize("method", ["", "get", "CONNECT", "TRACE", "GET /", "GET\r\n", "POST" * 1000])
def test_any_other_method_is_refused(method: str) -> None:
    assert _refused(method=method) == "target.method"


@pytest.mark.parametrize("name", ["X-A", "x_a", "!#$%&'*+.^_`|~", "a" * 128])
@pytest.mark.parametrize("value", ["", "a", "tab\tinside", "Zürich", "\xa0\xff", "a" * 4096])
def test_headers_that_can_be_sent_are_accepted(name: str, value: str) -> None:
    check_target(HttpTarget(URL, headers={name: value}))


@pytest.mark.parametrize("name", ["", " ", "a b", "a:", "a\n", "ä", "a" * 129, "(x)", "\0"])
def test_header_names_that_cannot_be_sent_are_refused(name: str) -> None:
    assert _refused(headers={name: "1"}) == f"target.headers.{name[:64]}"


@pytest.mark.parametrize("value", ["a\n", "a\r", "\x00", "\x1f", "\x7f", "€", "日本", "a" * 4097, "\ud800"])
def test_header_values_that_cannot_be_sent_are_refused(value: str) -> None:
    assert _refused(headers={"X": value}) == "target.headers.X"


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-length", "Transfer-Encoding", "CONNECTION", "keep-alive", "Proxy-Connection", "TE", "Trailer",
        "Upgrade", "Expect", "Idempotency-Key", "tocsin-attempt", "Tocsin-Anything",
    ],
)  # fmt: skip
def test_headers_that_belong_to_tocsin_are_refused_in_any_case(name: str) -> None:
    assert _refused(headers={name: "1"}) == f"target.headers.{name}"


def test_a_header_in_two_spellings_and_too_many_headers_are_refused() -> None:
    assert _refused(headers={"A": "1", "a": "2"}) == "target.headers"
    assert _refused(headers={f"X-{n}": "" for n in range(65)}) == "target.headers"
    check_target(HttpTarget(URL, headers={f"X-{n}": "" for n in range(64)}))


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        (None, b"", None),
        ("", b"", "text/plain; charset=utf-8"),
        ("Zürich", "Zürich".encode(), "text/plain; charset=utf-8"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
        ([], b"[]", "application/json"),
        (0, b"0", "application/json"),
        (False, b"false", "application/json"),
        (10**40, b"1" + b"0" * 40, "application/json"),
    ],
)
def test_a_body_becomes_bytes_and_a_content_type(body: Any, sent: bytes, kind: str | None) -> None:
    assert body_of(HttpTarget(URL, body=body)) == (sent, kind)


def test_a_body_is_limited_as_it_is_sent() -> None:
    check_target(HttpTarget(URL, body="ü" * (MAX_BODY // 2)))
    assert _refused(body="ü" * (MAX_BODY // 2 + 1)) == "target.body"
    assert _refused(body=["x" * MAX_BODY]) == "target.body"


def _nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def test_a_body_may_be_nested_so_deep_and_no_deeper() -> None:
    check_target(HttpTarget(URL, body=_nested(MAX_DEPTH)))
    assert _refused(body=_nested(MAX_DEPTH + 1)) == "target.body"
    assert _refused(body=_nested(100_000)) == "target.body"


@pytest.mark.parametrize("timeout", ["100ms", 0.1, "24h", 86400])
def test_timeouts_within_a_day_are_accepted(timeout: Any) -> None:
    check_target(HttpTarget(URL, timeout=timeout))


@pytest.mark.parametrize("timeout", [0, -1, "99ms", "25h", "", "soon", float("nan"), float("inf")])
def test_other_timeouts_are_refused(timeout: Any) -> None:
    assert _refused(timeout=timeout) == "target.timeout"


def test_the_timeout_of_a_target_is_its_own_or_the_default() -> None:
    assert timeout_of(HttpTarget(URL, timeout="1h")) == HOUR
    assert timeout_of(HttpTarget(URL, timeout=1.5)) == 3 * SECOND // 2
    assert timeout_of(HttpTarget(URL)) == timeout_of(NoopTarget()) == DEFAULT_TIMEOUT


def test_a_target_that_does_nothing_is_always_fine() -> None:
    check_target(NoopTarget())


@pytest.mark.parametrize("name", ["shop.send_receipt", "_", "billing:charge-v2", "9lives", "a" * 128])
def test_a_task_is_known_by_a_name_that_any_language_can_write(name: str) -> None:
    check_target(TaskTarget(name, payload={"order": 17}, trace=f"00-{'a' * 32}-{'b' * 16}-01"))


@pytest.mark.parametrize(
    ("target", "field"),
    [
        (TaskTarget(""), "target.task"),
        (TaskTarget(".hidden"), "target.task"),
        (TaskTarget("has space"), "target.task"),
        (TaskTarget("a" * 129), "target.task"),
        (TaskTarget("a", payload="x" * MAX_PAYLOAD), "target.payload"),
        (TaskTarget("a", payload=_nested(MAX_DEPTH + 1)), "target.payload"),
        (TaskTarget("a", payload=_nested(100_000)), "target.payload"),
        (TaskTarget("a", trace="00-abc-def-01"), "target.trace"),
    ],
)
def test_a_task_that_no_worker_could_be_given_is_refused(target: TaskTarget, field: str) -> None:
    with pytest.raises(Refused) as refused:
        check_target(target)
    assert refused.value.field == field
