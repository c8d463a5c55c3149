"""Which brokers this process can talk to: their clients are extras, installed or not.

A worker announces the routes whose clients it has, so messages wait for a worker that can publish them.
"""

from functools import lru_cache
from importlib.util import find_spec
from typing import Final

from tocsin.domain.connection import BROKERS

_CLIENTS: Final = {
    "kafka": ("Kafka", "aiokafka"),
    "nats": ("NATS", "nats"),
    "rabbitmq": ("RabbitMQ", "aiormq"),
    "redis": ("Redis", "redis"),
    "sqs": ("SQS", "tocsin"),
    "smtp": ("mail servers", "tocsin"),
}
"""What people call the broker, and the module of its client. SQS and mail servers need none but ours."""


@lru_cache(maxsize=len(BROKERS))
def is_installed(kind: str) -> bool:
    """Whether the client of a kind of broker is here."""
    return find_spec(_CLIENTS[kind][1]) is not None


def missing(kind: str) -> str:
    """The end of a sentence: which broker, and what to install for it."""
    return f"{_CLIENTS[kind][0]}: install tocsin[{kind}]"


def message_routes() -> tuple[str, ...]:
    """The routes of messages that this process can publish."""
    return tuple(kind for kind in BROKERS if is_installed(kind))
