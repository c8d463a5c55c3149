"""How an installation stands at one moment: what `findings` are made from.

Spans are seconds and numbers are small, so that a picture can be made up in a test and read in one.
"""

from collections.abc import Mapping, Sequence

import msgspec


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A node as its row has it."""

    name: str
    roles: Sequence[str] = ()
    version: str = ""
    schema: int = 0
    alive: bool = True
    seen_ago: float = 0.0
    up_for: float = 0.0
    queues: Sequence[str] = ()
    """Those that a worker serves; none named means all."""
    routes: Sequence[str] = ()
    saturation: float | None = None
    clock_uncertainty: float = 0.0
    disks: Mapping[str, float] = {}
    """The free shares of its disks, by what is on them."""
    leases_lost: int = 0
    defects: Sequence[str] = ()
    """Background parts that failed by a defect."""


class RemoteWorkers(msgspec.Struct, frozen=True):
    """Live remote workers of one tenant that serve the same."""

    tenant_id: int
    queues: Sequence[str]
    tasks: Sequence[str]


class LaneSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in one queue of one tenant on one route: of each lane the first few."""

    tenant_id: int
    tenant: str
    queue: str
    route: str
    oldest_due: float = 0.0
    """For how long the first has been due; negative if it is to come."""
    sampled: int = 0
    retrying: int = 0
    waits: Mapping[str, int] = {}
    """How many of them wait for something other than their time."""


class Paused(msgspec.Struct, frozen=True):
    """A queue that is held."""

    tenant: str
    queue: str
    since: float
    reason: str | None = None


class Session(msgspec.Struct, frozen=True):
    """A session of the database that is in the way."""

    pid: int
    name: str
    seconds: float
    blocks: int = 0
    """Sessions that wait for it."""


class Slot(msgspec.Struct, frozen=True):
    """A replication slot without a reader."""

    name: str
    kept_bytes: int


class NearLimit(msgspec.Struct, frozen=True):
    """A tenant that has nearly as many pending jobs as it may."""

    tenant: str
    pending: int
    limit: int


class Bloated(msgspec.Struct, frozen=True):
    """A table that is mostly dead rows."""

    table: str
    dead: int
    live: int


class Unarchived(msgspec.Struct, frozen=True):
    """A part of a day that could not be archived, and how often that was tried."""

    table: str
    day: str
    failures: int
    trouble: str


class DatabaseSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The database."""

    round_trip: float = 0.0
    connections: int = 1
    max_connections: int = 100
    standing: str = "alone"
    oldest: Session | None = None
    """The oldest transaction."""
    blockers: Sequence[Session] = ()
    bloated: Sequence[Bloated] = ()
    slots: Sequence[Slot] = ()
    synchronous_commit: str = "on"
    autovacuum: bool = True
    fsync: bool = True
    missing_days: Sequence[str] = ()
    """Tables whose partition of today or tomorrow is missing."""
    stray_rows: int = 0
    """Rows in default partitions, as the server estimates."""
    overdue_days: int = 0
    """By how many days the oldest partition of history is older than it should be."""
    clock_off: float = 0.0
    """By how much the database's clock is ahead of the API's machine."""
    disk_free: float | None = None
    """Share of the disk that is free, where the API sees it: of an embedded database."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The installation."""

    unread: bool = False
    """Whether the tables did not answer: then only the database is in the picture."""
    migration: int = 0
    """The newest that was applied."""
    nodes: Sequence[NodeSeen] = ()
    shards: int = 64
    unowned: int = 0
    behind: float = 0.0
    """How late the earliest fire is that was not planned."""
    overdue_claim: float = 0.0
    """For how long the oldest claim that was not taken back has been past its deadline."""
    lanes: Sequence[LaneSeen] = ()
    remote_workers: Sequence[RemoteWorkers] = ()
    paused: Sequence[Paused] = ()
    suspended: Sequence[str] = ()
    near_limits: Sequence[NearLimit] = ()
    ended: Mapping[str, int] = {}
    """What ended within the last quarter of an hour, by state."""
    unarchived: Sequence[Unarchived] = ()
    """Parts of days that were tried twice or more."""
    history_days: int = 30
    row_security: str | None = None
    database: DatabaseSeen = DatabaseSeen()

    def live(self, role: str | None = None) -> list[NodeSeen]:
        """Live nodes, of a role."""
        return [node for node in self.nodes if node.alive and (role is None or role in node.roles)]
