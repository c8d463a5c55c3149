"""Routes: who can run an execution is said once in Python and once in SQL, and both say the same."""

import asyncio
from typing import get_args

import msgspec
import pytest

from tocsin.db.pool import open_database
from tocsin.domain.grpc_target import GrpcTarget
from tocsin.domain.message_target import (
    KafkaTarget,
    NatsTarget,
    RabbitTarget,
    RedisTarget,
    SmtpTarget,
    SqsTarget,
)
from tocsin.domain.script_target import ScriptTarget
from tocsin.domain.target import ENGINE_ROUTES, HttpTarget, NoopTarget, Target, route_of
from tocsin.domain.target_kind import KINDS
from tocsin.domain.task_target import TaskTarget, task_of
from tocsin.queue.claiming.directory import Directory
from tocsin.queue.lanes import Lane
from tocsin.targets.message.extras import message_routes

MESSAGES = [
    KafkaTarget(connection="bus", topic="due"),
    NatsTarget(connection="bus", subject="due"),
    RabbitTarget(connection="bus", routing_key="due"),
    RedisTarget(connection="bus", stream="due"),
    SqsTarget(connection="bus", queue_url="https://sqs.example.com/1/due", body="x"),
    SmtpTarget(connection="bus", to=("ops@example.com",), subject="due"),
]
TARGETS = [
    HttpTarget("https://example.com/"),
    NoopTarget(),
    TaskTarget("shop.send"),
    ScriptTarget("sh", "true"),
    GrpcTarget("orders.example.com:443", "shop.Orders/Place"),
    *MESSAGES,
]


def test_every_kind_of_target_has_a_route_and_every_engine_serves_http_and_noop() -> None:
    assert {type(target) for target in TARGETS} == set(get_args(Target))
    assert {str(target.__struct_config__.tag) for target in TARGETS} == set(KINDS)
    served = {*ENGINE_ROUTES, "task:shop.send", "script", "grpc", *message_routes()}
    assert {route_of(target) for target in TARGETS} == served
    assert [task_of(route_of(target)) for target in TARGETS] == [
        None,
        None,
        "shop.send",
        *[None] * (2 + len(MESSAGES)),
    ]


@pytest.mark.parametrize("target", TARGETS, ids=route_of)
def test_the_schema_knows_the_same_routes(url: str, target: Target) -> None:
    async def asked() -> str:
        database = await open_database(url, name="test", size=1)
        text = msgspec.json.encode(target).decode()
        row = await database.one("SELECT route_of($1::text::jsonb) AS route", text)
        await database.close()
        return str(row["route"])

    assert asyncio.run(asked()) == route_of(target)


def test_a_worker_probes_only_lanes_whose_route_and_queue_it_serves() -> None:
    directory = Directory(["http"], ["mail"])
    answer = {
        "new_queues": ["mail", "mail", "other"], "new_priorities": [5, 5, 5], "new_tenants": [1, 1, 1],
        "new_routes": ["http", "task:shop.send", "http"], "new_from": "7",
    }  # fmt: skip
    assert directory.learn(answer)
    assert directory.lanes == [Lane("mail", 5, 1, "http")]


def test_lanes_are_probed_in_the_order_of_the_index_in_whatever_order_they_became_known() -> None:
    directory = Directory(["http"])
    for queue, tenants in (("mail", [3, 1]), ("default", [2]), ("mail", [2])):
        answer = {
            "new_queues": [queue for _ in tenants], "new_priorities": [5 for _ in tenants], "new_tenants": tenants,
            "new_routes": ["http" for _ in tenants], "new_from": "7",
        }  # fmt: skip
        assert directory.learn(answer)
        directory.new_from = "8"
    assert [(lane.queue, lane.tenant_id) for lane in directory.lanes] == [
        ("default", 2),
        ("mail", 1),
        ("mail", 2),
        ("mail", 3),
    ]
    assert directory.columns["tenant_ids"] == [2, 1, 2, 3]


def test_a_route_with_an_owner_is_served_for_that_tenant_alone() -> None:
    directory = Directory(["http", "task:shop.send"], owners={"task:shop.send": 2})
    served = [lane for tenant in (1, 2) for route in ("http", "task:shop.send")
              if directory.serves(lane := Lane("mail", 5, tenant, route))]  # fmt: skip
    assert [(lane.tenant_id, lane.route) for lane in served] == [
        (1, "http"),
        (2, "http"),
        (2, "task:shop.send"),
    ]
