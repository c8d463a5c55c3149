"""What processes remember between calls has a bound, whatever callers come up with."""

import asyncio
import functools
import importlib
import pkgutil
import ssl
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import msgspec
import pytest

import tocsin
from tests.support.containers import containers
from tocsin.api.endpoint import Asker
from tocsin.api.quota import PendingJobs
from tocsin.api.throttle import Throttle
from tocsin.clock import VirtualClock
from tocsin.domain.addresses import Address, AddressPolicy, parse_target_url
from tocsin.domain.connection import Connection
from tocsin.domain.errors import Unreadable
from tocsin.domain.instant import SECOND
from tocsin.domain.limits import TenantLimits
from tocsin.domain.message_target import NatsTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.target import HttpTarget
from tocsin.failpoints import Failpoints
from tocsin.queue.claiming.holding import ref_of
from tocsin.queue.claims import Again, AnyClaim, Claim, Finish
from tocsin.targets.assignment import Assignment
from tocsin.targets.grpc.channels import Channels, Credentials
from tocsin.targets.http import client_certificate
from tocsin.targets.http.breaker import TRIP_AFTER
from tocsin.targets.http.caller import HttpCaller
from tocsin.targets.http.client_certificate import ClientCertificates
from tocsin.targets.http.exchange import Answer, OutgoingRequest
from tocsin.targets.http.oauth2 import Grant
from tocsin.targets.http.resolver import Resolver
from tocsin.targets.message.broker import Broker, NotOpened
from tocsin.targets.message.caller import MessageCaller
from tocsin.telemetry import Telemetry
from tocsin.worker.connections import ConnectionBook
from tocsin.worker.host_lines import HostLines
from tocsin.worker.remote.settler import RemoteSettler, release_of
from tocsin.worker.settler import Settlement
from tocsin.worker.unread import LeftToOthers
from tocsin.worker.vault import Vault

MANY = 10_500
AT_MOST = 10_001


def test_every_cache_of_a_function_has_a_bound() -> None:
    caches = dict(_caches())
    assert len(caches) > 5
    assert [name for name, cache in caches.items() if cache.cache_parameters()["maxsize"] is None] == []


def _caches() -> Iterator[tuple[str, Any]]:
    for module in pkgutil.walk_packages(tocsin.__path__, "tocsin."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, functools._lru_cache_wrapper):
                yield f"{module.name}.{name}", value


def test_an_api_process_remembers_a_bounded_number_of_tenants() -> None:
    class Tenants:
        async def pending_jobs(self, *_: object) -> int:
            return 0

    async def main() -> dict[str, int]:
        clock = VirtualClock(0)
        throttle, pending = Throttle(clock), PendingJobs(Tenants(), clock, 1.0)  # type: ignore[arg-type]
        limits = TenantLimits(requests_per_second=1.0)
        for tenant in range(MANY):
            throttle.admit(Asker(tenant, "key", frozenset(), limits=limits))
            await pending.admit(tenant, 10)
        return containers(throttle, pending)

    assert max(asyncio.run(main()).values()) <= AT_MOST


def test_a_worker_remembers_a_bounded_number_of_secrets() -> None:
    class Secrets:
        async def values(self, _: int, names: list[str]) -> dict[str, str]:
            return dict.fromkeys(names, "value")

        async def live(self, _: int) -> list[object]:
            return []

    async def main() -> dict[str, int]:
        vault = Vault(Secrets(), Secrets())  # type: ignore[arg-type]
        for number in range(MANY):
            await vault.values(number, ["name"])
            await vault.signing_secrets(number)
        return containers(vault)

    assert max(asyncio.run(main()).values()) <= AT_MOST


def test_a_worker_remembers_a_bounded_number_of_lanes_in_which_it_could_not_read_something() -> None:
    class Settler:
        def put(self, _: Settlement) -> None: ...

    left = LeftToOthers(Settler(), lambda _: None, Telemetry())  # type: ignore[arg-type]
    for number in range(3_000):  # each a second later, in a lane of its own
        left.put_back([(claim(number, f"queue-{number}"), Unreadable("newer"))], number * SECOND)
    assert containers(left)["LeftToOthers._shy_until"] <= 1_001


