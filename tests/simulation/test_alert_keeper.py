"""Alerts under a running engine: trouble is found where it is, told once by jobs, and told to be over."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.alert_channel import AlertChannel
from tocsin.domain.alert_rule import (
    AlertRule,
    ArchiveFailing,
    ClockTrouble,
    DeadLetters,
    DeadMansSwitch,
    DidNotRun,
    DiskTrouble,
    FailuresInARow,
    HostAtRest,
    LateFires,
    LeaseChurn,
    PartitionTrouble,
    PausedQueue,
    PendingJobs,
    Unserved,
    Watch,
)
from tocsin.domain.alerting import QUEUE
from tocsin.domain.audit import Origin
from tocsin.domain.errors import OwnershipLost
from tocsin.domain.ids import job_text
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, Instant, Span, format_instant, parse_instant
from tocsin.domain.limits import TenantLimits
from tocsin.domain.outcome import SUCCEEDED, Outcome, Postponed, Verdict
from tocsin.domain.policy import Policies, Retry
from tocsin.domain.protocol import NewWorker, TaskOffer
from tocsin.domain.task_target import TaskTarget
from tocsin.domain.waits import Reason
from tocsin.scheduler.alert_keeper import AlertKeeper
from tocsin.store import alert_courses, alert_sources
from tocsin.store.alert_courses import AlertCourses
from tocsin.store.alert_sources import AlertSources
from tocsin.store.alerts import AlertStore
from tocsin.store.jobs import define_within
from tocsin.store.queues import QueueStore
from tocsin.store.tallies import Tally, TallyStore
from tocsin.store.workers import WorkerStore

NOON = parse_instant("2031-05-05T12:00:00Z", "")
ONCE = Policies(retry=Retry(max_attempts=1))
FAILED = Outcome(Verdict.FAILED, error="HTTP 500")
LOOK: Span = 10 * SECOND


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


class Watched:
    """An engine with a keeper of alerts."""

    def __init__(self, engine: Engine, **limits: Any) -> None:
        self.engine = engine
        self.store = AlertStore(engine.database)
        self._limits = TenantLimits(**limits)

    async def begin(self, *rules: tuple[str, AlertRule]) -> None:
        for table in ("alert_rules", "alert_channels", "tallies"):
            await self.engine.database.execute(f"DELETE FROM {table}")
        await self.store.put_channel(TENANT, "ops", AlertChannel(kind="webhook", url="https://ops.example/"))
        for name, rule in rules:
            await self.store.put_rule(TENANT, name, rule)
        await self.take_over()

    async def take_over(self) -> None:
        """The keeper starts anew, with nothing in memory."""
        (node,) = await self.engine.database.fetch("SELECT id FROM nodes")
        self.sources = AlertSources(self.engine.database, 45.0, self._limits)
        self.courses = AlertCourses(self.engine.database, node["id"])
        clock = self.engine.time.clock
        self.keeper = AlertKeeper(self.courses, self.sources, self.engine.leases, clock)

    async def look(self) -> None:
        await self.keeper.run_once(self.engine.time.now())

    async def run(self, span: Span, step: Span = LOOK) -> None:
        """Let the engine work, with a look at every step."""
        end = self.engine.time.now() + span
        while (now := self.engine.time.now()) < end:
            await self.look()
            await self.engine.run_until(min(now + step, end))

    async def messages(self) -> list[dict[str, Any]]:
        """What was told, in order."""
        rows = await self.engine.database.fetch(
            "SELECT target FROM jobs WHERE queue = $1 ORDER BY created_at, id", QUEUE
        )
        return [msgspec.json.decode(row["target"])["body"] for row in rows]

    async def told(self) -> list[tuple[str, str]]:
        return [(one["rule"], one["state"]) for one in await self.messages()]

    async def groups(self, watch: Watch, *, fleet: bool = False) -> set[str]:
        """The groups that a look at a source finds now."""
        found = await self.sources.find(watch, None if fleet else [TENANT], self.engine.time.now())
        return {finding.group for _, finding in found}


def rule(watch: Watch, **fields: Any) -> AlertRule:
    return AlertRule(watch=watch, channels=("ops",), **fields)


def test_of_alerts_that_are_over_each_rule_keeps_the_latest_whatever_their_number(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_courses, "MOST_RESOLVED", 10)

    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(("many", rule(DeadLetters())), ("few", rule(DeadLetters())))
        for name, number in (("many", 50), ("few", 5)):
            await engine.database.execute(
                "INSERT INTO alerts (tenant_id, rule, alert_group, state, since, seen_at, resolved_at, told, told_at, summary)"
                " SELECT $1, $2, n::text, 'resolved', at, at, at, CASE WHEN n < 50 THEN 'resolved' ELSE 'firing' END, at, ''"
                " FROM (SELECT n, tocsin_now() - n * interval '1 min' AS at FROM generate_series(1, $3::integer) AS n) AS ends",
                TENANT,
                name,
                number,
            )
        await watched.courses.forget(engine.time.now())
        rows = await engine.database.fetch(
            "SELECT rule, array_agg(alert_group::integer) AS left FROM alerts GROUP BY 1"
        )
        left = {row["rule"]: sorted(row["left"]) for row in rows}
        assert left == {"many": [*range(1, 11), 50], "few": [1, 2, 3, 4, 5]}, "what is to be told is kept"

    play(url, NOON, story)


def test_dead_letters_are_told_once_by_kind_of_error_and_their_end_too(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(("letters", rule(DeadLetters(window="10m"))))
        engine.calls.answer = lambda _: FAILED  # of those that tell of alerts as well
        for minute in range(1, 4):
            await engine.define(schedule(at=format_instant(NOON + minute * MINUTE)), ONCE, name="bill")
        await watched.run(20 * MINUTE, MINUTE)
        first, last = await watched.messages()
        assert (first["state"], first["rule"], len(first["alerts"])) == ("firing", "letters", 1)
        assert "bill" in first["alerts"][0]["summary"]
        assert "HTTP 500" in first["alerts"][0]["summary"]
        assert last["state"] == "resolved"
        assert first["alerts"][0]["group"] == last["alerts"][0]["group"]
        own = await engine.database.fetch("SELECT name, tags FROM jobs WHERE queue = $1", QUEUE)
        assert {row["name"] for row in own} == {
            "alert letters firing to ops",
            "alert letters resolved to ops",
        }
        assert all("alert" in row["tags"] for row in own)
        # The first of them has failed for good by now, and nobody was told of that.
        await watched.run(2 * HOUR, 10 * MINUTE)
        assert await engine.count("history", "queue = $1 AND state = 'dead'", QUEUE) == 2
        assert len(await watched.messages()) == 2

    play(url, NOON, story)


def test_a_keeper_that_dies_while_it_tells_leaves_nothing_half_done(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(("letters", rule(DeadLetters())))
        engine.calls.answer = lambda one: FAILED if one.attempt == 1 else SUCCEEDED
        await engine.define(schedule(at=format_instant(NOON + SECOND)), ONCE)
        await engine.run_until(NOON + MINUTE)
        whole = define_within

        async def dies(*_: Any) -> None:
            raise OwnershipLost("killed")

        for _ in range(3):
            monkeypatch.setattr(alert_courses, "define_within", dies)
            with pytest.raises(OwnershipLost):
                await watched.look()
            assert await engine.count("alerts") == 0
            monkeypatch.setattr(alert_courses, "define_within", whole)
            await watched.take_over()
        await watched.look()
        for _ in range(3):  # and dies after it has told
            await watched.take_over()
            await watched.look()
        assert await watched.told() == [("letters", "firing")]
        await engine.run_until(NOON + HOUR // 2)
        assert await engine.count("history", "queue = $1 AND state = 'succeeded' AND attempt = 2", QUEUE) == 1

    play(url, NOON, story)


def test_a_keeper_that_was_overtaken_writes_nothing(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(("letters", rule(DeadLetters())), ("switch", rule(DeadMansSwitch())))
        engine.calls.answer = lambda _: FAILED
        await engine.define(schedule(at=format_instant(NOON + SECOND)), ONCE)
        await engine.run_until(NOON + MINUTE)
        await engine.database.execute("UPDATE shards SET epoch = epoch + 1 WHERE shard = 0")
        with pytest.raises(OwnershipLost):
            await watched.look()
        assert await engine.count("alerts") == 0
        assert await watched.messages() == []
        await engine.database.execute("UPDATE shards SET epoch = epoch - 1 WHERE shard = 0")

    play(url, NOON, story)


def test_a_job_that_nobody_plans_did_not_run_and_neither_did_one_that_was_missed(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(("missing", rule(DidNotRun())))
        job = await engine.define(schedule(every="10m", ends_at=format_instant(NOON + HOUR)), name="nightly")
        await watched.run(25 * MINUTE, MINUTE)
        assert await watched.messages() == []
        engine.away = {"planner"}
        await engine.time.advance_to(NOON + 32 * MINUTE)
        await watched.look()
        assert await watched.messages() == []
        await engine.time.advance_to(NOON + 32 * MINUTE + LOOK)
        await watched.look()
        (message,) = await watched.messages()
        assert message["alerts"][0]["group"] == job_text(job)
        assert message["alerts"][0]["summary"].startswith("nightly did not run: no scheduler planned")
        engine.away = set()
        await engine.time.advance_to(NOON + 52 * MINUTE)
        await engine.run_until(NOON + 52 * MINUTE)  # one of the missed fires runs, the other is skipped
        assert await watched.groups(DidNotRun()) == {job_text(job)}
        await watched.run(15 * MINUTE, MINUTE)
        assert await watched.told() == [("missing", "firing"), ("missing", "resolved")]

    play(url, NOON, story)


def test_what_was_skipped_for_other_reasons_hides_no_missed_fire(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_sources, "_MOST_READ", 5)

    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        missed = await engine.define(schedule(every="1d", ends_at=format_instant(NOON + DAY)))
        busy = await engine.define(schedule(every="1d", ends_at=format_instant(NOON + DAY)))
        for number in range(8):
            job, reason = (missed, "misfire: too late") if number == 0 else (busy, "overlap: one still runs")
            await engine.database.execute(
                "INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,"
                " finished_at, attempt, reason)"
                " VALUES (0, $1, $2, $3, 'default', 5, 'schedule', 'skipped', $2, $2, $2, 0, $4)",
                job,
                NOON - MINUTE + number * SECOND,
                TENANT,
                reason,
            )
        assert await watched.groups(DidNotRun()) == {job_text(missed)}

    play(url, NOON, story)


def test_what_waits_for_its_own_job_hides_nothing_that_waits_for_a_worker(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_sources, "_MOST_WAITING", 5)

    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        engine.away = {"claimer"}
        for _ in range(8):
            await engine.define(schedule(at=format_instant(NOON)), queue="mail")
        await engine.run_until(NOON + MINUTE)
        await engine.database.execute("UPDATE executions SET waits_for = 'slot'")
        now = NOON + 5 * MINUTE
        await engine.time.advance_to(now)
        assert await watched.sources.waiting([TENANT], now, now) == []
        await engine.define(schedule(at=format_instant(now)), queue="mail")
        await engine.run_until(now + MINUTE)
        (row,) = await watched.sources.waiting([TENANT], now + MINUTE, now + MINUTE)
        assert (row["queue"], row["number"], row["oldest"]) == ("mail", 1, now)

    play(url, NOON, story)


def test_a_switch_beats_every_minute_while_fires_happen_and_stops_when_they_do_not(url: str) -> None:
    async def beats(watched: Watched, since: Instant) -> int:
        return await watched.engine.count("jobs", "queue = $1 AND created_at >= $2", QUEUE, since)

    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(("switch", rule(DeadMansSwitch(), scope="fleet")))
        await engine.define(schedule(every="1m", ends_at=format_instant(NOON + HOUR)))
        await watched.run(5 * MINUTE)
        assert await beats(watched, NOON) == 5
        assert (await watched.messages())[0]["state"] == "alive"
        engine.away = {"planner"}
        await watched.run(10 * MINUTE)  # it is found out a grace after the first fire that is missing
        assert await beats(watched, NOON + 9 * MINUTE) == 0
        shown = await watched.store.rule(TENANT, "switch", fleet=True)
        assert shown["withheld"].startswith("no scheduler planned the fire of")
        engine.away = {"claimer"}
        await watched.run(10 * MINUTE)
        assert (await watched.store.rule(TENANT, "switch", fleet=True))["withheld"].startswith(
            "executions wait"
        )
        back = engine.time.now()
        engine.away = set()
        await watched.run(5 * MINUTE)
        assert await beats(watched, back) >= 4
        assert (await watched.store.rule(TENANT, "switch", fleet=True))["withheld"] is None
        # What could not be sent in its minute was not sent later.
        assert await engine.count("executions", "queue = $1", QUEUE) == 0

    play(url, NOON, story)


def test_a_quiet_installation_raises_no_alert_and_beats(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine, pending_jobs=1000)
        await engine.database.execute("UPDATE nodes SET routes = ARRAY['http', 'noop']")
        kinds: list[Watch] = [
            DeadLetters(), FailuresInARow(), DidNotRun(), LateFires(at_least=1), Unserved(), PausedQueue(), HostAtRest(), PendingJobs()
        ]  # fmt: skip
        own = [(f"own{n}", rule(watch)) for n, watch in enumerate(kinds)]
        fleet = [(f"fleet{n}", rule(watch, scope="fleet")) for n, watch in enumerate(kinds)]
        trouble: list[Watch] = [ClockTrouble(), LeaseChurn(), DeadMansSwitch()]
        more = [(f"more{n}", rule(watch, scope="fleet")) for n, watch in enumerate(trouble)]
        await watched.begin(*own, *fleet, *more)
        await engine.define(schedule(every="1m", ends_at=format_instant(NOON + HOUR)))
        await watched.run(10 * MINUTE)
        assert set(await watched.told()) == {("more2", "alive")}
        assert len(await watched.told()) == 10

    play(url, NOON, story)


def test_a_job_that_keeps_failing_is_told_until_it_succeeds(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        engine.calls.answer = lambda _: FAILED
        job = await engine.define(schedule(every="1m", ends_at=format_instant(NOON + HOUR)), ONCE)
        await engine.run_until(NOON + 2 * MINUTE + SECOND)
        assert await watched.groups(FailuresInARow(number=3)) == set()
        await engine.run_until(NOON + 3 * MINUTE + SECOND)
        assert await watched.groups(FailuresInARow(number=3)) == {job_text(job)}
        assert await watched.groups(FailuresInARow(number=3), fleet=True) == {job_text(job)}
        engine.calls.answer = lambda _: SUCCEEDED
        await engine.run_until(NOON + 4 * MINUTE + SECOND)
        assert await watched.groups(FailuresInARow(number=3)) == set()

    play(url, NOON, story)


def test_what_waits_for_nobody_is_late_and_unserved_unless_its_queue_is_paused(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        engine.away = {"claimer"}
        for _ in range(12):
            await engine.define(schedule(at=format_instant(NOON)), queue="mail")
        await engine.run_until(NOON + 2 * MINUTE)
        assert await watched.groups(Unserved()) == {"mail/http"}
        await engine.database.execute("UPDATE nodes SET routes = ARRAY['http'], queues = ARRAY['other']")
        assert await watched.groups(Unserved()) == {"mail/http"}
        assert await watched.groups(Unserved(), fleet=True) == {"mail/http"}
        await engine.database.execute("UPDATE nodes SET queues = '{}'")
        assert await watched.groups(Unserved()) == set()
        assert await watched.groups(LateFires()) == {"mail"}
        assert await watched.groups(LateFires(queue="other")) == set()
        await QueueStore(engine.database).pause(TENANT, "mail", None, None, Origin("somebody"))
        assert await watched.groups(LateFires()) == set()
        assert await watched.groups(PausedQueue()) == set()
        await engine.time.advance_to(NOON + 2 * HOUR)
        assert await watched.groups(PausedQueue()) == {"mail"}
        assert await watched.groups(PausedQueue(queue="other"), fleet=True) == set()

    play(url, NOON, story)


def test_a_task_that_no_live_worker_of_its_tenant_knows_is_named_until_one_comes(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched, workers = Watched(engine), WorkerStore(engine.database)
        await watched.begin()
        await engine.define(
            schedule(at=format_instant(NOON)), target=TaskTarget("shop.resize"), queue="images"
        )
        await engine.time.advance_to(NOON + 2 * MINUTE)

        async def come(tenant_id: int, task: str) -> int:
            new = NewWorker("test", [TaskOffer(task)], queues=("images",))
            return await workers.register(tenant_id, "key", new, 30 * SECOND)

        waiting = {"images/task:shop.resize"}
        await come(TENANT, "shop.other")
        other = await engine.database.one("INSERT INTO tenants (name) VALUES ('other') RETURNING id")
        await come(other["id"], "shop.resize")
        assert await watched.groups(Unserved()) == waiting
        worker = await come(TENANT, "shop.resize")
        assert await watched.groups(Unserved()) == set()
        await workers.leave(TENANT, worker)
        assert await watched.groups(Unserved()) == waiting
        await come(TENANT, "shop.resize")
        await engine.time.advance_to(NOON + 4 * MINUTE)  # it was not heard of for three leases
        assert await watched.groups(Unserved()) == waiting

    play(url, NOON, story)


def test_a_host_that_executions_wait_for_is_named(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        engine.calls.answer = lambda _: Postponed(15 * SECOND, Reason.HOST_REST)
        job = await engine.define(schedule(at=format_instant(NOON)), name="bill")
        await engine.run_until(NOON + 9 * MINUTE)
        assert await watched.groups(HostAtRest()) == set()
        await engine.run_until(NOON + 11 * MINUTE)
        ((_, finding),) = await watched.sources.find(HostAtRest(), [TENANT], engine.time.now())
        assert (finding.group, finding.detail["job"]) == ("target.example", job_text(job))
        assert "1 execution waits" in finding.summary
        assert await watched.groups(HostAtRest(), fleet=True) == {"target.example"}
        engine.calls.answer = lambda _: SUCCEEDED
        await engine.run_until(NOON + 12 * MINUTE)
        assert await watched.groups(HostAtRest()) == set()

    play(url, NOON, story)


def test_a_backlog_hides_no_host_that_executions_wait_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_sources, "_MOST_WAITING", 5)

    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        engine.calls.answer = lambda _: Postponed(15 * SECOND, Reason.HOST_REST)
        await engine.define(schedule(at=format_instant(NOON)))
        await engine.run_until(NOON + 11 * MINUTE)
        engine.away = {"claimer"}
        for _ in range(8):
            await engine.define(schedule(at=format_instant(NOON + 11 * MINUTE)))
        await engine.run_until(NOON + 11 * MINUTE + SECOND)
        assert await watched.groups(HostAtRest()) == {"target.example"}

    play(url, NOON, story)


def test_the_lag_objective_is_read_off_the_tallies(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        in_time, late = [0] * 9 + [1], [0] * 12 + [1]
        for tenant, step in ((TENANT, MINUTE), (0, LOOK)):
            counted = [
                Tally(tenant, step, NOON, "default", "succeeded", 990, in_time, []),
                Tally(tenant, step, NOON, "default", "dead", 11, late, []),
                Tally(tenant, step, NOON, "mail", "succeeded", 99, in_time, []),
                Tally(tenant, step, NOON, "mail", "expired", 1, [], []),
            ]
            await TallyStore(engine.database).write(counted)
        await engine.time.advance_to(NOON + MINUTE)
        for fleet in (False, True):
            assert await watched.groups(LateFires(within="5s", share=0.99), fleet=fleet) == {"default"}
            assert await watched.groups(LateFires(within="5s", share=0.995), fleet=fleet) == {
                "default",
                "mail",
            }
            assert await watched.groups(LateFires(within="30s", share=0.99), fleet=fleet) == set()
        await engine.time.advance_to(NOON + 12 * MINUTE)
        assert await watched.groups(LateFires(within="5s", share=0.99)) == set()

    play(url, NOON, story)


def test_a_limit_that_is_near_and_a_day_without_a_partition_are_found(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine, pending_jobs=10)
        await watched.begin()
        far = format_instant(NOON + HOUR)
        for _ in range(8):
            await engine.define(schedule(at=far))
        assert await watched.groups(PendingJobs()) == set()
        await engine.define(schedule(at=far))
        assert await watched.groups(PendingJobs()) == {"pending_jobs"}
        assert await watched.groups(PartitionTrouble(), fleet=True) == set()
        await engine.time.advance_to(NOON + 60 * DAY)  # and nobody made a day since
        days = {"history/missing", "audit/missing", "attempt_logs/missing"}
        assert await watched.groups(PartitionTrouble(), fleet=True) == days

    play(url, NOON, story)


def test_an_archive_that_fails_is_found_and_when_it_works_again_it_is_not(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        failing = ArchiveFailing(at_least=2)
        failed = "UPDATE archives SET failures = $1, trouble = 'No space left on device'"
        await engine.database.execute(
            "INSERT INTO archives (name, day, round, part, edition) VALUES ('history', '2026-01-01', 0, 0, 1)"
        )
        for failures, groups in ((0, set()), (1, set()), (2, {"history"}), (0, set())):
            await engine.database.execute(failed, failures)
            assert await watched.groups(failing, fleet=True) == groups

    play(url, NOON, story)


def test_a_disk_with_little_room_is_told_with_its_node(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin()
        full = "UPDATE nodes SET name = 'engine', expires_at = tocsin_now() + interval '1 h', stats = $1::text::jsonb"
        for free, groups in ((0.5, set()), (0.04, {"engine/temporary"}), (0.5, set())):
            stats = [["f", "gauge", "", [["tocsin_disk_free_ratio", {"place": "temporary"}, free]]]]
            await engine.database.execute(full, msgspec.json.encode(stats).decode())
            assert await watched.groups(DiskTrouble(), fleet=True) == groups

    play(url, NOON, story)


def test_a_clock_that_was_set_and_leases_that_wander_are_told(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(
            ("clock", rule(ClockTrouble(), scope="fleet")),
            ("leases", rule(LeaseChurn(times=2), scope="fleet")),
        )
        await watched.look()
        now = engine.time.now()
        await watched.keeper.run_once(now + HOUR)
        assert await watched.told() == [("clock", "firing")]
        await watched.take_over()
        await watched.look()
        held = dict(engine.leases.trusted())
        await engine.database.execute("UPDATE shards SET epoch = epoch + 3")
        engine.leases.add({shard: epoch + 3 for shard, epoch in held.items()})
        await watched.look()
        assert ("leases", "firing") in await watched.told()

    play(url, NOON, story)


def test_another_tenants_trouble_is_told_to_the_fleet_and_to_no_other_tenant(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine)
        await watched.begin(("own", rule(PausedQueue())), ("all", rule(PausedQueue(), scope="fleet")))
        (other,) = await engine.database.fetch("INSERT INTO tenants (name) VALUES ('neighbour') RETURNING id")
        await QueueStore(engine.database).pause(other["id"], "mail", None, None, Origin("somebody"))
        await engine.time.advance_to(NOON + 2 * HOUR)
        await watched.look()
        (message,) = await watched.messages()
        assert (message["rule"], message["scope"]) == ("all", "fleet")
        assert message["alerts"][0]["group"] == "neighbour/mail"

    play(url, NOON, story)


def test_ten_minutes_of_faults_raise_the_alerts_that_they_deserve_and_no_others(url: str) -> None:
    async def story(engine: Engine) -> None:
        watched = Watched(engine, pending_jobs=1000)
        await engine.database.execute("UPDATE nodes SET routes = ARRAY['http', 'noop']")
        kinds: dict[str, Watch] = {
            "letters": DeadLetters(), "row": FailuresInARow(number=3), "missing": DidNotRun(), "unserved": Unserved(),
            "paused": PausedQueue(longer_than="2m"), "host": HostAtRest(longer_than="2m"), "limit": PendingJobs(),
            "switch": DeadMansSwitch(),
        }  # fmt: skip
        fleet: dict[str, Watch] = {"clock": ClockTrouble(), "churn": LeaseChurn(), "days": PartitionTrouble()}
        await watched.begin(
            *((name, rule(watch)) for name, watch in kinds.items()),
            *((name, rule(watch, scope="fleet")) for name, watch in fleet.items()),
        )
        ends = format_instant(NOON + 2 * HOUR)
        well = await engine.define(schedule(every="1m", ends_at=ends), ONCE, name="well")
        sick = await engine.define(schedule(every="1m", ends_at=ends), ONCE, name="sick")
        await watched.run(2 * MINUTE)
        assert set(await watched.told()) == {("switch", "alive")}
        engine.calls.answer = lambda one: FAILED if one.job_id == sick else SUCCEEDED
        await QueueStore(engine.database).pause(TENANT, "mail", None, None, Origin("somebody"))
        await watched.run(5 * MINUTE)
        engine.away = {"planner"}
        await watched.run(5 * MINUTE)
        told = await watched.told()
        assert {name for name, state in told if state == "firing"} == {"letters", "row", "paused", "missing"}
        missing = [one for one in await watched.messages() if one["rule"] == "missing"]
        assert {a["group"] for one in missing for a in one["alerts"]} == {job_text(well), job_text(sick)}
        assert told.count(("row", "firing")) == 1
        assert told.count(("letters", "firing")) == 1
        assert (await watched.store.rule(TENANT, "switch", fleet=True))["withheld"]

    play(url, NOON, story)
