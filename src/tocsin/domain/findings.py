"""What is wrong, and what to do about it: the incident playbook as pure functions over a picture.

Each finding is one function that yields nothing where all is well. `FINDINGS` has them in the order in which
an operator should look: what stops work first, then what makes it late, then what will hurt later. A finding
names its evidence and the command that mends it, or the one that shows more where only a person can decide.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import msgspec

from tocsin.domain.picture import LaneSeen, NodeSeen, Picture

Severity = Literal["wrong", "late", "soon"]
_LATE_S: Final = 60.0
_LONG_TRANSACTION_S: Final = 300.0
_SLOW_ROUND_TRIP_S: Final = 0.1
_CLOCK_OFF_S: Final = 5.0
_UNCERTAIN_S: Final = 0.5
_BLOCKING_S: Final = 5.0
_FULL: Final = 0.95
_FEW_CONNECTIONS: Final = 0.85
_LITTLE_DISK: Final = 0.1
_RETRYING: Final = 0.5
_MANY: Final = 20
_DEAD_SHARE: Final = 0.1
_HOUR_S: Final = 3600.0
_CHURN: Final = 3
"""How often within an hour a node may lose every shard there is: one freeze costs it each of them once."""
_SHOWN: Final = 5


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it should be."""

    code: str
    severity: Severity
    words: str
    evidence: list[str]
    fix: str


Find = Callable[[Picture], Iterator[Finding]]


def diagnose(picture: Picture) -> list[Finding]:
    """Everything that was found, the likeliest cause first. Of tables that did not answer nothing is said."""
    finds = FINDINGS if not picture.unread else [find for find in FINDINGS if find in _OF_THE_DATABASE]
    return [finding for find in finds for finding in find(picture)]


def unread_tables(picture: Picture) -> Iterator[Finding]:
    if picture.unread:
        yield Finding(
            "unread_tables", "wrong", "The tables cannot be read: they are locked, or the database is far too slow.",
            ["small statements over them took longer than a second"],
            "look at what is found beside this; `SELECT * FROM pg_stat_activity`",
        )  # fmt: skip


def no_scheduler(picture: Picture) -> Iterator[Finding]:
    if not picture.live("scheduler"):
        yield Finding(
            "no_scheduler", "wrong", "No scheduler is alive: recurring jobs do not fire.",
            [_nodes_seen(picture.nodes)], "tocsin scheduler   # or: tocsin engine",
        )  # fmt: skip


def no_worker(picture: Picture) -> Iterator[Finding]:
    if not picture.live("worker"):
        yield Finding(
            "no_worker", "wrong", "No worker is alive: nothing runs but tasks of remote workers.",
            [_nodes_seen(picture.nodes)], "tocsin worker   # or: tocsin engine",
        )  # fmt: skip


def unowned_shards(picture: Picture) -> Iterator[Finding]:
    if picture.unowned and picture.live("scheduler"):
        yield Finding(
            "unowned_shards", "wrong", "Some shards have no owner: their jobs are not planned.",
            [f"{picture.unowned} of {picture.shards} shards; they are taken within a lease, unless schedulers are stuck"],
            "tocsin shards   # if it stays so: restart the schedulers",
        )  # fmt: skip


def nothing_planned(picture: Picture) -> Iterator[Finding]:
    if picture.behind > _LATE_S:
        yield Finding(
            "nothing_planned", "wrong", "Fires were expected, and nobody has planned them.",
            [f"the earliest is {_span(picture.behind)} late"],
            "tocsin jobs list --overdue   # and look for planner.job_failed in the schedulers' logs",
        )  # fmt: skip


def claims_not_taken_back(picture: Picture) -> Iterator[Finding]:
    if picture.overdue_claim > _LATE_S:
        yield Finding(
            "claims_not_taken_back", "wrong", "Executions of lost workers are not taken back.",
            [f"a claim has been past its deadline for {_span(picture.overdue_claim)}"],
            "tocsin shards   # restart the node that owns shard 0: it reclaims",
        )  # fmt: skip


def blocked_sessions(picture: Picture) -> Iterator[Finding]:
    for one in picture.database.blockers:
        if one.seconds > _BLOCKING_S:
            yield Finding(
                "blocked_sessions", "wrong", "A database session holds a lock that others wait for.",
                [f"{one.name or 'unnamed'} (pid {one.pid}): {one.blocks} wait, for up to {_span(one.seconds)}"],
                f'psql -c "SELECT pg_terminate_backend({one.pid})"',
            )  # fmt: skip


