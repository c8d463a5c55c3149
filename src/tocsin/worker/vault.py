"""Secrets on the worker: what calls are signed with, and what their headers need. Remembered for a few
seconds.

Neither may hold up or end a call that can do without: when the database does not answer in time, a signing
secret that was known is used a while longer, and a request is sent unsigned rather than not at all. A header
that names a secret cannot do without it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NoReturn, TypeVar

import structlog

from tocsin.domain.errors import Conflict, Refused, Unavailable
from tocsin.domain.sealing import CannotOpen, KeyMissing
from tocsin.store.secrets import SecretStore
from tocsin.store.webhook_secrets import WebhookSecretStore
from tocsin.targets.secrets import SecretOfOthers, SecretUnavailable

FRESH_SECONDS: Final = 3.0
_PATIENCE: Final = 2.0
_REMEMBERED: Final = 10_000
_log = structlog.get_logger()
T = TypeVar("T")


class Vault:
    """Looks secrets up for the calls of one worker."""

    def __init__(
        self, secrets: SecretStore, webhooks: WebhookSecretStore, left: Callable[[], None] = lambda: None
    ) -> None:
        self._left = left
        """Called when a call is left to workers that can open its secrets."""
        self._told: set[tuple[int, str]] = set()
        self._secrets = secrets
        self._webhooks = webhooks
        self._signing: dict[int, tuple[float, tuple[bytes, ...]]] = {}
        self._asking: dict[int, asyncio.Task[tuple[bytes, ...]]] = {}
        self._values: dict[tuple[int, str], tuple[float, str | CannotOpen]] = {}
        self._warned = False

    async def signing_secrets(self, tenant_id: int) -> tuple[bytes, ...]:
        """The secrets to sign a tenant's request with, newest first; none if they cannot be had."""
        now = asyncio.get_running_loop().time()
        until, known = self._signing.get(tenant_id, (0.0, ()))
        if until > now:
            return known
        asking = self._asking.get(tenant_id)
        if asking is None:
            asking = self._asking[tenant_id] = asyncio.create_task(self._ask(tenant_id))
            asking.add_done_callback(lambda _: self._asking.pop(tenant_id, None))
        try:
            async with asyncio.timeout(_PATIENCE):
                # Shared by all calls of the tenant: one that is cancelled must not take it from the others.
                return await asyncio.shield(asking)
        except TimeoutError:
            return known

    async def values(self, tenant_id: int, names: Sequence[str]) -> dict[str, str]:
        """The values of secrets. One that does not exist is refused by its name."""
        now = asyncio.get_running_loop().time()
        found: dict[str, str | CannotOpen] = {}
        for name in names:
            until, value = self._values.get((tenant_id, name), (0.0, ""))
            if until > now:
                found[name] = value
        if missing := [name for name in names if name not in found]:
            fresh = await _in_time(lambda: self._secrets.values(tenant_id, missing))
            if len(self._values) > _REMEMBERED:
                self._values.clear()
            self._values |= {(tenant_id, name): (now + FRESH_SECONDS, fresh[name]) for name in fresh}
            found |= fresh
        for name in names:
            sealed = found.get(name)
            if isinstance(sealed, KeyMissing):
                self._leave(tenant_id, name, sealed)
        return {name: _opened(name, found.get(name)) for name in names}

    def _leave(self, tenant_id: int, name: str, why: KeyMissing) -> NoReturn:
        if (tenant_id, name) not in self._told:
            _log.warning("secrets.left_to_others", tenant_id=tenant_id, secret=name, reason=str(why))
            if len(self._told) > _REMEMBERED:
                self._told.clear()
            self._told.add((tenant_id, name))
        self._left()
        raise SecretOfOthers(f"the secret {name!r} does not open here: {why}")

    async def _ask(self, tenant_id: int) -> tuple[bytes, ...]:
        """What the database says, or what was known before."""
        found = self._signing.get(tenant_id, (0.0, ()))[1]
        try:
            found = tuple([live.secret for live in await self._webhooks.live(tenant_id)])
        except (Conflict, Unavailable) as error:
            if not self._warned:
                _log.warning("webhooks.unsigned", reason=error.detail)
            self._warned = True
        if len(self._signing) > _REMEMBERED:
            self._signing.clear()
        self._signing[tenant_id] = (asyncio.get_running_loop().time() + FRESH_SECONDS, found)
        return found


async def _in_time(ask: Callable[[], Awaitable[T]]) -> T:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await ask()
    except (TimeoutError, Unavailable):
        raise SecretUnavailable("a secret could not be read: the database did not answer") from None


def _opened(name: str, value: str | CannotOpen | None) -> str:
    if value is None:
        raise Refused(f"there is no secret {name!r}", field="target")
    if isinstance(value, CannotOpen):
        raise SecretUnavailable(f"the secret {name!r} does not open: {value}")
    return value
