"""One message on its way: what is sent, and how the attempt to send it ends.

The fields of every message are those of every webhook, under the same names. The idempotency key is the same
over retries, and is the broker's own key where the broker drops duplicates.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from tocsin.domain.message_target import MessageTarget, bytes_of
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.policy import NETWORK
from tocsin.targets.assignment import Assignment
from tocsin.targets.http.headers import own_headers

_LOST: Final = "the connection was lost before the broker acknowledged; the broker may have the message"


class Message(msgspec.Struct, frozen=True, gc=False):
    """What a broker is given."""

    target: MessageTarget
    key: str
    """The idempotency key: the execution's identity."""
    headers: Mapping[str, str]
    """Ours."""
    body: bytes


class Parcel:
    """A message with its deadline, and the future that holds how it ended. Ends once; a caller that gave up
    is not told."""

    __slots__ = ("deadline", "ended", "message")

    def __init__(self, message: Message, deadline: float) -> None:
        self.message = message
        self.deadline = deadline
        self.ended: asyncio.Future[Outcome | Postponed] = asyncio.get_running_loop().create_future()

    def end(self, outcome: Outcome | Postponed) -> None:
        """Say how it ended, unless that is known or the caller has given up."""
        if not self.ended.done():
            self.ended.set_result(outcome)


def message_of(assignment: Assignment, target: MessageTarget) -> Message:
    """The message of one attempt."""
    body, content_type = bytes_of(target.body)
    headers = own_headers(assignment)
    if content_type is not None:
        headers["content-type"] = content_type
    return Message(target, assignment.execution, headers, body)


def away(error: str) -> Outcome:
    """The broker could not be reached or was lost: another attempt follows."""
    return Outcome(Verdict.FAILED, error, failure=NETWORK)


def lost() -> Outcome:
    """Sent, and not acknowledged when the connection ended."""
    return away(_LOST)


def busy(error: str) -> Outcome:
    """The broker said that it cannot take the message now."""
    return Outcome(Verdict.FAILED, f"the broker is busy: {error}"[:500])


def rejected(error: str) -> Outcome:
    """The broker said that it will not take the message."""
    return Outcome(Verdict.REJECTED, f"the broker refused the message: {error}"[:500])
