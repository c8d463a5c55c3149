"""What processes remember between calls has a bound, whatever callers come up with."""

import asyncio
import functools
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import tocsin
from tests.support.containers import containers
from tocsin.api.endpoint import Caller
from tocsin.api.quota import PendingJobs
from tocsin.api.throttle import Throttle
from tocsin.clock import VirtualClock
from tocsin.domain.limits import TenantLimits
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
            throttle.admit(Caller(tenant, "key", frozenset(), limits=limits))
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
