"""Ids of traces: one trace per execution, one span per attempt.

All of them are computed from the execution's id. So every process that knows an execution can add to its
trace, and a retry on another worker is in the same trace as the attempt before it.
"""

import hashlib
import re
from typing import Final, NamedTuple

_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_INVALID: Final = frozenset({"0" * 32, "0" * 16})


class Parent(NamedTuple):
    """A span of the caller, as `traceparent` names it."""

    trace: str
    span: str
    sampled: bool


def trace_of(execution: str) -> str:
    """The trace of an execution."""
    return hashlib.blake2b(execution.encode(), digest_size=16).hexdigest()


def span_of_execution(execution: str) -> str:
    """The span that all attempts at an execution are below."""
    return hashlib.blake2b(execution.encode(), digest_size=8).hexdigest()


def span_of_attempt(execution: str, attempt: int) -> str:
    """The span of one attempt, and what its target is told as its parent."""
    return hashlib.blake2b(f"{execution}/{attempt}".encode(), digest_size=8).hexdigest()


def traceparent(execution: str, attempt: int) -> str:
    """What the target of an attempt is told."""
    return f"00-{trace_of(execution)}-{span_of_attempt(execution, attempt)}-01"


def read_traceparent(text: str | None) -> Parent | None:
    """The span that a request belongs to. A header that is none is as good as no header."""
    found = None if text is None else _PARENT.fullmatch(text.strip().lower())
    if found is None or found[1] in _INVALID or found[2] in _INVALID or text is None or text.startswith("ff"):
        return None
    return Parent(found[1], found[2], bool(int(found[3], 16) & 1))
