"""kill -9 in the middle of an operation: it goes on where it was, does nothing twice, and counts right."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.processes import Processes, free_port, wait_for
from tocsin.store.keys import KeyStore

PATIENCE = 60
JOBS = 1_200
CROWD = """
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, queue, priority, schedule, target, policies, next_fire_at)
    SELECT 0, gen_random_uuid(), 1, n % 64, 'recurring', 'job-' || n, 'default', 5, '{"every": "24h"}', '{"kind": "noop"}', '{}',
           tocsin_now() + interval '12 h'
    FROM generate_series(1, $1::integer) AS n"""


def test_an_operation_survives_the_killing_of_every_process_that_carries_it_out(url: str) -> None:
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    with_database(url, lambda database: database.execute(CROWD, JOBS))
    with tempfile.TemporaryDirectory() as logs, Processes(Path(logs)) as processes:
        api = RealApi(free_port())
        shared = {"database_url": url, "lease_ttl": "1.5"}
        serving = processes.tocsin("api", "api", "--port", str(api.port), **shared)
        engine = processes.tocsin("engine", "engine", **shared)
        serving.start()
        api.wait_until_ready(serving, PATIENCE)
        asked = {"do": "run", "of": "jobs", "where": {}, "reason": "once more"}
        made = api.post("/v1/operations", asked).json()["operation"]
        for _ in range(2):
            engine.start()
            goes_on = partial(has_moved, api, made["id"], progress(api, made["id"])["done"])
            wait_for(goes_on, PATIENCE, "it does not go on")
            engine.kill()
            engine.wait(PATIENCE)
        killed = progress(api, made["id"])
        assert 0 < killed["done"] < JOBS, "it was not killed midway: this proves nothing"
        engine.start()
        wait_for(lambda: progress(api, made["id"])["state"] == "completed", PATIENCE, "it is not carried out")
        ended = progress(api, made["id"])
        assert (ended["matched"], ended["done"], ended["failed"]) == (JOBS, JOBS, 0)
        fired = with_database(
            url,
            lambda database: database.fetch(
                "SELECT count(*) AS n, count(DISTINCT job_id) AS jobs FROM ("
                " SELECT job_id FROM history WHERE cause = 'manual' UNION ALL SELECT job_id FROM executions WHERE cause = 'manual') AS f"
            ),
        )
        assert tuple(fired[0]) == (JOBS, JOBS)
        for one in (serving, engine):
            one.terminate()
            assert one.wait(PATIENCE) == 0, one.last_words()


def has_moved(api: RealApi, operation: int, since: int) -> bool:
    return bool(progress(api, operation)["done"] > since)


def progress(api: RealApi, operation: int) -> dict[str, Any]:
    told: dict[str, Any] = api.get(f"/v1/operations/{operation}").json()
    return told
