"""Reading one answer from bytes: pieces do not matter, bounds hold, and nothing is ever half believed."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind, HttpLimits
from tocsin.targets.http.response import ResponseReader

LIMITS = HttpLimits(head_bytes=512, read_bytes=2048, kept_bytes=64)
ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nT: u\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b"x" * 500,
)


def read(wire: bytes, cuts: list[int]) -> tuple[Answer, bool]:
    """The answer in `wire`, fed in pieces, and whether the connection may be used again."""
    reader = ResponseReader(LIMITS, bodiless=False)
    edges = [0, *sorted({cut % len(wire) for cut in cuts} - {0}), len(wire)]
    done = [reader.feed(wire[start:end]) for start, end in itertools.pairwise(edges)]
    assert done == [False] * (len(done) - 1) + [True]
    return reader.take_answer(), reader.reusable


@given(st.sampled_from(ANSWERS), st.lists(st.integers(0, 1000), max_size=20))
def test_pieces_do_not_matter(wire: bytes, cuts: list[int]) -> None:
    """However the bytes are cut, the same answer comes out, exactly at the last byte."""
    assert read(wire, cuts) == read(wire, [])


@given(st.binary(max_size=4000), st.sampled_from((b"", *ANSWERS)), st.integers(0, 600))
def test_no_bytes_break_the_reader(noise: bytes, wire: bytes, at: int) -> None:
    """Whatever is spliced into an answer, the reader answers, asks for more, or fails in one known way."""
    reader = ResponseReader(LIMITS, bodiless=False)
    with contextlib.suppress(DeliveryFailed):
        if reader.feed(wire[:at] + noise + wire[at:]) or reader.feed_eof():
            answer = reader.take_answer()
            assert 200 <= answer.status < 600
            assert len(answer.body) <= LIMITS.kept_bytes


@pytest.mark.parametrize(("size", "reusable"), [(64, True), (65, True), (2048, True), (3000, False)])
def test_a_body_is_read_to_its_end_within_the_bound(size: int, reusable: bool) -> None:
    """Beyond the kept size a body is cut; beyond the read bound the answer stands but the connection does
    not."""
    reader = ResponseReader(LIMITS, bodiless=False)
    assert reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * min(size, 2049))
    assert reader.take_answer().truncated == (size > LIMITS.kept_bytes)
    assert reader.reusable == reusable


@pytest.mark.parametrize("extra", [0, 1])
def test_a_head_is_read_exactly_within_the_bound(extra: int) -> None:
    """One byte more than the bound, without an end in sight, is too much."""
    reader = ResponseReader(LIMITS, bodiless=False)
    start = b"HTTP/1.1 200 OK\r\nX: "
    head = start + b"x" * (LIMITS.head_bytes - len(start) + extra)
    if extra:
        with pytest.raises(DeliveryFailed) as failed:
            reader.feed(head)
        assert failed.value.kind is FailureKind.TOO_LARGE
    else:
        assert not reader.feed(head)


def test_a_short_head_before_a_long_body_is_not_too_large() -> None:
    """Body that arrives together with the head does not count against the head."""
    reader = ResponseReader(LIMITS, bodiless=False)
    assert reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1500\r\n\r\n" + b"x" * 1500)


@pytest.mark.parametrize(
    ("wire", "whole"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3\r\nabc\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", True),
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\n\r\nabc", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n", False),
    ],
)
def test_the_end_of_the_stream_ends_only_unmeasured_answers(wire: bytes, whole: bool) -> None:
    """The end of the stream completes an answer without framing and none other."""
    reader = ResponseReader(LIMITS, bodiless=False)
    assert not reader.feed(wire)
    assert reader.feed_eof() == whole
