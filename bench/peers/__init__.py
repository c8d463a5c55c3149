"""Peers: other schedulers and queues, measured on the same machine, the same PostgreSQL server, the same
payload.

Each peer is installed from its registry into a directory of its own outside the repository, at a pinned
version, and runs at the best settings we found for it. Where a setting may make the comparison unfair,
`unfair` says how.

    .venv/bin/python -m bench.peers graphile-worker pgqueuer --measure drain,herd --runs 3
"""

from typing import Protocol

from bench.herd import Lag
from bench.peers.apscheduler import APScheduler
from bench.peers.bullmq import BullMQ
from bench.peers.celery import Celery
from bench.peers.db_scheduler import DbScheduler
from bench.peers.driven import Dishonest, Recurring
from bench.peers.environment import NotInstalled
from bench.peers.graphile_worker import GraphileWorker
from bench.peers.pg_boss import PgBoss
from bench.peers.pgqueuer import PgQueuer
from bench.peers.procrastinate import Procrastinate
from bench.peers.river import River

__all__ = ["PEERS", "Dishonest", "Lag", "NotInstalled", "Peer", "Recurring", "peer_named"]


class Peer(Protocol):
    """One of them. `measures` names what it can do at all; asking for the rest is an error."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def settings(self) -> str: ...
    @property
    def unfair(self) -> str: ...
    @property
    def measures(self) -> frozenset[str]: ...

    async def install(self) -> None: ...
    async def create_single(self, count: int, clients: int | None = None) -> float: ...
    async def create_bulk(self, count: int) -> float: ...
    async def drain(self, count: int) -> float: ...
    async def herd(self, count: int) -> Lag: ...
    async def herd_lags(self, count: int) -> list[float]: ...
    async def spread(self, count: int, seconds: float) -> Lag: ...
    async def spread_lags(self, count: int, seconds: float) -> list[float]: ...
    async def recurring(self, count: int, minutes: int) -> Recurring: ...


PEERS = {
    peer.name: peer
    for peer in (
        GraphileWorker,
        PgBoss,
        PgQueuer,
        BullMQ,
        River,
        DbScheduler,
        Procrastinate,
        APScheduler,
        Celery,
    )
}


def peer_named(name: str, server_url: str) -> Peer:
    """A peer over a PostgreSQL server, given a superuser's URL."""
    return PEERS[name](server_url)
