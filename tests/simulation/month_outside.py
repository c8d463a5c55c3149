"""What is outside the installation in a month: the hosts that jobs call, and workers of users."""

from collections.abc import Awaitable, Callable

from tocsin.clock import Clock
from tocsin.domain.protocol import Ask, NewWorker, TaskError, TaskOffer, TaskSettlement
from tocsin.targets.http.caller import HttpCaller
from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind, OutgoingRequest
from tocsin.worker.remote.gateway import Gateway

KINDS = ("good", "away", "wrong", "recovering")
"""Hosts by the first part of their names: the last one answers with 500 once, and is well afterwards."""
TASK = "load"
TASKS = ("succeeds", "fails", "is lost")
"""What becomes of the tasks that a worker claims, in their order."""


class Hosts:
    """The hosts, as the product's HTTP caller sees them through a client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: set[str] = set()

    def caller(self, _: Callable[[], Awaitable[None]]) -> HttpCaller:
        """A node's way to them."""
        return HttpCaller(self, self._clock)  # type: ignore[arg-type]  # of a client it calls `send` alone

    async def send(self, request: OutgoingRequest) -> Answer:
        host = request.url.host
        kind = host.partition("-")[0]
        if kind == "away":
            raise DeliveryFailed(FailureKind.CONNECT, "nobody is there")
        well = kind != "wrong" and (kind != "recovering" or host in self._seen)
        if kind == "recovering":
            self._seen.add(host)
        return Answer(200 if well else 500, (), b"", 0, truncated=False)


async def work_once(gateway: Gateway, tenant_id: int, key_id: str, queue: str) -> None:
    """A worker comes, claims, tells how two of three attempts ended, and is not heard of again."""
    new = NewWorker("comes and goes", [TaskOffer(TASK)], queues=(queue,), capacity=len(TASKS))
    worker = (await gateway.register(tenant_id, key_id, new)).worker
    seq, claims = 0, []
    while len(claims) < len(TASKS):
        seq += 1
        claims += (await gateway.claim(tenant_id, worker, Ask(seq, len(TASKS), wait_ms=1000))).claims
    first, second, _ = claims
    failed = TaskSettlement(second.id, second.token, "failed", error=TaskError("no", "it failed"))
    told = [TaskSettlement(first.id, first.token, "succeeded", result=1), failed]
    assert await gateway.settle(tenant_id, worker, told) == []