def commits_wait(picture: Picture) -> Iterator[Finding]:
    if picture.database.standing == "waiting":
        yield Finding(
            "commits_wait", "wrong", "Commits wait for a synchronous standby, and none is connected.",
            ["synchronous_standby_names is set, pg_stat_replication has none in step"],
            "connect a standby, or take it out of synchronous_standby_names",
        )  # fmt: skip


def older_than_the_schema(picture: Picture) -> Iterator[Finding]:
    old = [node.name for node in picture.live() if 0 < node.schema < picture.migration]
    if old:
        yield Finding(
            "older_than_the_schema", "soon", "Nodes are of an older build than the database's schema.",
            [_some(old) + f": the newest migration is {picture.migration:04}"],
            "tocsin nodes   # upgrade these",
        )  # fmt: skip


def unserved_routes(picture: Picture) -> Iterator[Finding]:
    for lane in picture.lanes:
        if lane.oldest_due > _LATE_S and not _served(lane, picture) and not _held(lane, picture):
            task = lane.route.removeprefix("task:")
            fix = f"tocsin tasks serve …   # a worker with the task {task}"
            if task == lane.route:
                fix = f"tocsin worker   # one that serves the queue {lane.queue} and targets of kind {lane.route}"
            yield Finding(
                "unserved_routes", "wrong", "Executions are due that no live worker can run.",
                [_lane(lane) + f", route {lane.route}: due for {_span(lane.oldest_due)}"], fix,
            )  # fmt: skip


def paused_queues(picture: Picture) -> Iterator[Finding]:
    waiting = {
        (lane.tenant, lane.queue): lane.oldest_due for lane in picture.lanes if lane.oldest_due > _LATE_S
    }
    for one in picture.paused:
        if (one.tenant, one.queue) in waiting:
            reason = f": {one.reason}" if one.reason else ""
            yield Finding(
                "paused_queues", "late", "A queue is paused, and executions wait in it.",
                [f"{one.queue} of {one.tenant}, since {_span(one.since)}{reason}"],
                f"tocsin queues resume {one.queue} --tenant {one.tenant}",
            )  # fmt: skip


def suspended_tenants(picture: Picture) -> Iterator[Finding]:
    waiting = Counter(lane.tenant for lane in picture.lanes if lane.oldest_due > _LATE_S)
    for tenant in picture.suspended:
        if waiting[tenant]:
            yield Finding(
                "suspended_tenants", "late", "A tenant is suspended, and its executions wait.",
                [tenant], f"tocsin tenants resume {tenant}",
            )  # fmt: skip


def full_workers(picture: Picture) -> Iterator[Finding]:
    workers = [node for node in picture.live("worker") if node.saturation is not None]
    full = [node for node in workers if (node.saturation or 0) >= _FULL]
    if workers and len(full) == len(workers):
        yield Finding(
            "full_workers", "late", "Every worker is full: what is due waits for a place.",
            [f"{len(full)} workers use {_FULL:.0%} of their places or more"],
            "tocsin worker   # start more, or raise TOCSIN_CONCURRENCY",
        )  # fmt: skip


def late_queues(picture: Picture) -> Iterator[Finding]:
    """Late executions that a worker serves, that nothing holds, and that wait for nothing known."""
    if next(full_workers(picture), None) is not None:
        return
    late = [
        lane for lane in picture.lanes
        if lane.oldest_due > _LATE_S and _served(lane, picture) and not _held(lane, picture)
    ]  # fmt: skip
    if late:
        worst = sorted(late, key=lambda lane: -lane.oldest_due)
        yield Finding(
            "late_queues", "late", "Executions are due that workers could run, and do not.",
            [f"{_lane(lane)}: due for {_span(lane.oldest_due)}" for lane in worst[:_SHOWN]],
            "tocsin executions list --state queued   # then `explain` one: a tenant's limit, or a stuck worker",
        )  # fmt: skip


def resting_hosts(picture: Picture) -> Iterator[Finding]:
    yield from _waits(
        picture, "host", "resting_hosts", "Executions wait for hosts that fail, or have no connection free.",
        "tocsin executions list --state queued   # look at the target, or raise TOCSIN_HOST_CONCURRENCY",
    )  # fmt: skip


