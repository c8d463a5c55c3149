"""A target that is gone pauses its job only if the claim that heard so is still held and the job still has
that target."""

from typing import Any

from tests.support.api import InProcessApi, in_process_api
from tocsin.domain.ids import ExecutionKey, parse_job_text
from tocsin.store.control.pausing import Pausing

TOKEN = 77
REASON = "the target answered 410"


def _running(api: InProcessApi, **job: Any) -> tuple[dict[str, Any], ExecutionKey, str]:
    """A job with a running execution, and the target that its worker was given."""
    target = {"kind": "http", "url": "http://127.0.0.1:1/gone"}
    created = api.create(**({"schedule": {"every": "1h"}, "target": target} | job))
    job_id = parse_job_text(created["id"])
    api.fetch("DELETE FROM executions WHERE job_id = $1", job_id)
    (row,) = api.fetch(
        "INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, claim_token, node_id,"
        " deadline_at, started_at, route) SELECT cell, id, tocsin_now(), tenant_id, queue, priority, tocsin_now(), tocsin_now(),"
        " $2, 1, tocsin_now(), tocsin_now(), 'http' FROM jobs WHERE id = $1 RETURNING fire_at, tenant_id",
        job_id,
        TOKEN,
    )
    (stored,) = api.fetch("SELECT target::text AS target FROM jobs WHERE id = $1", job_id)
    return created, ExecutionKey(job_id, row["fire_at"]), stored["target"]


def _pause(api: InProcessApi, key: ExecutionKey, target: str, token: int = TOKEN) -> bool:
    (job,) = api.fetch("SELECT tenant_id FROM jobs WHERE id = $1", key.job_id)
    pausing = Pausing(api.database, 30.0)
    return api.run(pausing.pause_gone(job["tenant_id"], key, token, target, REASON))


def test_the_holder_of_the_claim_pauses_the_job_once_and_the_log_says_who(url: str) -> None:
    with in_process_api(url) as api:
        job, key, target = _running(api)
        assert _pause(api, key, target)
        assert not _pause(api, key, target)
        paused = api.job(job)
        assert (paused["state"], paused["state_reason"]) == ("paused", REASON)
        assert api.fetch("SELECT count(*) AS n FROM executions")[0]["n"] == 1
        rows = api.fetch("SELECT actor FROM audit WHERE action = 'job.pause'")
        assert [row["actor"] for row in rows] == ["system"]


def test_a_worker_that_lost_its_claim_pauses_nothing(url: str) -> None:
    with in_process_api(url) as api:
        job, key, target = _running(api)
        assert not _pause(api, key, target, token=TOKEN + 1)
        assert api.job(job)["state"] == "active"


def test_a_job_that_has_another_target_meanwhile_is_not_paused(url: str) -> None:
    with in_process_api(url) as api:
        job, key, target = _running(api)
        body = b'{"target": {"kind": "http", "url": "http://127.0.0.1:1/here"}}'
        assert api.call("PATCH", f"/v1/jobs/{job['id']}", body).status == 200
        assert not _pause(api, key, target)
        assert api.job(job)["state"] == "active"


def test_a_one_off_is_not_paused(url: str) -> None:
    with in_process_api(url) as api:
        job, key, target = _running(api, schedule={"in": "1h"})
        assert not _pause(api, key, target)
        assert api.job(job)["state"] != "paused"
