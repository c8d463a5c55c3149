"""A real fleet under load as an operator sees it: every series has moved, `tocsin doctor` finds nothing while
all is well and what was broken when it is not, and the dead man's switch ends with the fleet."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.test_alerts import Receiver
from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.metrics import every_metric
from tests.support.postgres import Cluster
from tests.support.processes import Processes, free_port, wait_for
from tocsin.cli.main import cli
from tocsin.db.pool import Database
from tocsin.store.keys import KeyStore

PATIENCE = 90
ALERT_MINUTES = float(os.environ.get("TEST_ALERT_MINUTES", "0.3"))
ROOT = Path(__file__).parents[2]
HERE = {
    "planned", "claimed", "started", "finished", "retried", "postponed", "reclaimed", "claims_released", "jobs_created",
    "http_requests", "attempts", "shards_held", "executions_held", "executions_in_line", "executions_running",
    "worker_saturation", "worker_places", "started_per_second", "clock_uncertainty_seconds", "disk_free_ratio",
    "executions_live", "database_connections", "database_connections_max", "database_oldest_transaction_seconds",
    "start_lag_seconds", "run_seconds", "database_call_seconds", "leases_taken", "shards", "nodes", "due",
    "oldest_due_seconds",
}  # fmt: skip
ELSEWHERE = {
    "not_started": "tests/unit/test_starter.py",
    "stale_writes": "tests/store/test_planning.py",
    "duplicates_rejected": "tests/store/test_planning.py",
    "left_for_newer": "tests/skew/test_newer_rows.py",
    "parts_restarted": "tests/acceptance/test_background_parts.py",
    "part_errors": "tests/simulation/test_forecaster.py",
    "database_calls_failed": "tests/store/test_metrics.py",
    "task_strays": "tests/acceptance/test_stubborn_tasks.py",
    "lease_renewals_failed": "tests/store/test_metrics.py",
    "leases_lost": "tests/store/test_leases.py",
    "archived_rows": "tests/store/test_archive.py",
    "archive_failed": "tests/store/test_archive.py",
    "takeover_seconds": "tests/store/test_metrics.py",
    "dead_letters": "tests/store/test_metrics.py",
    "tenant_due": "tests/store/test_metrics.py",
    "planning_behind_seconds": "tests/store/test_metrics.py",
    "queues_paused": "tests/store/test_metrics.py",
    "shards_unowned": "tests/store/test_metrics.py",
}
"""Series that another test provokes, which names them."""


class Fleet:
    """Processes, what they call, and the terminal of somebody who watches them."""

    def __init__(self, url: str, receiver: Receiver, processes: Processes) -> None:
        self.url = url
        self.receiver = receiver
        shared = {
            "database_url": url, "allow_loopback": "true", "lease_ttl": "2", "claim_ttl": "3", "host_concurrency": "4",
            "claim_ahead": "20",
        }  # fmt: skip
        self.api = RealApi(free_port())
        self.served = processes.tocsin("api", "api", "--port", str(self.api.port), **shared)
        self.engines = [processes.tocsin(f"engine-{n}", "engine", **shared) for n in range(2)]
        for one in (self.served, *self.engines):
            one.start()
        self.api.wait_until_ready(self.served, PATIENCE)
        wait_for(lambda: len(self.live("scheduler")) == 2, PATIENCE, self.engines[0].last_words())

    def live(self, role: str) -> list[Any]:
        return [
            one for one in self.api.get("/v1/nodes").json()["items"] if role in one["roles"] and one["alive"]
        ]

    def call_at(self, path: str, number: int = 1, when: str = "1ms", **fields: Any) -> None:
        target = {"kind": "http", "url": f"{self.receiver.url}/{path}", "body": {"state": path}}
        for _ in range(number):
            self.api.create(schedule={"in": when}, target=target, **fields)

    def doctor(self, *words: str) -> Result:
        environment = {"TOCSIN_URL": self.api.url, "TOCSIN_API_KEY": ADMIN_KEY, "TOCSIN_DATA_DIR": None}
        return CliRunner().invoke(cli, ["doctor", *words], env=environment)

    def codes(self) -> list[str]:
        return [one["code"] for one in json.loads(self.doctor("--json").stdout)["findings"]]

    def finds(self, code: str) -> bool:
        """Whether doctor finds it, by a command that fails as scripts want it to."""
        result = self.doctor()
        return result.exit_code == 1 and f"({code})" in result.stdout

    def moved(self) -> set[str]:
        """The metrics of which some sample is above 0."""
        families = text_string_to_metric_families(self.api.get("/metrics").body.decode())
        return {
            family.name.removeprefix("tocsin_")
            for family in families
            if any(sample.value > 0 for sample in family.samples)
        }


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[Fleet]:
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    with Receiver() as receiver, Processes(tmp_path) as processes:
        receiver.silent = False
        yield Fleet(url, receiver, processes)


def test_every_metric_is_provoked_here_or_by_a_test_that_names_it() -> None:
    assert {one.name.removeprefix("tocsin_") for one in every_metric()} == HERE | set(ELSEWHERE)
    for name, file in ELSEWHERE.items():
        assert name in (ROOT / file).read_text(), f"{file} does not name {name}"


def test_every_series_of_a_fleet_moves(fleet: Fleet) -> None:
    seen: set[str] = set()

    def saw(*names: str) -> bool:
        seen.update(fleet.moved())
        return set(names) <= seen

    fleet.api.create(schedule={"every": "1s"}, target={"kind": "noop"})
    fleet.call_at("fine", 20)
    nobody = {"kind": "http", "url": "http://127.0.0.1:9/"}
    for _ in range(30):
        fleet.api.create(
            schedule={"in": "1ms"}, target=nobody, retry={"max_attempts": 5, "initial_backoff": "1s"}
        )
    wait_for(lambda: saw("retried", "postponed", "finished"), PATIENCE, f"not all of {seen}")
    fleet.receiver.silent = True
    fleet.call_at("slow", 30)
    busy = ("executions_running", "executions_in_line", "worker_saturation", "started_per_second")
    wait_for(lambda: saw(*busy), PATIENCE, f"not all of {busy}")
    for _ in range(100):  # held by both engines, and given back for the one that dies
        fleet.api.create(schedule={"in": "8s"}, target={"kind": "noop"})
    wait_for(lambda: saw("executions_held"), PATIENCE, "nothing is held")
    fleet.engines[0].kill()
    wait_for(lambda: saw("reclaimed", "claims_released"), PATIENCE, "nothing is taken back")
    fleet.receiver.silent = False
    with psycopg.connect(fleet.url) as connection:
        connection.execute("SELECT 1")
        wait_for(lambda: saw("database_oldest_transaction_seconds"), PATIENCE, "no transaction is seen")
    fleet.engines[1].kill()
    fleet.call_at("late", 3)
    wait_for(lambda: saw("due", "oldest_due_seconds"), PATIENCE, "nothing is due")
    assert seen >= HERE


def test_doctor_finds_nothing_wrong_under_load_and_then_what_is_broken(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "server")
    cluster.start()
    url = cluster.new_database()
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    with Receiver() as receiver, Processes(tmp_path) as processes:
        receiver.silent = False
        fleet = Fleet(url, receiver, processes)
        for _ in range(20):
            fleet.api.create(schedule={"every": "1s"}, target={"kind": "noop"})
        for wave in range(5):
            fleet.call_at(f"wave-{wave}", 20)
            result = fleet.doctor()
            assert (result.exit_code, result.stdout[:13]) == (0, "nothing wrong"), result.stdout
        wait_for(lambda: len(receiver.taken) >= 100, PATIENCE, "not all calls arrive")
        assert fleet.codes() == []
        fleet.engines[0].kill()
        wait_for(lambda: fleet.finds("vanished_nodes"), PATIENCE, fleet.doctor().stdout)
        fleet.engines[1].freeze()
        wait_for(lambda: fleet.codes()[:1] == ["no_scheduler"], PATIENCE, fleet.doctor().stdout)
        fleet.engines[1].thaw()
        wait_for(lambda: "no_scheduler" not in fleet.codes(), PATIENCE, fleet.doctor().stdout)
        assert fleet.api.post("/v1/queues/held/pause", {"reason": "a test"}).status == 200
        fleet.call_at("held", queue="held")
        fleet.api.create(schedule={"in": "1ms"}, target={"kind": "task", "task": "nobodys"}, queue="tasks")
        with_database(url, _age)
        wait_for(lambda: fleet.finds("paused_queues"), PATIENCE, fleet.doctor().stdout)
        wait_for(lambda: fleet.finds("unserved_routes"), PATIENCE, fleet.doctor().stdout)
        fleet.engines[1].kill()
        cluster.stop()
        wait_for(lambda: fleet.finds("database_away"), PATIENCE, fleet.doctor().stdout)
        fleet.served.kill()
        assert fleet.finds("no_api")


def test_the_dead_mans_switch_beats_while_the_fleet_lives_and_not_after_all_of_it_was_killed(
    fleet: Fleet,
) -> None:
    receiver = fleet.receiver
    channel = json.dumps({"kind": "webhook", "url": f"{receiver.url}/switch"}).encode()
    assert fleet.api.call("PUT", "/v1/alert-channels/outside", channel).status == 200
    switch = {"watch": {"kind": "dead_mans_switch"}, "channels": ["outside"], "scope": "fleet"}
    assert fleet.api.call("PUT", "/v1/alert-rules/alive", json.dumps(switch).encode()).status == 200
    fleet.api.create(schedule={"every": "1s"}, target={"kind": "noop"})
    wait_for(lambda: receiver.of("alive"), PATIENCE, fleet.engines[0].last_words())
    fleet.engines[0].kill()  # the other one goes on
    beats = len(receiver.of("alive"))
    with_database(fleet.url, _forget_two_minutes)
    wait_for(lambda: len(receiver.of("alive")) > beats, PATIENCE, fleet.engines[1].last_words())
    fleet.engines[1].kill()
    wait_for(lambda: not fleet.live("scheduler"), PATIENCE, "the engines live on")
    beats = len(receiver.of("alive"))
    with_database(fleet.url, _forget_two_minutes)
    assert fleet.finds("no_scheduler")
    assert len(receiver.of("alive")) == beats, "a beat came from a fleet that is dead"
    fleet.engines[0].start()
    wait_for(lambda: len(receiver.of("alive")) > beats, PATIENCE, fleet.engines[0].last_words())
    keys = [key for _, key, _ in receiver.of("alive")]
    assert len(set(keys)) >= 2


def test_peace_raises_no_alert_and_faults_raise_those_that_they_deserve(fleet: Fleet) -> None:
    """Peace and faults last for some looks each, or for `TEST_ALERT_MINUTES`."""
    watches = {
        "letters": {"kind": "dead_letters"}, "row": {"kind": "failures_in_a_row", "number": 3},
        "missing": {"kind": "did_not_run", "grace": "30s"}, "late": {"kind": "lag", "within": "30s", "share": 0.9},
        "unserved": {"kind": "unserved", "waiting": "30s"}, "paused": {"kind": "queue_paused", "longer_than": "1m"},
        "host": {"kind": "host_at_rest"}, "limit": {"kind": "pending_jobs"}, "clock": {"kind": "clock"},
        "days": {"kind": "partitions"}, "disk": {"kind": "disk", "free": 0.01}, "archive": {"kind": "archive_failing"},
        "churn": {"kind": "lease_churn"},
    }  # fmt: skip
    channel = json.dumps({"kind": "webhook", "url": f"{fleet.receiver.url}/ops"}).encode()
    assert fleet.api.call("PUT", "/v1/alert-channels/ops", channel).status == 200
    for name, watch in watches.items():
        rule = {"watch": watch, "channels": ["ops"], "scope": "fleet"}
        assert fleet.api.call("PUT", f"/v1/alert-rules/{name}", json.dumps(rule).encode()).status == 200
    fine = {"kind": "http", "url": f"{fleet.receiver.url}/fine", "body": {"state": "fine"}}
    for number in range(12):
        fleet.api.create(schedule={"every": "1s"}, target=fine if number % 2 else {"kind": "noop"})

    def fired() -> set[str]:
        return {body["rule"] for _, _, body in fleet.receiver.of("firing")}

    def look_on(minutes: float) -> None:
        """Until as much has run as runs in that time."""
        goal = with_database(fleet.url, _ended) + round(12 * 60 * minutes)
        wait_for(lambda: with_database(fleet.url, _ended) >= goal, 60 * minutes + PATIENCE, "too little runs")

    look_on(ALERT_MINUTES)
    assert fired() == set()
    fleet.engines[0].kill()  # the other one takes over, which is no trouble
    nobody = {"kind": "http", "url": "http://127.0.0.1:9/"}
    fleet.api.create(schedule={"every": "1s"}, target=nobody, retry={"max_attempts": 1})
    assert fleet.api.post("/v1/queues/held/pause", {"reason": "a test"}).status == 200
    fleet.api.create(schedule={"in": "1ms"}, target={"kind": "task", "task": "nobodys"}, queue="tasks")
    with_database(fleet.url, _age)
    deserved = {"letters", "row", "unserved", "paused"}
    wait_for(lambda: fired() >= deserved, PATIENCE, "an alert is missing")
    look_on(ALERT_MINUTES)
    assert fired() == deserved


async def _ended(database: Database) -> int:
    row = await database.one("SELECT count(*) AS n FROM history")
    return int(row["n"])


async def _age(database: Database) -> None:
    """What waits has waited for some minutes."""
    await database.execute(
        "UPDATE executions SET run_at = run_at - interval '3 minutes' WHERE queue IN ('held', 'tasks')"
    )
    await database.execute("UPDATE queues SET paused_at = paused_at - interval '3 minutes'")


async def _forget_two_minutes(database: Database) -> None:
    """As if the last beat had been two minutes ago: a scheduler that is left would beat now."""
    await database.execute("UPDATE alert_rules SET beat_at = beat_at - interval '2 minutes'")