def waits_for_newer(picture: Picture) -> Iterator[Finding]:
    yield from _waits(
        picture, "version", "waits_for_newer", "Executions wait for a worker that can read them, or has the key of secrets.",
        "tocsin nodes   # upgrade the old workers; give all TOCSIN_SECRET_KEY", least=1,
    )  # fmt: skip


def busy_limits(picture: Picture) -> Iterator[Finding]:
    yield from _waits(
        picture, "slot", "busy_limits", "Many executions wait for a slot of their limit key.",
        "tocsin executions list --state running   # raise the limit of the jobs, or look why they take long",
    )  # fmt: skip


def exploding_retries(picture: Picture) -> Iterator[Finding]:
    sampled = sum(lane.sampled for lane in picture.lanes)
    retrying = sum(lane.retrying for lane in picture.lanes)
    if retrying >= _MANY and retrying >= _RETRYING * sampled:
        worst = max(picture.lanes, key=lambda lane: lane.retrying)
        yield Finding(
            "exploding_retries", "late", "Most of what waits has failed before and is tried again.",
            [f"{retrying} of {sampled} looked at; the most in {_lane(worst)}"],
            f"tocsin queues pause {worst.queue} --tenant {worst.tenant}   # while you mend the target",
        )  # fmt: skip


def dead_letters(picture: Picture) -> Iterator[Finding]:
    dead, all_ = picture.ended.get("dead", 0), sum(picture.ended.values())
    if dead >= _MANY and dead >= _DEAD_SHARE * all_:
        yield Finding(
            "dead_letters", "late", "Many executions failed for good.",
            [f"{dead} of {all_} that ended within 15 minutes"], "tocsin dead-letters groups",
        )  # fmt: skip


def vanished_nodes(picture: Picture) -> Iterator[Finding]:
    gone = [node for node in picture.nodes if not node.alive]
    if gone:
        yield Finding(
            "vanished_nodes", "late", "Nodes vanished without a word: what they ran may run twice.",
            [f"{node.name} ({', '.join(node.roles)}), last seen {_span(node.seen_ago)} ago" for node in gone[:_SHOWN]],
            "look why they died (out of memory? killed?), and start them again",
        )  # fmt: skip


def slow_database(picture: Picture) -> Iterator[Finding]:
    if picture.database.round_trip > _SLOW_ROUND_TRIP_S:
        yield Finding(
            "slow_database", "late", "The database takes long for the smallest question.",
            [f"{picture.database.round_trip * 1000:.0f} ms for SELECT 1"],
            "look at its CPU, disk and network; `SELECT * FROM pg_stat_activity`",
        )  # fmt: skip


def long_transaction(picture: Picture) -> Iterator[Finding]:
    oldest = picture.database.oldest
    if oldest is not None and oldest.seconds > _LONG_TRANSACTION_S:
        yield Finding(
            "long_transaction", "soon", "A transaction is open for long: nothing dead can be removed.",
            [f"{oldest.name or 'unnamed'} (pid {oldest.pid}), for {_span(oldest.seconds)}"],
            f'psql -c "SELECT pg_terminate_backend({oldest.pid})"   # unless it is a backup that will end',
        )  # fmt: skip


def lease_churn(picture: Picture) -> Iterator[Finding]:
    churning = [
        node for node in picture.live("scheduler")
        if node.leases_lost * _HOUR_S / max(node.up_for, _HOUR_S) >= _CHURN * picture.shards
    ]  # fmt: skip
    if churning:
        yield Finding(
            "lease_churn", "soon", "Schedulers lose their leases again and again.",
            [f"{node.name}: {node.leases_lost} within {_span(node.up_for)}" for node in churning[:_SHOWN]],
            "look for freezes and a slow way to the database, or raise TOCSIN_LEASE_TTL",
        )  # fmt: skip


def failing_parts(picture: Picture) -> Iterator[Finding]:
    failing = [node for node in picture.live() if node.defects]
    if failing:
        yield Finding(
            "failing_parts", "soon", "Background parts fail by a defect.",
            [f"{node.name}: {', '.join(node.defects)}" for node in failing[:_SHOWN]],
            "look for service.failed in their logs",
        )  # fmt: skip


def wrong_clock(picture: Picture) -> Iterator[Finding]:
    off = picture.database.clock_off
    if abs(off) > _CLOCK_OFF_S:
        word = "ahead of" if off > 0 else "behind"
        yield Finding(
            "wrong_clock", "soon", "The clock of the database and that of the API's machine differ.",
            [f"the database is {_span(abs(off))} {word} it; jobs fire by the database's clock"],
            "check the time service of both: chronyc tracking",
        )  # fmt: skip


