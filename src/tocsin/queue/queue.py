"""The queue of ready executions as one worker has it: a part for each verb, put together here.

::

    looking ──► claiming ──► starting ──► settling        what a worker does with an execution
                    └── slots ──┘────────────┘            what limited executions need on the way
                                 reclaiming, healing      what a scheduler does about workers that vanished
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from tocsin.db.pool import Database
from tocsin.queue.claiming.claiming import Claiming
from tocsin.queue.claiming.directory import Directory
from tocsin.queue.claiming.looking import Looking
from tocsin.queue.holder import Holder
from tocsin.queue.settling.settling import Settling
from tocsin.queue.slots.slots import Slots
from tocsin.queue.starting.gate import Gate
from tocsin.queue.starting.starting import Starting


class Queue(msgspec.Struct, frozen=True):
    """The parts, for one holder of claims."""

    looking: Looking
    claiming: Claiming
    starting: Starting
    settling: Settling
    slots: Slots


def open_queue(
    database: Database,
    holder: Holder,
    *,
    cell: int,
    claim_ttl: float,
    routes: Iterable[str],
    queues: Iterable[str] = (),
    owners: Mapping[str, int] | None = None,
    starts: Database | None = None,
) -> Queue:
    """Put the parts together. `starts` are connections for plain starts alone: a start must not wait for
    other statements, or for a connection to be made."""
    slots = Slots(database, cell, holder)
    looking = Looking(database, cell, Directory(routes, queues, owners))
    ttl = timedelta(seconds=claim_ttl)
    return Queue(
        looking,
        Claiming(database, cell, holder, ttl, looking.low_marks, slots),
        Starting(starts or database, cell, Gate(database, cell, slots)),
        Settling(database, cell, slots),
        slots,
    )
