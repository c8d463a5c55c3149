"""The idempotency keys of a batch's items: the key of the request and the position of the item.

Without a key in the request there are none, and nothing is asked or written for them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from tocsin.api.endpoint import ApiCall
from tocsin.api.repeating import once_of
from tocsin.api.wire import jobs as wire
from tocsin.store.jobs import Keyed, NewJob
from tocsin.store.repeats import Once

_SEPARATOR = "\x1f"  # which a caller's key cannot have


class BatchKeys:
    """A key for each item that could be read."""

    def __init__(self, call: ApiCall) -> None:
        self._call = call
        self._whole = once_of(msgspec.structs.replace(call, body=None), "batch")
        self._items: dict[int, Once] = {}

    @property
    def key(self) -> str | None:
        """The key of the request."""
        return None if self._whole is None else self._whole.key

    def add(self, index: int, new: wire.NewJob) -> None:
        """An item arrived. Its hash is of the item as it was understood: spelling and order do not matter."""
        if self._whole is not None:
            digest = hashlib.sha256(msgspec.json.encode(new, order="sorted")).digest()
            key = f"{self._whole.key}{_SEPARATOR}{index:05}"
            self._items[index] = Once(self._whole.tenant_id, key, digest)

    def of(self, waiting: Sequence[tuple[int, NewJob]]) -> list[Keyed]:
        """Jobs with the keys of their items."""
        return [(job, self._items.get(index)) for index, job in waiting]

    async def known(self, indices: Iterable[int]) -> dict[int, UUID | None]:
        """Of these items, those whose key an earlier request had, and the job that it created; None if it was
        about another one."""
        asked = {index: once for index in indices if (once := self._items.get(index)) is not None}
        firsts = await self._call.context.repeats.firsts(list(asked.values()))
        found = {index: (once, firsts[once.key]) for index, once in asked.items() if once.key in firsts}
        return {
            index: first.job_id if first.request_hash == once.request_hash else None
            for index, (once, first) in found.items()
        }
