"""A worker has one session at a gateway, however many of its calls come first."""

import asyncio
from typing import Any

from tocsin.clock import VirtualClock
from tocsin.domain.ids import worker_text
from tocsin.domain.instant import SECOND
from tocsin.worker.remote.gateway import Gateway
from tocsin.worker.remote.sessions import Sessions

ROW = {
    "id": 7, "tenant_id": 1, "lease": 30 * SECOND, "capacity": 4, "state": "active", "running": 0, "seen_at": 0,
    "queues": ["default"], "tasks": ["shop.greet"],
}  # fmt: skip


class SlowStore:
    """Lets every call wait until all have asked."""

    def __init__(self, calls: int) -> None:
        self._all_have_asked = asyncio.Barrier(calls)

    async def find(self, *_: int) -> dict[str, Any]:
        await self._all_have_asked.wait()
        return ROW


def test_calls_that_come_at_once_share_one_session() -> None:
    async def main() -> None:
        unused: Any = None
        sessions, store = Sessions(), SlowStore(3)
        gateway = Gateway(
            sessions, unused, unused, unused, unused, lambda *_: unused, store, unused, VirtualClock(0)  # type: ignore[arg-type]
        )  # fmt: skip
        found = await asyncio.gather(*(gateway._session(1, worker_text(7)) for _ in range(3)))
        assert {id(one) for one in found} == {id(sessions.get(7))}

    asyncio.run(main())
