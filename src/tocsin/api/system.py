"""``/v1/system``: the database, the fleet's versions, and checks that say what to do. Shared for ten
seconds."""

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

import tocsin
from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.wire import system as wire
from tocsin.domain.findings import FINDINGS, diagnose
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import Scope
from tocsin.domain.standing import Standing

_FRESH_S: Final = 10.0
_REMEMBERED_S: Final = 120.0
_LONG_TRANSACTION_S: Final = 300
_CONNECTIONS_SHARE: Final = 0.8
_MANY_DEAD: Final = 100_000
_HISTORY_DAYS: Final = 30


async def show(call: ApiCall) -> wire.System:
    """How the installation is."""
    context, moment = call.context, call.context.clock.monotonic()
    found = context.fresh.find("system", moment)
    if found is None:
        health = await context.system.health()
        nodes = [node for node in await context.leases.nodes() if node["alive"]]
        shards = await context.leases.shards()
        found = _system(call, health, nodes, shards, await context.system.standing())
        context.fresh.keep("system", moment, found, seconds=_FRESH_S)
    answer: wire.System = found
    return answer


async def findings(call: ApiCall) -> wire.Diagnosis:
    """What is wrong, and what to do about it."""
    return await call.context.fresh.shared("findings", call.context.clock, lambda: _diagnose(call))


async def _diagnose(call: ApiCall) -> wire.Diagnosis:
    context = call.context
    set_to = {one.name: one.value for one in context.settings}
    days = int(set_to.get("TOCSIN_HISTORY_DAYS") or _HISTORY_DAYS)
    disk = _disk_free(set_to.get("TOCSIN_DATA_DIR"))
    found = diagnose(await context.picture.take(days, time.time(), context.wall, disk))
    return wire.Diagnosis(
        now=format_instant(context.clock.now()),
        healthy=not found,
        looked_for=len(FINDINGS),
        findings=[wire.FindingView(**msgspec.structs.asdict(one)) for one in found],
    )


def _disk_free(directory: str | None) -> float | None:
    """The free share of the disk that the embedded database is on, if there is one."""
    if directory is None or not Path(directory, "postgres").is_dir():
        return None
    usage = shutil.disk_usage(directory)
    return usage.free / usage.total


def _system(
    call: ApiCall, health: Any, nodes: Sequence[Any], shards: Sequence[Any], standing: Standing
) -> wire.System:
    tables = msgspec.json.decode(health["tables"] or "[]", type=list[wire.TableView])
    return wire.System(
        now=format_instant(call.context.clock.now()),
        version=tocsin.__version__,
        versions=dict(Counter(node["version"] for node in nodes)),
        roles=dict(Counter(role for node in nodes for role in node["roles"])),
        database=wire.DatabaseView(
            version=health["version"],
            size_bytes=health["size_bytes"],
            connections=health["connections"],
            max_connections=health["max_connections"],
            oldest_transaction_s=health["oldest_s"],
            oldest_by=health["oldest_by"],
            transactions_a_second=_rate(call, health["transactions"]),
            migration=health["migration"],
            days_of_history=health["days_of_history"],
            row_security=call.context.wall,
            tables=tables,
            standing=wire.StandingView(words=standing.words, **msgspec.structs.asdict(standing)),
        ),
        checks=[*_checks(health, nodes, shards, tables), _standby(standing)],
        settings=[wire.SettingView(one.name, one.value, one.default) for one in call.context.settings],
    )


def _rate(call: ApiCall, transactions: int) -> float | None:
    """Transactions a second since the look before, if that is not long ago."""
    context, moment = call.context, call.context.clock.monotonic()
    before: tuple[float, int] | None = context.fresh.find("transactions", moment)
    context.fresh.keep("transactions", moment, (moment, transactions), seconds=_REMEMBERED_S)
    if before is None or moment <= before[0]:
        return None
    return round(max(0, transactions - before[1]) / (moment - before[0]), 1)


def _checks(
    health: Any, nodes: Sequence[Any], shards: Sequence[Any], tables: Sequence[wire.TableView]
) -> Iterator[wire.Check]:
    """What should be so, the most important first."""
    roles = Counter(role for node in nodes for role in node["roles"])
    for role, words in (("scheduler", "plans recurring jobs"), ("worker", "runs executions")):
        number = roles[role]
        yield _check(f"{role}s", number > 0, f"{number} live; one {words}", f"start one: `tocsin {role}`")
    unowned = sum(shard["owner"] is None for shard in shards)
    yield _check(
        "shards", not unowned, f"{unowned} without an owner", "see `tocsin shards`; a scheduler takes them"
    )
    versions = {node["version"] for node in nodes}
    yield _check("versions", len(versions) < 2, ", ".join(sorted(versions)) or "none", "finish the upgrade")
    age = health["oldest_s"] or 0.0
    yield _check(
        "oldest transaction", age < _LONG_TRANSACTION_S, f"open for {age:.0f} s, by {health['oldest_by'] or 'nobody'}",
        "end it: while it is open nothing dead can be removed",
    )  # fmt: skip
    share = health["connections"] / max(1, health["max_connections"])
    yield _check(
        "connections", share < _CONNECTIONS_SHARE, f"{health['connections']} of {health['max_connections']}",
        "raise max_connections, or run fewer processes",
    )  # fmt: skip
    dead = [table.name for table in tables if table.dead_rows > max(_MANY_DEAD, table.live_rows)]
    yield _check("dead rows", not dead, ", ".join(dead) or "few", "look for long transactions, then VACUUM")
    yield _check(
        "days of history", not health["stray_bytes"], "every row has its day" if not health["stray_bytes"] else "rows without a day",
        "a scheduler makes missing days within the hour",
    )  # fmt: skip


def _standby(standing: Standing) -> wire.Check:
    hint = "connect a standby, or take it out of synchronous_standby_names"
    return _check("standbys", standing.kind != "waiting", standing.words, hint)


def _check(name: str, ok: bool, words: str, hint: str) -> wire.Check:  # noqa: FBT001 - what is checked
    return wire.Check(name, ok, words, None if ok else hint)


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/system", handler=show, answer=wire.System, scope=Scope.ADMIN,
        summary="The database, the fleet's versions, and checks that say what to do",
    ),
    Endpoint(
        method="GET", path="/v1/system/findings", handler=findings, answer=wire.Diagnosis, scope=Scope.ADMIN,
        summary="What is wrong, the likeliest cause first, with evidence and the command that mends it",
    ),
)  # fmt: skip
