"""The kinds of targets, by the words that jobs are written with. Of this the command line loads no more."""

from typing import Final, Literal, get_args

TargetKind = Literal[
    "http", "noop", "task", "script", "grpc", "kafka", "nats", "rabbitmq", "redis", "sqs", "smtp"
]
KINDS: Final[tuple[str, ...]] = get_args(TargetKind)
