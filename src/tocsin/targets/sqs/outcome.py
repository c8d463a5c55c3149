"""What SQS means by what it answers: taken, busy, or refused.

Errors have a code. Those that time mends are tried again; a queue that is not there and credentials that are
wrong are not.
"""

import re
from typing import Final

import msgspec

from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.message.message import busy, rejected

_BUSY: Final = re.compile(r"throttl|overlimit|unavailable|internal|timeout|slowdown|busy", re.IGNORECASE)
_NOT_LET_IN: Final = re.compile(
    r"signature|token|unrecognizedclient|invalidaccesskey|missingauthentication|notauthorized|invalidsecurity|optinrequired",
    re.IGNORECASE,
)
_SKEWED: Final = re.compile(r"expired: |not yet current|TooSkewed|RequestExpired", re.IGNORECASE)
"""The clocks of the two sides disagree: nothing is wrong with the message."""


class Taken(msgspec.Struct, frozen=True, rename="pascal"):
    """A message that the queue has."""

    id: str
    message_id: str = ""
    sequence_number: str | None = None


class Failed(msgspec.Struct, frozen=True, rename="pascal"):
    """A message of a batch that the queue has not."""

    id: str
    code: str = ""
    message: str = ""
    sender_fault: bool = False


class BatchAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    """What became of each message of a batch."""

    successful: list[Taken] = []
    failed: list[Failed] = []


class Trouble(msgspec.Struct, frozen=True):
    """An answer that is an error as a whole."""

    status: int
    code: str
    detail: str

    @property
    def is_busy(self) -> bool:
        """Whether it may fare better later."""
        mends = _BUSY.search(self.code) or _SKEWED.search(f"{self.code} {self.detail}")
        return self.status >= 500 or self.status in (408, 429) or mends is not None

    @property
    def not_let_in(self) -> bool:
        """Whether our credentials are no good."""
        return not self.is_busy and _NOT_LET_IN.search(self.code) is not None

    @property
    def outcome(self) -> Outcome:
        """What it means for every message of the request."""
        if self.not_let_in:
            return Outcome(Verdict.REJECTED, f"the broker did not let us in: {self.code}"[:500])
        return (busy if self.is_busy else rejected)(_words(self.code, self.detail))


class _Error(msgspec.Struct, frozen=True):
    type: str = msgspec.field(default="", name="__type")
    lower: str = msgspec.field(default="", name="message")
    upper: str = msgspec.field(default="", name="Message")


def trouble_of(status: int, body: bytes) -> Trouble:
    """An error, read as far as it can be."""
    try:
        error = msgspec.json.decode(body, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = _Error()
    code = error.type.rpartition("#")[2][:100] or f"status {status}"
    return Trouble(status, code, (error.lower or error.upper)[:300])


def of_taken(taken: Taken) -> Outcome:
    """The queue has the message."""
    detail = {"message_id": taken.message_id}
    if taken.sequence_number is not None:
        detail["sequence"] = taken.sequence_number
    return Outcome(Verdict.SUCCEEDED, detail=detail)


def of_failed(failed: Failed) -> Outcome:
    """The queue has not, while it may have others of the same batch."""
    is_busy = not failed.sender_fault or _BUSY.search(failed.code) is not None
    return (busy if is_busy else rejected)(_words(failed.code, failed.message))


def _words(code: str, detail: str) -> str:
    return f"{code}: {detail}" if detail else code
