"""What is filled in of a message: its body, and the word that says where it goes."""

import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.message_target import (
    KafkaTarget,
    MessageTarget,
    NatsTarget,
    RabbitTarget,
    RedisTarget,
    SmtpTarget,
    SqsTarget,
    check_message,
    filled_message,
)

VALUES = {"fire_at": "2026-11-18T19:00:00.5Z", "execution": "exec_1", "attempt": "2", "job": "job_1"}
BODY = {"due": ["{fire_at}", 7], "{job}": "{{as it is}}"}
FILLED = {"due": [VALUES["fire_at"], 7], "{job}": "{as it is}"}


@pytest.mark.parametrize(
    ("target", "field", "expected"),
    [
        (KafkaTarget(connection="c", topic="t", key="{name} {attempt}"), "key", "a.b > * 2"),
        (NatsTarget(connection="c", subject="due.{name}.{attempt}"), "subject", "due.a%2Eb%20%3E%20%2A.2"),
        (RabbitTarget(connection="c", routing_key="{job}.{name}"), "routing_key", "job_1.a%2Eb%20%3E%20%2A"),
        (
            SqsTarget(connection="c", queue_url="https://q.example/1/d", group="{name}"),
            "group",
            "a%2Eb%20%3E%20%2A",
        ),
        (SmtpTarget(connection="c", to=("a@b.example",), subject="{name} {attempt}"), "subject", "a.b > * 2"),
        (RedisTarget(connection="c", stream="{name}"), "stream", "{name}"),
    ],
    ids=["kafka", "nats", "rabbitmq", "sqs", "smtp", "redis"],
)
def test_a_value_is_one_word_of_the_place_that_it_goes_to(
    target: MessageTarget, field: str, expected: str
) -> None:
    fields = {name: getattr(target, name) for name in target.__struct_fields__}
    is_text = isinstance(target, SmtpTarget)
    wanted = type(target)(**fields | {"body": "{attempt}" if is_text else BODY, "template": True})
    check_message(wanted)
    filled = filled_message(wanted, VALUES | {"name": "a.b > *"})
    assert getattr(filled, field) == expected
    assert filled.body == ("2" if is_text else FILLED)


def test_what_is_filled_in_beyond_what_a_broker_takes_is_refused_by_its_field() -> None:
    target = NatsTarget(connection="c", subject="due.{name}", template=True)
    for name in ("x" * 300, ""):
        with pytest.raises(Refused) as refused:
            filled_message(target, VALUES | {"name": name})
        assert refused.value.field == "target.subject"


def test_without_template_braces_stay() -> None:
    check_message(NatsTarget(connection="c", subject="due.{x", body="}"))
