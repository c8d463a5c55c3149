"""Which message a closed channel is about.

RabbitMQ closes a channel because of one message and says why in words. The words tell a missing exchange, an
exchange or topic without permission, or the size of a message that is too large.
"""

import re
from typing import Final

from tocsin.domain.message_target import RabbitTarget

_TOPIC: Final = re.compile(r"access to topic '(.*)' in exchange '")
_SIZE: Final = re.compile(r"message size (\d+) ")


def is_at_fault(reason: str, target: RabbitTarget, size: int) -> bool:
    """Whether the broker would refuse this message for the same reason."""
    if (topic := _TOPIC.search(reason)) is not None:
        return topic[1] == target.routing_key
    if (larger := _SIZE.search(reason)) is not None:
        return size >= int(larger[1])
    return "NOT_FOUND" in reason or "ACCESS_REFUSED" in reason
