"""Settings of a process: flags, else `TOCSIN_…` variables, else these defaults."""

import os
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tocsin.archive.objects import check_archive
from tocsin.domain.errors import Refused
from tocsin.domain.limits import Count, Rate, TenantLimits, check_limits
from tocsin.domain.script_target import ScriptRules, check_interpreters
from tocsin.domain.shard import DEFAULT_SHARDS, MOST_SHARDS

_PREFIX: Final = "TOCSIN_"
_BOUNDS: Final = {
    "port": (0, 65_535),
    "engines": (0, 1024),
    "shards": (1, MOST_SHARDS),
    "lease_ttl": (0.2, 3600),
    "claim_ttl": (0.2, 3600),
    "horizon": (1, 3600),
    "claim_ahead": (0.05, 60),
    "claim_batch": (1, 10_000),
    "held_max": (1, 10_000_000),
    "concurrency": (1, 100_000),
    "host_concurrency": (1, 100_000),
    "script_concurrency": (1, 1000),
    "history_days": (1, 36_500),
    "audit_days": (1, 36_500),
    "drain_timeout": (0, 3600),
    "statement_timeout": (0.5, 3600),
    "log_share": (0, 1),
    "trace_share": (0, 1),
}
_CHOICES: Final = {
    "log_format": ("auto", "text", "json"),
    "log_level": ("debug", "info", "warning", "error"),
    "log_attempts": ("off", "failed", "all"),
}
_URLS: Final = {
    "public_url": ("https://", "http://"),
    "otlp_endpoint": ("http://", "https://"),
    "database_url": ("postgresql://", "postgres://"),
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, documented in docs/operating/settings.md."""

    database_url: str | None = None
    data_dir: Path = Path(".tocsin")
    host: str = "127.0.0.1"
    port: int = 8420
    dashboard: bool = True
    """Whether API processes answer browsers with the dashboard."""
    public_url: str | None = None
    """Where browsers find the API, if that is not where it listens: behind a proxy."""
    echo: bool = False
    """Whether `/v1/echo` answers test calls with what it received."""
    engines: int = 0
    """Engine processes started by `serve`; 0 means one per core."""
    gateway: bool = True
    """Whether API processes serve remote workers."""
    share_port: bool = False
    """Whether other API processes on this machine may listen on the same port; the kernel shares out
    connections."""

    shards: int = DEFAULT_SHARDS
    """Into how many parts a new installation divides its jobs; one that exists keeps its number."""
    lease_ttl: float = 10.0
    """Seconds a shard lease lasts without renewal; takeover happens within this and a little more."""
    claim_ttl: float = 10.0
    """Seconds after its run time that a claim lasts without a heartbeat."""
    horizon: float = 45.0
    """How far ahead of their fire times recurring jobs become executions, in seconds."""
    claim_ahead: float = 2.0
    """How far ahead of their run times executions are claimed into memory, in seconds."""
    claim_batch: int = 1000
    held_max: int = 150_000
    """How many claimed executions a worker keeps in memory, waiting for their instant."""
    concurrency: int = 1000
    """How many calls a worker has under way at once."""
    queues: tuple[str, ...] = ()
    """Queues this worker serves; none named means all."""
    history_days: int = 30
    """Whole days of history kept."""
    audit_days: int = 365
    """Whole days of the audit log kept."""
    archive: str | None = None
    """Where old days of both go before they are dropped: a directory, or s3://bucket/prefix."""
    archive_endpoint: str | None = None
    """Where that bucket is, if not at Amazon."""
    drain_timeout: float = 25.0
    """Seconds that running calls may take to finish after SIGTERM."""
    statement_timeout: float = 15.0
    """Seconds after which any single database call is given up."""
    allow_loopback: bool = False
    """Whether targets on this machine may be called."""
    allow_networks: tuple[str, ...] = ()
    """Private networks (CIDR) that targets may be in."""
    allow_ports: tuple[str, ...] = ("80", "443")
    """Ports on which public targets may be called; what is allowed by network or loopback is open on all."""
    host_concurrency: int = 64
    """How many calls a worker has under way to one host and port; more wait in line."""
    scripts: Literal["off", "on"] = "off"
    """Whether jobs may run scripts, and whether this worker runs them."""
    script_interpreters: tuple[str, ...] = ("bash", "python3", "sh")
    """The programs that scripts may be written for."""
    script_network: bool = False
    """Whether a script may ask for the network of the worker's machine."""
    script_concurrency: int = 8
    """How many scripts a worker runs at once; more wait in line."""
    name_servers: tuple[str, ...] = ()
    """Name servers that workers ask for the addresses of targets; none named means the system's."""
    limit_pending_jobs: Count | None = None
    """Limits of tenants that have none of their own; see `domain.limits`."""
    limit_payload_bytes: Count | None = None
    limit_min_interval: str | None = None
    limit_requests_per_second: Rate | None = None
    limit_request_burst: Count | None = None
    limit_in_flight: Count | None = None
    limit_fires_per_second: Rate | None = None
    row_security: Literal["auto", "required", "off"] = "auto"
    """Whether API processes use the database's own wall between tenants."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies whose word about the client's address is believed."""
    admin_key: str | None = None
    secret_key: str | None = None
    """The key that secrets are sealed with: 32 bytes in base64; several while one replaces another, the first
    seals."""
    secret_key_file: Path | None = None
    """A file with that key."""
    otlp_endpoint: str | None = None
    """Where traces are sent: an OpenTelemetry collector that takes OTLP over HTTP."""
    trace_share: float = 1.0
    """Of which share of the executions traces are sent."""
    log_format: str = "auto"
    log_level: str = "info"
    log_attempts: str = "failed"
    """Which finished attempts have a line in the log: `off`, `failed` or `all`."""
    log_share: float = 1.0
    """Which share of the attempts that succeeded has a line, if all have."""
    failpoints: str = ""

    @property
    def script_rules(self) -> ScriptRules | None:
        """What scripts may do; None where there are none."""
        return ScriptRules(self.script_interpreters, self.script_network) if self.scripts == "on" else None

    @property
    def tenant_limits(self) -> TenantLimits:
        """The limits of tenants that have none of their own."""
        names = set(TenantLimits.__struct_fields__) - {"history_days"}
        limits = TenantLimits(
            **{name: getattr(self, f"limit_{name}") for name in names}, history_days=self.history_days
        )
        check_limits(limits)
        return limits


_SECRET: Final = frozenset({"database_url", "admin_key", "secret_key"})


class Shown(msgspec.Struct, frozen=True):
    """A setting in force, for people: of secrets only whether they are set."""

    name: str
    value: str | None
    default: bool


def shown(settings: Settings) -> list[Shown]:
    """All settings under the names of their variables."""
    defaults = Settings()
    found = []
    for name in Settings.__struct_fields__:
        value = getattr(settings, name)
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        words = None if value in (None, "", ()) else "set" if name in _SECRET else text
        found.append(Shown(_PREFIX + name.upper(), words, value == getattr(defaults, name)))
    return found


def load_settings(**flags: Any) -> Settings:
    """Flags that are not None win over the environment, which wins over the defaults."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        flag = flags.get(field.name)
        if flag is not None:
            values[field.name] = flag
        elif (text := os.environ.get(_PREFIX + field.name.upper())) not in (None, ""):
            values[field.name] = _split(text) if field.type == tuple[str, ...] else text
    return _convert(values)


def _convert(values: dict[str, Any]) -> Settings:
    try:
        settings = msgspec.convert(values, Settings, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        raise Refused(reason, field=_PREFIX + path.rstrip("`").upper()) from None
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    """Refuse what has the right type and makes no sense."""
    for name, (least, most) in _BOUNDS.items():
        value = getattr(settings, name)
        if not least <= value <= most:  # also false for NaN
            raise Refused(f"{value} does not lie between {least} and {most}", field=_PREFIX + name.upper())
    for name, allowed in _CHOICES.items():
        if getattr(settings, name) not in allowed:
            raise Refused(f"one of {', '.join(allowed)}", field=_PREFIX + name.upper())
    for text in settings.allow_networks:
        try:
            ip_network(text)
        except ValueError as error:
            raise Refused(str(error), field="TOCSIN_ALLOW_NETWORKS") from None
    check_interpreters(settings.script_interpreters, "TOCSIN_SCRIPT_INTERPRETERS")
    for text in settings.name_servers:
        _check_name_server(text)
    check_archive(settings.archive, settings.archive_endpoint)
    for name, begins in _URLS.items():
        if (url := getattr(settings, name)) and not url.startswith(begins):
            raise Refused(f"the URL begins with {begins[0]}", field=_PREFIX + name.upper())


def _check_name_server(text: str) -> None:
    host, port = (text, "53") if text.count(":") != 1 else text.split(":")
    try:
        ip_address(host)
    except ValueError:
        raise Refused(f"{text!r} is not an address", field="TOCSIN_NAME_SERVERS") from None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise Refused(f"{port!r} is not a port", field="TOCSIN_NAME_SERVERS")


def _decode(kind: type, value: Any) -> Any:
    return Path(value) if kind is Path else value


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
