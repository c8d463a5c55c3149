"""Requests that are carried out once, however often they arrive: an idempotency key and what the first
request with it made.

A key is taken inside the transaction that it protects, so both are there or neither is. A second request with
the key waits for the first one's commit, finds the key taken, and everything that it has done so far is
rolled back (`Repeated`). Keys are forgotten after a day.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Session
from tocsin.domain.errors import Refused
from tocsin.store.statements import sql

_FIRST: Final = (
    "SELECT key, request_hash, job_id, answer FROM idempotency"
    " WHERE tenant_id = $1 AND key = ANY ($2::text[]) AND expires_at > tocsin_now()"
)


class Once(msgspec.Struct, frozen=True):
    """A request that must be carried out once."""

    tenant_id: int
    key: str
    request_hash: bytes


class First(msgspec.Struct, frozen=True):
    """What the first request with a key made: something of a job, and the rest of its answer as JSON."""

    request_hash: bytes
    job_id: UUID
    answer: str | None


class Repeated(Exception):
    """The key was taken by an earlier request; nothing of this one was done."""


async def take_key(session: Session, once: Once | None, job_id: UUID, answer: Any) -> None:
    """Take the key of the request that this transaction carries out, with what it made."""
    if once is None:
        return
    text = msgspec.json.encode(answer).decode()
    args = (once.tenant_id, once.key, once.request_hash, job_id, text)
    if await session.fetchrow(sql("idempotent_key"), *args) is None:
        raise Repeated


async def take_text(session: Session, once: Once | None, job_id: UUID, answer: Callable[[], str]) -> None:
    """The same with an answer that is JSON text already, and made only if there is a key."""
    if once is None:
        return
    args = (once.tenant_id, once.key, once.request_hash, job_id, answer())
    if await session.fetchrow(sql("idempotent_key"), *args) is None:
        raise Repeated


async def take_keys(session: Session, requests: Sequence[tuple[Once, UUID]]) -> None:
    """Take the keys of many requests for jobs. `Repeated` if one of them is taken."""
    tenant_id = requests[0][0].tenant_id
    keys, hashes = [once.key for once, _ in requests], [once.request_hash for once, _ in requests]
    rows = await session.fetch(
        sql("idempotent_keys"), tenant_id, keys, hashes, [job_id for _, job_id in requests]
    )
    if len(rows) < len(requests):
        raise Repeated


async def leave_keys(session: Session, requests: Sequence[Once]) -> None:
    """Give keys back that this transaction took for what it then could not make."""
    if requests:
        keys = [once.key for once in requests]
        await session.execute(
            "DELETE FROM idempotency WHERE tenant_id = $1 AND key = ANY ($2::text[])",
            requests[0].tenant_id,
            keys,
        )


class RepeatStore:
    """Looks up what was carried out before."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def first(self, once: Once) -> First | None:
        """What the first request with this key made; refused if that was another request."""
        first = (await self.firsts([once])).get(once.key)
        if first is not None and first.request_hash != once.request_hash:
            raise used_otherwise()
        return first

    async def firsts(self, requests: Sequence[Once]) -> dict[str, First]:
        """What the first requests with these keys made, by key; the caller sees whether they were the
        same."""
        if not requests:
            return {}
        rows = await self._database.fetch(_FIRST, requests[0].tenant_id, [once.key for once in requests])
        return {row["key"]: First(row["request_hash"], row["job_id"], row["answer"]) for row in rows}


def used_otherwise() -> Refused:
    """The answer for a key that came with another request before."""
    return Refused(
        "the key was used for another request", field="idempotency_key", code="idempotency_key_reused"
    )
