"""The installation as operators see it."""

import msgspec

from tocsin.api.wire.scalars import Time
from tocsin.domain.findings import Severity
from tocsin.domain.standing import Kind


class TableView(msgspec.Struct, frozen=True):
    """A table, as the server's statistics have it."""

    name: str
    size_bytes: int
    live_rows: int
    dead_rows: int


class StandingView(msgspec.Struct, frozen=True, kw_only=True):
    """What a failover of the database would cost. `behind` is how far the standby that is last is behind."""

    kind: Kind
    words: str
    standbys: int
    in_step: int
    """Standbys that commits wait for."""
    behind_bytes: int | None
    behind_s: float | None


class DatabaseView(msgspec.Struct, frozen=True, kw_only=True):
    """The database. `oldest_transaction_s` is the age of the oldest that is open, `oldest_by` who opened
    it."""

    version: str
    size_bytes: int
    connections: int
    max_connections: int
    oldest_transaction_s: float | None
    oldest_by: str | None
    transactions_a_second: float | None
    """Since this process was asked before; null the first time, and when that was long ago."""
    migration: int
    days_of_history: int
    row_security: str | None
    """Why row-level security does not protect the API, if it does not."""
    tables: list[TableView]
    standing: StandingView


class SettingView(msgspec.Struct, frozen=True):
    """A setting of the API process that answers; of a secret only whether it is `set`."""

    name: str
    value: str | None
    default: bool
    """Whether it is what it would be if nobody had set it."""


class Check(msgspec.Struct, frozen=True):
    """Something that should be so; if it is not, what to do."""

    name: str
    ok: bool
    words: str
    hint: str | None = None


class FindingView(msgspec.Struct, frozen=True):
    """Something that is not as it should be: how urgent it is, why we think so, and the command that mends it
    or shows more."""

    code: str
    severity: Severity
    words: str
    evidence: list[str]
    fix: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, the likeliest cause first. `looked_for` is how many kinds of trouble were looked for."""

    now: Time
    healthy: bool
    looked_for: int
    findings: list[FindingView]


class System(msgspec.Struct, frozen=True, kw_only=True):
    """How the installation is."""

    now: Time
    version: str
    versions: dict[str, int]
    """How many live nodes run which version."""
    roles: dict[str, int]
    database: DatabaseView
    checks: list[Check]
    settings: list[SettingView]
