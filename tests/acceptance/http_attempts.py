"""What tests of whole attempts share: a caller with secrets of its own over the client under test."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from tests.acceptance.http_calls import Client
from tocsin.clock import VirtualClock
from tocsin.domain.errors import Refused
from tocsin.domain.outcome import Outcome, Postponed
from tocsin.domain.target import HttpTarget, check_target
from tocsin.targets.assignment import Assignment
from tocsin.targets.http.caller import HttpCaller

START = 1_800_000_000_000_000


class FixedVault:
    """Knows the secrets that the test gave it, for every tenant, and signs nothing."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.secrets = dict(secrets)

    async def signing_secrets(self, tenant_id: int) -> tuple[bytes, ...]:
        return ()

    async def values(self, tenant_id: int, names: Sequence[str]) -> dict[str, str]:
        for name in names:
            if name not in self.secrets:
                raise Refused(f"there is no secret {name!r}", field="target")
        return {name: self.secrets[name] for name in names}


class Attempts:
    """Makes attempts at targets. Time passes when the test says so."""

    def __init__(self, client: Client, secrets: Mapping[str, str], **how: Any) -> None:
        self.clock = VirtualClock(START)
        self.vault = FixedVault(secrets)
        self.caller = HttpCaller(client, self.clock, self.vault, **how)
        self._tokens = 0

    async def call(
        self, target: HttpTarget, *, tenant_id: int = 1, seconds: float = 20.0
    ) -> Outcome | Postponed:
        """One attempt, however it ends."""
        check_target(target)
        return await self.caller.call(self._assignment(tenant_id), target, seconds)

    async def outcome(self, target: HttpTarget, *, tenant_id: int = 1, seconds: float = 20.0) -> Outcome:
        """One attempt that must not be put off."""
        outcome = await self.call(target, tenant_id=tenant_id, seconds=seconds)
        assert isinstance(outcome, Outcome), outcome
        return outcome

    def _assignment(self, tenant_id: int) -> Assignment:
        self._tokens += 1
        now = self.clock.now()
        return Assignment(UUID(int=1), now, tenant_id, 1, self._tokens, now, now, now)


@contextlib.asynccontextmanager
async def attempts(
    secrets: Mapping[str, str], client: Client | None = None, **how: Any
) -> AsyncIterator[Attempts]:
    """Attempts over a client that is closed at the end."""
    async with client or Client() as open_client:
        yield Attempts(open_client, secrets, **how)