def uncertain_clock(picture: Picture) -> Iterator[Finding]:
    uncertain = [node for node in picture.live() if node.clock_uncertainty > _UNCERTAIN_S]
    if uncertain:
        yield Finding(
            "uncertain_clock", "soon", "Nodes do not know the database's time well: fires may be early or late by that.",
            [f"{node.name}: within {_span(node.clock_uncertainty)}" for node in uncertain[:_SHOWN]],
            "their way to the database is slow, or their machine is overloaded",
        )  # fmt: skip


def mixed_versions(picture: Picture) -> Iterator[Finding]:
    versions = Counter(node.version for node in picture.live())
    if len(versions) > 1:
        yield Finding(
            "mixed_versions", "soon", "Several versions run side by side.",
            [f"{version}: {number} nodes" for version, number in versions.most_common(_SHOWN)],
            "tocsin nodes   # finish the upgrade",
        )  # fmt: skip


def few_connections(picture: Picture) -> Iterator[Finding]:
    database = picture.database
    if database.connections > _FEW_CONNECTIONS * database.max_connections:
        yield Finding(
            "few_connections", "soon", "The database has few connections left.",
            [f"{database.connections} of {database.max_connections} are in use"],
            'psql -c "ALTER SYSTEM SET max_connections = 300"   # and restart it; or run fewer processes',
        )  # fmt: skip


def near_limits(picture: Picture) -> Iterator[Finding]:
    for one in picture.near_limits:
        yield Finding(
            "near_limits", "soon", "A tenant may soon create no more jobs.",
            [f"{one.tenant} has {one.pending} pending jobs of {one.limit}"],
            f"tocsin tenants change {one.tenant} …   # or ask why it has so many",
        )  # fmt: skip


def missing_partitions(picture: Picture) -> Iterator[Finding]:
    database = picture.database
    if database.missing_days or database.stray_rows:
        evidence = [f"no partition for {_some(database.missing_days)}"] if database.missing_days else []
        if database.stray_rows:
            evidence.append(f"about {database.stray_rows:,} rows are in a default partition")
        yield Finding(
            "missing_partitions", "soon", "Days of history or of the audit log have no partition.", evidence,
            "tocsin migrate   # or wait an hour for a scheduler; look for history.in_use in its log",
        )  # fmt: skip


def failing_archive(picture: Picture) -> Iterator[Finding]:
    if picture.unarchived:
        yield Finding(
            "failing_archive", "soon", "Old days cannot be archived, so they are not dropped: the disk fills up.",
            [f"{one.table} of {one.day}, tried {one.failures} times: {one.trouble}" for one in picture.unarchived],
            "tocsin archive list   # and look at the place that TOCSIN_ARCHIVE names: its disk, its rights",
        )  # fmt: skip


def undropped_partitions(picture: Picture) -> Iterator[Finding]:
    if picture.database.overdue_days:
        yield Finding(
            "undropped_partitions", "soon", "Old days of history are not dropped: the disk fills up.",
            [f"the oldest is {picture.database.overdue_days} days older than the {picture.history_days} that are kept"],
            "look for history.in_use in the log of the scheduler with shard 0, and for what reads history",
        )  # fmt: skip


def bloated_tables(picture: Picture) -> Iterator[Finding]:
    bloated = picture.database.bloated
    if bloated:
        yield Finding(
            "bloated_tables", "soon", "Tables are mostly dead rows: every look at them is slow.",
            [f"{one.table}: {one.dead:,} dead beside {one.live:,} live rows" for one in bloated[:_SHOWN]],
            f'psql -c "VACUUM (ANALYZE) tocsin.{bloated[0].table}"   # once no long transaction is open',
        )  # fmt: skip


def unused_slots(picture: Picture) -> Iterator[Finding]:
    for slot in picture.database.slots:
        yield Finding(
            "unused_slots", "soon", "A replication slot is not read: the database keeps its log until the disk is full.",
            [f"{slot.name} keeps {slot.kept_bytes:,} bytes"],
            f"psql -c \"SELECT pg_drop_replication_slot('{slot.name}')\"   # or start its standby",
        )  # fmt: skip


