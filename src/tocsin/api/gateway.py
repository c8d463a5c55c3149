"""What the API knows of the gateway of its process: the calls that remote workers make."""

from collections.abc import Sequence
from typing import Protocol

from tocsin.domain.protocol import (
    Ask,
    ClaimName,
    Given,
    Heard,
    Heartbeat,
    NewWorker,
    Registered,
    Settled,
    TaskSettlement,
)


class Gateway(Protocol):
    """See `worker/remote/gateway.py`. Workers are named by their ids, and known to their own tenant only."""

    async def register(self, tenant_id: int, key_id: str, new: NewWorker) -> Registered:
        """A worker introduces itself."""

    async def claim(self, tenant_id: int, worker: str, ask: Ask) -> Given:
        """Settle, then wait for work."""

    async def withdraw(self, tenant_id: int, worker: str, ask: Ask) -> None:
        """The worker no longer waits for the answer to a claim."""

    async def settle(self, tenant_id: int, worker: str, settle: Sequence[TaskSettlement]) -> list[Settled]:
        """Write down what became of attempts."""

    async def heartbeat(self, tenant_id: int, worker: str, beat: Heartbeat) -> Heard:
        """A worker is there."""

    async def release(self, tenant_id: int, worker: str, names: Sequence[ClaimName]) -> int:
        """Give back what was not run."""

    async def leave(self, tenant_id: int, worker: str) -> None:
        """A worker is gone."""
