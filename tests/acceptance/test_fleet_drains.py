"""SIGTERM: a node finishes what runs, gives back what has not begun, and hands its shards over at once."""

import time
from pathlib import Path

from tests.acceptance.fleet import SHARDS, Fleet, run, until
from tests.acceptance.fleet_load import now
from tests.support.api import with_database
from tests.support.history import SECOND
from tests.support.processes import Processes, free_port, wait_for
from tocsin.db.pool import Database
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import format_instant
from tocsin.domain.job import Definition
from tocsin.domain.schedule import Schedule
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import HttpTarget
from tocsin.store.jobs import JobStore, NewJob

# Expiry must not be what saves us, so nothing expires during these runs.
LONG_TTL = 60.0


def test_a_rolling_restart_loses_nothing_repeats_nothing_and_waits_for_nobody(
    url: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=3, ttl=LONG_TTL, seed=40) as fleet:
            await fleet.load.everies(60, until=now() + 12 * SECOND)
            async with fleet.under_load(per_second=100):
                for node in fleet.nodes:
                    await until(lambda: fleet.calls_under_way() > 3, 30, "no calls are under way")
                    node_id = await fleet.node_id(node)
                    node.terminate()
                    assert node.wait(20) == 0, node.last_words()
                    assert node_id not in await fleet.shards_of(), "it left without giving its shards back"
                    node.start()
                    await fleet.all_leased(10)
            verdict = await fleet.judge()
            alarmed = [node.name for node in fleet.nodes if "claims.lost" in node.output()]
            assert alarmed == [], "an orderly stop is no loss"
            assert verdict.counts["attempts lost"] == 0
            history = await fleet.history()
            failing = {hit.key for hit in fleet.sink.hits if hit.status == 500}
            repeated = [row for row in history.finals if row.attempt > 1 and row.key not in failing]
            assert not repeated, f"draining cost {len(repeated)} attempts, such as {repeated[0]}"
            lag = (
                max(hit.received_at - hit.key.fire_at for hit in fleet.sink.hits if hit.attempt == 1) / SECOND
            )
            assert lag < LONG_TTL / 3, f"something waited {lag:.1f} s for a claim to expire"

    run(scenario())


def test_the_shards_of_a_leaving_node_are_taken_at_once(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=3, ttl=LONG_TTL) as fleet:
            leaving = fleet.nodes[0]
            node_id = await fleet.node_id(leaving)
            await fleet.holds_shards(node_id, at_least=SHARDS // 4)
            leaving.terminate()
            assert leaving.wait(20) == 0
            began = time.monotonic()
            await fleet.all_leased(LONG_TTL / 3)
            print(f"handed over {time.monotonic() - began:.2f} s after the process was gone")

    run(scenario())


def test_a_node_that_stops_while_its_host_is_at_rest_gives_everything_back_and_raises_no_alarm(
    url: str, tmp_path: Path
) -> None:
    """Executions are put off and put off again, and the node stops in the middle of that."""
    due_at, nobody = now(), HttpTarget(f"http://127.0.0.1:{free_port()}/")

    async def define(database: Database) -> None:
        definition = Definition(Schedule(at=format_instant(due_at)), nobody)
        ids = [new_job_id(due_at) for _ in range(1000)]
        jobs = [NewJob(one, 1, shard_of(one, DEFAULT_SHARDS), definition, due_at, due_at) for one in ids]
        await JobStore(database).define(jobs, due_at)

    def counted(where: str) -> int:
        query = f"SELECT count(*) AS n FROM executions WHERE {where}"
        return int(with_database(url, lambda database: database.one(query))["n"])

    with_database(url, define)
    with Processes(tmp_path) as processes:
        engine = processes.tocsin("engine", "engine", database_url=url, allow_loopback="true")
        engine.start()
        wait_for(lambda: counted("waits_for = 'host'") > 500, 30, "the host is not at rest")
        engine.terminate()
        assert engine.wait(20) == 0, engine.last_words()
        assert "claims.lost" not in engine.output()
    assert counted("claim_token IS NOT NULL") == 0