def little_disk(picture: Picture) -> Iterator[Finding]:
    free = picture.database.disk_free
    evidence = (
        [f"{free:.0%} of the embedded database's is free"] if free is not None and free < _LITTLE_DISK else []
    )
    for node in picture.live():
        for place, share in node.disks.items():
            if share < _LITTLE_DISK and (free is None or place != "database"):
                evidence.append(f"{node.name}: {share:.0%} of the disk of its {place} files is free")
    if evidence:
        yield Finding(
            "little_disk", "soon", "A disk is nearly full.", evidence[:_SHOWN], "make room, or lower TOCSIN_HISTORY_DAYS",
        )  # fmt: skip


def unsafe_settings(picture: Picture) -> Iterator[Finding]:
    database = picture.database
    unsafe = [
        (name, words) for name, words, bad in (
            ("fsync", "a crash may lose everything", not database.fsync),
            ("synchronous_commit", "a crash loses what was acknowledged", database.synchronous_commit == "off"),
            ("autovacuum", "tables grow without end", not database.autovacuum),
        ) if bad
    ]  # fmt: skip
    if unsafe:
        yield Finding(
            "unsafe_settings", "soon", "The database is set in a way that breaks promises.",
            [f"{name} is off: {words}" for name, words in unsafe],
            f'psql -c "ALTER SYSTEM SET {unsafe[0][0]} = on" -c "SELECT pg_reload_conf()"',
        )  # fmt: skip


def open_wall(picture: Picture) -> Iterator[Finding]:
    if picture.row_security is not None:
        yield Finding(
            "open_wall", "soon", "Row-level security does not stand between tenants.",
            [picture.row_security], "see docs/guides/tenants.md, “The second wall”",
        )  # fmt: skip


FINDINGS: Final[tuple[Find, ...]] = (
    no_scheduler, no_worker, blocked_sessions, unread_tables, commits_wait, unowned_shards, nothing_planned, claims_not_taken_back,
    unserved_routes, paused_queues, suspended_tenants, full_workers, exploding_retries, resting_hosts, waits_for_newer,
    busy_limits, slow_database, late_queues, dead_letters, vanished_nodes, lease_churn, failing_parts, long_transaction,
    wrong_clock, uncertain_clock, older_than_the_schema, mixed_versions, few_connections, near_limits, little_disk,
    missing_partitions, failing_archive, undropped_partitions, unused_slots, bloated_tables, unsafe_settings, open_wall,
)  # fmt: skip


_OF_THE_DATABASE: Final = frozenset({
    blocked_sessions, unread_tables, commits_wait, slow_database, long_transaction, wrong_clock, few_connections, little_disk,
    missing_partitions, undropped_partitions, unused_slots, bloated_tables, unsafe_settings, open_wall,
})  # fmt: skip


def _waits(
    picture: Picture, reason: str, code: str, words: str, fix: str, least: int = _MANY
) -> Iterator[Finding]:
    found = [(lane.waits.get(reason, 0), lane) for lane in picture.lanes]
    if sum(number for number, _ in found) >= least:
        worst = sorted((one for one in found if one[0]), key=lambda one: -one[0])
        evidence = [f"{_lane(lane)}: {number} or more" for number, lane in worst[:_SHOWN]]
        yield Finding(code, "late", words, evidence, fix)


def _served(lane: LaneSeen, picture: Picture) -> bool:
    """Whether a live worker takes from the lane."""
    task = lane.route.removeprefix("task:")
    if task != lane.route:
        return any(
            one.tenant_id == lane.tenant_id and lane.queue in one.queues and task in one.tasks
            for one in picture.remote_workers
        )
    return any(
        lane.route in node.routes and (not node.queues or lane.queue in node.queues)
        for node in picture.live("worker")
    )


def _held(lane: LaneSeen, picture: Picture) -> bool:
    """Whether its queue is paused or its tenant suspended."""
    paused = any((one.tenant, one.queue) == (lane.tenant, lane.queue) for one in picture.paused)
    return paused or lane.tenant in picture.suspended


def _lane(lane: LaneSeen) -> str:
    return f"queue {lane.queue} of {lane.tenant}"


def _nodes_seen(nodes: Iterable[NodeSeen]) -> str:
    alive = Counter(role for node in nodes if node.alive for role in node.roles)
    return "live: " + (", ".join(f"{number} {role}" for role, number in alive.items()) or "nothing")


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _span(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
