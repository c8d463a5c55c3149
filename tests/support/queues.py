"""Queues for tests: every verb over one database, for a node that a test names."""

from importlib.resources import files
from typing import Any

import msgspec

from tocsin.db.pool import Database
from tocsin.db.statements import Statement, named
from tocsin.domain.cells import CELL
from tocsin.queue.claiming.claiming import Claiming
from tocsin.queue.claiming.looking import Looking
from tocsin.queue.holder import Holder
from tocsin.queue.queue import open_queue
from tocsin.queue.reclaiming.reclaiming import Reclaiming
from tocsin.queue.settling.settling import Settling
from tocsin.queue.slots.healing import Healing
from tocsin.queue.slots.slots import Slots
from tocsin.queue.starting.starting import Starting

ROUTES = ("http", "noop")
VERBS = ("claiming", "starting", "slots", "settling", "reclaiming")


class WholeQueue(msgspec.Struct, frozen=True):
    """What workers and schedulers do with executions."""

    node_id: int
    looking: Looking
    claiming: Claiming
    starting: Starting
    settling: Settling
    slots: Slots
    reclaiming: Reclaiming
    healing: Healing


def whole_queue(database: Database, node_id: int, claim_ttl: float, **served: Any) -> WholeQueue:
    queue = open_queue(
        database, Holder(node_id), cell=CELL, claim_ttl=claim_ttl, **({"routes": ROUTES} | served)
    )
    return WholeQueue(
        node_id,
        queue.looking,
        queue.claiming,
        queue.starting,
        queue.settling,
        queue.slots,
        Reclaiming(database, CELL),
        Healing(database, CELL),
    )


def queue_statement(name: str) -> Statement:
    """A statement of the queue, whichever verb it belongs to."""
    [package] = [
        f"tocsin.queue.{verb}"
        for verb in VERBS
        if (files(f"tocsin.queue.{verb}") / "sql" / f"{name}.sql").is_file()
    ]
    return named(package, name)