def test_a_gateway_forgets_claims_that_were_lost_and_that_nobody_asks_about() -> None:
    class Settling:
        async def postpone(self, agains: list[Again]) -> list[Again]:
            return agains

        async def finish(self, finishes: list[Finish]) -> list[AnyClaim]:
            return [one.claim for one in finishes]

    async def main() -> dict[str, int]:
        clock = VirtualClock(0)
        settler = RemoteSettler(Settling(), clock, Telemetry(), Failpoints(), node_id=1)
        for number in range(100):
            settler.put(release_of(claim(number), 0))
        waited_for = asyncio.create_task(settler.settle([release_of(claim(100), 0)]))
        await asyncio.sleep(0)
        await settler.run_once(0)
        assert await waited_for == {ref_of(claim(100))}, "whoever waits hears of it"
        return containers(settler)

    assert asyncio.run(main())["RemoteSettler._lost"] == 0


def test_a_worker_remembers_a_bounded_number_of_hosts_urls_and_tokens() -> None:
    class Client:
        async def send(self, _: OutgoingRequest) -> Answer:
            return Answer(200, (), b'{"access_token":"t","expires_in":3600}', 0, truncated=False)

    async def main() -> dict[str, int]:
        clock = VirtualClock(0)
        caller = HttpCaller(Client(), clock)  # type: ignore[arg-type]
        lines = HostLines(1, 10)
        for number in range(MANY):
            url = f"https://host-{number}.example/"
            host = caller.host(HttpTarget(url))
            assert host is not None
            caller._breaker.report((1, *host), 0, failed=True)
            grant = Grant(1, url, "client", f"secret-{number}")
            await caller._tokens.token(grant, 0, 1.0, (1, *host))
            for _ in range(2 * TRIP_AFTER if number % 100 == 0 else 1):  # some are at rest
                caller._breaker.report((2, *host), 0, failed=True)
            assert lines.enter(host)
            assert lines.stand(host, claim(number), 0)
            assert lines.drop(claim(number))
            lines.leave(host)
        return containers(caller, lines)

    found = asyncio.run(main())
    assert max(found.values()) <= AT_MOST
    assert found["TokenSource._kept"] == found["HostBreaker._troubled"] == AT_MOST - 1
    assert found["HttpCaller._urls"] == 4096
    assert found["TokenSource._underway"] == found["HostLines._hosts"] == found["HostLines._standing"] == 0


def test_a_worker_remembers_a_bounded_number_of_connections_and_serves_fewer() -> None:
    class Store:
        async def find(self, *_: object) -> dict[str, object]:
            settings = msgspec.json.encode(Connection("nats", ("nats.example",))).decode()
            return {"kind": "nats", "settings": settings, "version": 1}

    class Opening:
        async def open(self, *_: object) -> Broker:
            raise NotOpened(Outcome(Verdict.FAILED, "away"))

    async def main() -> dict[str, int]:
        book = ConnectionBook(Store())  # type: ignore[arg-type]
        caller = MessageCaller("nats", book, Opening(), VirtualClock(0))  # type: ignore[arg-type]
        for number in range(MANY):
            await book.find(number, "bus")
        for number in range(2000):
            target = NatsTarget(connection="bus", subject="due")
            await caller.call(Assignment(UUID(int=number), 0, number, 1, number, 0, 0, 0), target, 1.0)
        found = containers(book, caller)
        await caller.close()
        return found

    found = asyncio.run(main())
    assert max(found.values()) <= AT_MOST
    assert found["MessageCaller._served"] == 1024


def test_a_worker_keeps_a_bounded_number_of_grpc_channels() -> None:
    async def nowhere(_: str) -> list[Address]:
        return []

    async def main() -> dict[str, int]:
        channels = Channels(Resolver(nowhere), AddressPolicy())
        for number in range(300):
            place = parse_target_url(f"http://8.8.{number // 250}.{number % 250}/")
            await channels.channel(place, Credentials(1, plaintext=True))
        await asyncio.sleep(0)
        found = containers(channels)
        await channels.close()
        return found

    assert asyncio.run(main())["Channels._open"] == 256


def test_a_worker_keeps_a_bounded_number_of_client_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_certificate, "_load", lambda *_: None)

    async def main() -> dict[str, int]:
        certificates = ClientCertificates(lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        for number in range(300):
            await certificates.context(number, "certificate", "pem")
        return containers(certificates)

    assert asyncio.run(main())["ClientCertificates._made"] == 256


def claim(number: int, queue: str = "default") -> Claim:
    """A claim that has started."""
    return Claim(
        UUID(int=number), 1, 1, queue, 5, "noop", 1, 1, None, 1, 1, 1, 0, None, None, None, None, None, '{"kind":"noop"}',
        None, 1, number,
    )  # fmt: skip
