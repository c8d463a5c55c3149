"""Which message a closed channel of RabbitMQ is about."""

import pytest

from tocsin.domain.message_target import RabbitTarget
from tocsin.targets.rabbitmq.refusal import is_at_fault

TOPIC = "ACCESS_REFUSED - access to topic 'due' in exchange 'x' in vhost '/' refused for user 'me'"
LARGE = "PRECONDITION_FAILED - message size 5000 is larger than configured max size 4096"


@pytest.mark.parametrize(
    ("reason", "key", "size", "at_fault"),
    [
        ("NOT_FOUND - no exchange 'x' in vhost '/'", "due", 1, True),
        ("ACCESS_REFUSED - access to exchange 'x' in vhost '/' refused for user 'me'", "due", 1, True),
        (TOPIC, "due", 1, True),
        (TOPIC, "other", 1, False),
        (LARGE, "due", 5000, True),
        (LARGE, "due", 100, False),
        ("INTERNAL_ERROR - whatever", "due", 1, False),
    ],
)
def test_only_a_message_that_would_be_refused_again_is_at_fault(
    reason: str, key: str, size: int, at_fault: bool
) -> None:
    target = RabbitTarget(connection="bus", exchange="x", routing_key=key)
    assert is_at_fault(reason, target, size) is at_fault
