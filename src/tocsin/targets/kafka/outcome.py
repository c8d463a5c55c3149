"""What Kafka means by the code that it answers a batch with.

A batch is written or not as a whole. Some codes say that it was not and may be later, some that it is
unknown, some that one message of it is at fault; every other refuses it for good. Numbers are those of the
protocol.
"""

from enum import Enum
from typing import Final

WRITTEN: Final = frozenset({0, 46})
"""46: it had been written before, under the same numbers."""
_MOVED: Final = frozenset({3, 5, 6, 9, 56, 72, 74, 75, 76, 100})
_BUSY: Final = frozenset({8, 14, 15, 16, 19, 51, 89})
_UNSURE: Final = frozenset({-1, 7, 13, 20})
_FORGOTTEN: Final = frozenset({45, 47, 59, 90})
_OF_ONE: Final = frozenset({2, 10, 18, 32, 87})
NO_TOPIC: Final = 3
NO_LEADER: Final = 5
_WORDS: Final = {
    -1: "it met an error of its own",
    2: "it says that the message is damaged; a compacted topic needs a key",
    3: "there is no such topic",
    5: "the partition has no leader now",
    6: "the partition's leader is moving",
    7: "it did not get the replicas' answers in time",
    10: "it is larger than the topic takes",
    17: "the topic has no valid name",
    18: "it is larger than the topic takes",
    19: "fewer replicas are in sync than the topic asks for",
    20: "fewer replicas are in sync than the topic asks for",
    29: "not allowed to write to this topic",
    31: "not allowed to write as an idempotent producer",
    32: "its time is outside of what the topic takes",
    44: "a policy of the cluster forbids it",
    56: "it cannot write to its disk",
    87: "the topic does not take such a message; a compacted one needs a key",
    89: "a quota is used up",
}


class Meaning(Enum):
    """What is to be done about a batch."""

    WRITTEN = "the topic has it"
    MOVED = "not written: another node leads the partition, or none for now"
    BUSY = "not written, and may be later"
    UNSURE = "written or not; sent again under the same numbers it is written once"
    FORGOTTEN = "not written: the node does not know our numbers any more"
    OF_ONE = "not written, because of one of its messages"
    REFUSED = "not written, and never will be"

    @property
    def mends(self) -> bool:
        """Whether the same batch may be taken if it is sent again."""
        return self in (Meaning.MOVED, Meaning.BUSY, Meaning.UNSURE)


def meaning_of(code: int) -> Meaning:
    """Of a code in the answer to a batch."""
    for codes, meaning in (
        (WRITTEN, Meaning.WRITTEN),
        (_MOVED, Meaning.MOVED),
        (_BUSY, Meaning.BUSY),
        (_UNSURE, Meaning.UNSURE),
        (_FORGOTTEN, Meaning.FORGOTTEN),
        (_OF_ONE, Meaning.OF_ONE),
    ):
        if code in codes:
            return meaning
    return Meaning.REFUSED


def words_of(code: int) -> str:
    """For people."""
    return _WORDS.get(code, f"error {code}")
