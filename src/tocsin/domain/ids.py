"""Typed, sortable, reversible identifiers.

A job is a UUID of version 7: its first 48 bits are the creation time in milliseconds, so ids sort by age and
index inserts stay local. Ten of the bits after that are its partition (`domain/cells.py`): the twelfth and
thirteenth letter of its text. In ids that were made before they are random like all others, and that is a
hash: every id has a partition, and nothing needs to tell old ids from new ones. An execution has no id of its
own: its identity is (job, fire time), and the text form carries both, so that decoding needs no lookup. Texts
are lower-case Crockford base 32 behind a prefix that says what they name.
"""

import os
from typing import Annotated, Final, NamedTuple
from uuid import UUID

from tocsin.domain.cells import PARTITIONS
from tocsin.domain.errors import NotFound
from tocsin.domain.instant import EARLIEST, LATEST, MILLISECOND, Instant
from tocsin.domain.written import described

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_VALUE_OF: Final = {letter: value for value, letter in enumerate(_ALPHABET)} | {"i": 1, "l": 1, "o": 0}
_NO_DIGIT: Final = ord("!")
_DIGITS: Final = bytes(
    ord("0123456789abcdefghijklmnopqrstuv"[_VALUE_OF[letter]]) if letter in _VALUE_OF else _NO_DIGIT
    for letter in map(chr, range(256))
)
"""Our letters as `int` reads them to base 32, which is thirty times as fast as letter by letter."""
_JOB_PREFIX: Final = "job_"
_EXECUTION_PREFIX: Final = "exec_"
_WORKER_PREFIX: Final = "wrk_"
_WORKER_LETTERS: Final = 13  # 63 bits
_JOB_LETTERS: Final = 26  # 128 bits
_EXECUTION_LETTERS: Final = 39  # 128 + 64 bits
JobText = Annotated[str, described(pattern=f"^{_JOB_PREFIX}[0-9A-Za-z]{{{_JOB_LETTERS}}}$")]
ExecutionText = Annotated[str, described(pattern=f"^{_EXECUTION_PREFIX}[0-9A-Za-z]{{{_EXECUTION_LETTERS}}}$")]
WorkerText = Annotated[str, described(pattern=f"^{_WORKER_PREFIX}[0-9A-Za-z]{{{_WORKER_LETTERS}}}$")]
_VERSION: Final = 0x7000_8000_0000_0000_0000  # seven, of the RFC's variant
_RANDOM: Final = 0x0FFF_3FFF_FFFF_FFFF_FFFF  # what these leave of an id's last 80 bits
_PARTITION_SHIFT: Final = 65  # two whole letters; apart from the bits that `shard_of` reads
_PARTITION: Final = (PARTITIONS - 1) << _PARTITION_SHIFT
_SIXTY_BITS: Final = (1 << 60) - 1
_INSTANT_BIAS: Final = 1 << 63  # instants before 1970 sort before later ones


class _Entropy:
    """The system's random bytes, fetched many at a time: a call of the kernel per id is dear under a
    flood."""

    def __init__(self) -> None:
        self._bytes = b""
        self._at = 0
        os.register_at_fork(after_in_child=self.forget)

    def take(self) -> bytes:
        """Ten fresh bytes."""
        if self._at >= len(self._bytes):
            self._bytes, self._at = os.urandom(10 * 256), 0
        self._at += 10
        return self._bytes[self._at - 10 : self._at]

    def forget(self) -> None:
        """A child process must not draw what its parent draws."""
        self._bytes = b""


_entropy: Final = _Entropy()


class ExecutionKey(NamedTuple):
    """The identity of an execution: one firing of one job."""

    job_id: UUID
    fire_at: Instant


def new_job_id(now: Instant, partition: int | None = None) -> UUID:
    """A fresh UUIDv7 stamped with `now`, in a partition or, without one, in any."""
    stamp = (now // MILLISECOND) & 0xFFFF_FFFF_FFFF
    value = stamp << 80 | _VERSION | int.from_bytes(_entropy.take(), "big") & _RANDOM
    return UUID(int=value if partition is None else value & ~_PARTITION | partition << _PARTITION_SHIFT)


def made_at(job_id: UUID) -> Instant:
    """When an id was made, by its maker's clock."""
    return (job_id.int >> 80) * MILLISECOND


def partition_of(job_id: UUID) -> int:
    """The partition a job belongs to: stable for ever, whatever becomes of its name."""
    return (job_id.int & _PARTITION) >> _PARTITION_SHIFT


def shard_of(job_id: UUID, shard_count: int) -> int:
    """The shard a job belongs to, taken from the id's random tail: stable for ever, even over a herd."""
    return (job_id.int & 0xFFFF_FFFF) % shard_count


def job_text(job_id: UUID) -> str:
    """``job_…``: what users see."""
    return _JOB_PREFIX + _encode(job_id.int, _JOB_LETTERS)


def execution_text(key: ExecutionKey) -> str:
    """``exec_…``: the job id followed by the fire time."""
    return _EXECUTION_PREFIX + _encode(key.job_id.int << 64 | key.fire_at + _INSTANT_BIAS, _EXECUTION_LETTERS)


def worker_text(worker_id: int) -> str:
    """``wrk_…``: a remote worker."""
    return _WORKER_PREFIX + _encode(worker_id, _WORKER_LETTERS)


def parse_worker_text(text: str) -> int:
    """Back to the number; anything else names no worker."""
    return _decode(text, _WORKER_PREFIX, _WORKER_LETTERS, 63, "worker")


def parse_job_text(text: str) -> UUID:
    """Back to the key; anything else names no job."""
    return UUID(int=_decode(text, _JOB_PREFIX, _JOB_LETTERS, 128, "job"))


def parse_execution_text(text: str) -> ExecutionKey:
    """Back to the key; anything else names no execution."""
    value = _decode(text, _EXECUTION_PREFIX, _EXECUTION_LETTERS, 192, "execution")
    fire_at = (value & (1 << 64) - 1) - _INSTANT_BIAS
    if not EARLIEST <= fire_at <= LATEST:
        raise NotFound(f"no execution {text!r}")
    return ExecutionKey(UUID(int=value >> 64), fire_at)


def _encode(value: int, letters: int) -> str:
    """Two letters at a time, twelve of them (60 bits) of a small number cut from the large one: shifts of
    that are dear. Surplus digits at the left are nought."""
    text = ""
    while len(text) < letters:
        some = value & _SIXTY_BITS
        value >>= 60
        text = (
            f"{_PAIRS[some >> 50]}{_PAIRS[some >> 40 & 1023]}{_PAIRS[some >> 30 & 1023]}"
            f"{_PAIRS[some >> 20 & 1023]}{_PAIRS[some >> 10 & 1023]}{_PAIRS[some & 1023]}{text}"
        )
    return text[-letters:]


def _decode(text: str, prefix: str, letters: int, bits: int, what: str) -> int:
    body = text[len(prefix) :].lower()
    if not text.startswith(prefix) or len(body) != letters:
        raise NotFound(f"no {what} {text[:80]!r}: an id looks like {prefix}{'0' * 4}…")
    digits = body.encode("ascii", "replace").translate(_DIGITS)
    if (place := digits.find(_NO_DIGIT)) >= 0:
        raise NotFound(f"no {what} {text!r}: {body[place]!r} is not part of an id")
    value = int(digits, 32)
    if value >> bits:
        raise NotFound(f"no {what} {text!r}")
    return value
