"""Who is asking: bearer keys, checked against their stored hash, remembered for a few seconds."""

from collections import OrderedDict
from typing import Final

from tocsin.api.endpoint import Caller
from tocsin.clock import Clock
from tocsin.domain.errors import Unauthorized
from tocsin.domain.keys import Scope, hash_of, matches, take_apart
from tocsin.store.keys import KeyStore

_REMEMBERED_FOR: Final = 5.0  # seconds until a revoked key is refused everywhere
_REMEMBERED: Final = 10_000
_LONGEST_KEY: Final = 512


class Authenticator:
    """Turns an Authorization header into a caller."""

    def __init__(self, store: KeyStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()

    async def authenticate(self, header: str | None, scope: Scope) -> Caller:
        """The caller, if its key is good and has the scope."""
        kind, _, text = (header or "").partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not text or len(text) > _LONGEST_KEY:
            raise Unauthorized("an API key is needed: Authorization: Bearer <key>")
        caller = await self._caller(text)
        if scope not in caller.scopes and Scope.ADMIN not in caller.scopes:
            raise Unauthorized(f"this key has no {scope} scope", status=403)
        return caller

    async def _caller(self, text: str) -> Caller:
        digest = hash_of(text)
        now = self._clock.monotonic()
        remembered = self._known.get(digest)
        if remembered is not None and remembered[0] > now:
            return remembered[1]
        presented = take_apart(text)
        key = None if presented is None else await self._store.find(presented.id)
        if key is None or not matches(text, key.secret_hash):
            raise Unauthorized("the API key is not valid")
        caller = Caller(key.tenant_id, key.id, key.scopes)
        self._known[digest] = (now + _REMEMBERED_FOR, caller)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return caller
