"""Idempotency-Key on requests that do something each time they arrive: fire, run again, skip, backfill,
retry.

The same key with the same request within a day does nothing more and answers with what the first one made, as
it is now. The same key with another request is refused.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tocsin.api.endpoint import ApiCall, Reply
from tocsin.api.wire.jobs import MAX_IDEMPOTENCY_KEY, IdempotencyKey
from tocsin.domain.errors import Unavailable
from tocsin.domain.job import check_text
from tocsin.store.repeats import First, Once, Repeated

HEADER = "Idempotency-Key"
REPEATABLE: dict[str, Any] = {
    "request_headers": {HEADER: IdempotencyKey},
    "answer_headers": ("Idempotent-Replayed",),
}
"""Of an endpoint that honours the header."""


def once_of(call: ApiCall, action: str) -> Once | None:
    """The request as one that is carried out once, if it has a key."""
    key = call.headers.get("idempotency-key")
    if key is None:
        return None
    check_text(key, HEADER, MAX_IDEMPOTENCY_KEY)
    asked = msgspec.json.encode((action, sorted(call.path.items()), call.body), order="sorted")
    return Once(call.asker.tenant_id, key, hashlib.sha256(asked).digest())


async def carried_out_once(
    call: ApiCall,
    action: str,
    act: Callable[[Once | None], Awaitable[Any]],
    again: Callable[[First], Awaitable[Any]],
) -> Any:
    """The answer of `act`, or for a repetition that of `again`."""
    once = once_of(call, action)
    if once is None:
        return await act(None)
    first = await call.context.repeats.first(once)
    if first is None:
        try:
            return await act(once)
        except Repeated:
            first = await call.context.repeats.first(once)
    if first is None:  # the key expired between two looks
        raise Unavailable("the idempotency key has just expired")
    call.changed_nothing()
    return Reply(await again(first), headers={"idempotent-replayed": "true"})
