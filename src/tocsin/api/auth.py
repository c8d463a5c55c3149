"""Who is asking: bearer keys, checked against their stored hash, remembered for a few seconds.

Browsers come with the cookie of a session instead, which acts as the key that it was opened with; `entrance`
decides which of the two a request has. A key is bound to its tenant. The exception is an operator's key, one
with the `admin` scope: with the header `Tocsin-Tenant` it acts for the tenant of that name. What was
remembered is forgotten at once when the database says that keys or tenants changed; should that word get
lost, it is forgotten by age.
"""

import asyncio
from collections import OrderedDict
from typing import Final, TypeVar

import msgspec

from tocsin.api.endpoint import Asker
from tocsin.clock import Clock
from tocsin.domain.errors import NotFound, Unauthorized
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.keys import Scope, hash_of, matches, take_apart
from tocsin.domain.limits import TenantLimits
from tocsin.domain.tenant import Tenant
from tocsin.service import Report
from tocsin.store.keys import KeyStore
from tocsin.store.sessions import SessionStore
from tocsin.store.tenants import TenantStore

TENANT_HEADER: Final = "tocsin-tenant"
_REMEMBERED_FOR: Final = 5.0  # seconds until a change is seen without a notice
_REMEMBERED: Final = 10_000
_LONGEST_KEY: Final = 512
_K = TypeVar("_K")
_V = TypeVar("_V")


class Authenticator:
    """Turns an Authorization header, or a session's token, into an asker."""

    def __init__(
        self,
        keys: KeyStore,
        tenants: TenantStore,
        clock: Clock,
        defaults: TenantLimits,
        sessions: SessionStore | None = None,
    ) -> None:
        self._keys = keys
        self._sessions = sessions
        self._tenants = tenants
        self._clock = clock
        self.defaults = defaults
        self._known: OrderedDict[bytes, tuple[float, Asker]] = OrderedDict()
        self._known_tenants: OrderedDict[str, tuple[float, Tenant]] = OrderedDict()
        self._looks: dict[bytes, asyncio.Task[Asker]] = {}
        self._used: dict[str, Instant] = {}

    async def authenticate(self, header: str | None, scope: Scope, tenant: str | None = None) -> Asker:
        """The asker, if its key is good and has the scope. `tenant` is whom it wants to act for."""
        kind, _, text = (header or "").partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not text or len(text) > _LONGEST_KEY:
            raise Unauthorized("an API key is needed: Authorization: Bearer <key>")
        return await self._permitted(await self.asker_of_key(text), scope, tenant)

    async def authenticate_session(self, token: str, scope: Scope, tenant: str | None = None) -> Asker:
        """The asker behind a session's cookie."""
        return await self._permitted(await self._asker_of_session(token), scope, tenant)

    async def _permitted(self, asker: Asker, scope: Scope, tenant: str | None) -> Asker:
        if scope not in asker.scopes and not asker.operator:
            raise Unauthorized(f"this key has no {scope} scope", status=403)
        if tenant is None:
            return asker
        if not asker.operator:
            if tenant != asker.tenant:
                raise Unauthorized("only an operator's key acts for another tenant", status=403)
            return asker
        return await self._acting_for(asker, tenant)

    def forget(self) -> None:
        """Look everything up again: something about keys or tenants changed."""
        self._known.clear()
        self._known_tenants.clear()
        self._looks = {}

    def take_used(self) -> dict[str, Instant]:
        """Which keys were used since the last time this was asked, and when last."""
        used, self._used = self._used, {}
        return used

    async def asker_of_key(self, text: str) -> Asker:
        """Whom a key acts for, if it is good. Requests that arrive together share one look."""
        digest = hash_of(text)
        if (known := self._remembered(digest)) is not None:
            return known
        looks, look = self._looks, self._looks.get(digest)
        if look is None:
            look = looks[digest] = asyncio.create_task(self._look_up(text, digest))
            look.add_done_callback(lambda _: looks.pop(digest, None))
        return await asyncio.shield(look)

    async def _look_up(self, text: str, digest: bytes) -> Asker:
        looks = self._looks
        presented = take_apart(text)
        key = None if presented is None else await self._keys.find(presented.id)
        if key is None or not matches(text, key.secret_hash):
            raise Unauthorized("the API key is not valid")
        if key.suspended:
            raise Unauthorized("the tenant of this key is suspended; its operator can resume it", status=403)
        asker = Asker(key.tenant_id, key.id, key.scopes, key.tenant, key.limits.over(self.defaults))
        # What was looked up before something changed is not remembered beyond that.
        return self._noticed(digest, asker, key.expires_at) if looks is self._looks else asker

    async def _asker_of_session(self, token: str) -> Asker:
        digest = b"session" + hash_of(token)  # never the digest of a key: a cookie's text is no bearer key
        if (known := self._remembered(digest)) is not None:
            return known
        found = self._sessions and await self._sessions.find(token, self._clock.now())
        if not found:
            raise Unauthorized("the session is over; log in again")
        limits = found.limits.over(self.defaults)
        asker = Asker(found.tenant_id, found.key_id, found.scopes, found.tenant, limits, in_browser=True)
        return self._noticed(digest, asker)

    def _remembered(self, digest: bytes) -> Asker | None:
        deadline, asker = self._known.get(digest, (0.0, None))
        if asker is None or deadline <= self._clock.monotonic():
            return None
        self._used[asker.key_id] = self._clock.now()
        return asker

    def _noticed(self, digest: bytes, asker: Asker, expires_at: Instant | None = None) -> Asker:
        """Remember whom it acts for, for a while and not beyond its end."""
        left = _REMEMBERED_FOR
        if expires_at is not None:
            left = min(left, (expires_at - self._clock.now()) / SECOND)
        _remember(self._known, digest, (self._clock.monotonic() + left, asker))
        self._used[asker.key_id] = self._clock.now()
        return asker

    async def _acting_for(self, asker: Asker, name: str) -> Asker:
        now = self._clock.monotonic()
        deadline, tenant = self._known_tenants.get(name, (0.0, None))
        if tenant is None or deadline <= now:
            tenant = await self._tenants.find(name)
            if tenant is None:
                raise NotFound(f"no tenant {name[:80]!r}", field="Tocsin-Tenant")
            _remember(self._known_tenants, name, (now + _REMEMBERED_FOR, tenant))
        return msgspec.structs.replace(
            asker,
            tenant_id=tenant.id,
            tenant=tenant.name,
            limits=tenant.limits.over(self.defaults),
            tenant_named=True,
        )


class KeyUse:
    """Writes down when keys were last used, all of them at once, now and then."""

    name = "key use"
    interval = 10.0

    def __init__(self, authenticator: Authenticator, keys: KeyStore) -> None:
        self._authenticator = authenticator
        self._keys = keys

    async def run_once(self, now: Instant) -> Report:  # noqa: ARG002
        """Write what has gathered."""
        used = self._authenticator.take_used()
        if used:
            await self._keys.mark_used(used)
        return Report(len(used))


def _remember(memory: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    memory[key] = value
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
