"""What a process remembers of keys: not for longer than they last."""

import asyncio
from typing import Any

import pytest

from tocsin.api.auth import Authenticator
from tocsin.clock import VirtualClock
from tocsin.domain.errors import Unauthorized
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.keys import Scope, hash_of, new_key
from tocsin.domain.limits import TenantLimits
from tocsin.store.keys import StoredKey

NOON: Instant = 1_900_000_000 * SECOND


class _Keys:
    """One key, looked up as the database would."""

    def __init__(self, clock: VirtualClock, expires_at: Instant, *, suspended: bool = False) -> None:
        self.clock = clock
        self.id, self.text = new_key()
        self.expires_at = expires_at
        self.suspended = suspended
        self.looks = 0

    async def find(self, key_id: str) -> StoredKey | None:
        self.looks += 1
        if key_id != self.id or self.clock.now() >= self.expires_at:
            return None
        scopes = frozenset({Scope.READ})
        return StoredKey(
            self.id, 1, "acme", hash_of(self.text), scopes, TenantLimits(), self.expires_at, self.suspended
        )


def _asking(keys: _Keys) -> Any:
    authenticator = Authenticator(keys, None, keys.clock, TenantLimits())  # type: ignore[arg-type]
    return lambda: asyncio.run(_ask(authenticator, keys.text))


async def _ask(authenticator: Authenticator, text: str) -> Any:
    return await authenticator.asker_of_key(text)


def test_a_key_that_is_remembered_ends_when_it_expires() -> None:
    keys = _Keys(VirtualClock(NOON), NOON + SECOND)
    ask = _asking(keys)
    assert ask().tenant == "acme"
    keys.clock.advance(SECOND + SECOND // 2)
    with pytest.raises(Unauthorized, match="not valid"):
        ask()


def test_the_key_of_a_suspended_tenant_is_forbidden_and_told_why() -> None:
    with pytest.raises(Unauthorized, match="suspended") as refused:
        _asking(_Keys(VirtualClock(NOON), NOON + SECOND, suspended=True))()
    assert refused.value.status == 403


def test_requests_that_arrive_together_look_a_key_up_once() -> None:
    keys = _Keys(VirtualClock(NOON), NOON + SECOND)
    authenticator = Authenticator(keys, None, keys.clock, TenantLimits())  # type: ignore[arg-type]

    async def together() -> None:
        await asyncio.gather(*(authenticator.asker_of_key(keys.text) for _ in range(100)))

    asyncio.run(together())
    assert keys.looks == 1
