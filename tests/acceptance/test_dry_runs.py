"""What an action would do is told before it is done, by the same transaction, and nothing is changed."""

from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tocsin.domain.ids import parse_job_text

FUTURE = "2100-01-01T00:00:00Z"


def furnished(api: InProcessApi) -> dict[str, Any]:
    """A job with something planned, something running and something between two attempts."""
    job = api.create(schedule={"every": "1h"}, name="job")
    for place, (token, attempt) in enumerate(((None, 1), (1, 1), (None, 2))):
        api.fetch(
            "INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, attempt, claim_token,"
            " node_id, deadline_at, started_at, route) SELECT cell, id, tocsin_now() + $2 * interval '1 s', tenant_id, queue, 5,"
            " tocsin_now(), tocsin_now(), $3, $4::bigint, $4::bigint, CASE WHEN $4::bigint = 1 THEN tocsin_now() END,"
            " CASE WHEN $4::bigint = 1 THEN tocsin_now() END, route_of(target) FROM jobs WHERE id = $1",
            parse_job_text(job["id"]),
            place,
            attempt,
            token,
        )
    return job


@pytest.mark.parametrize("action", ["pause", "cancel", "cancel-queued", "delete"])
def test_a_dry_run_tells_what_then_happens_and_changes_nothing(url: str, action: str) -> None:
    with in_process_api(url) as api:
        job = furnished(api)
        before = api.tables()

        def act(*, dry_run: bool) -> Any:
            if action == "delete":
                return api.call("DELETE", f"/v1/jobs/{job['id']}" + "?dry_run=true" * dry_run)
            return api.post(f"/v1/jobs/{job['id']}/{action}", {"dry_run": dry_run})

        told = act(dry_run=True)
        assert told.status == 200
        assert api.tables() == before
        done = act(dry_run=False)
        assert api.tables() != before
        numbers = ("held",) if action == "pause" else ("cancelled", "asked_to_stop", "not_retried")
        assert [told.json()[name] for name in numbers] == [done.json()[name] for name in numbers]
        assert sum(told.json()[name] for name in numbers) > 0
        assert (told.json()["dry_run"], done.json()["dry_run"]) == (True, False)


def test_a_dry_run_is_refused_where_the_action_would_be(url: str) -> None:
    with in_process_api(url) as api:
        job = furnished(api)
        assert api.post(f"/v1/jobs/{job['id']}/cancel").status == 200
        for action in ("pause", "cancel"):
            assert api.post(f"/v1/jobs/{job['id']}/{action}", {"dry_run": True}).status == 409
        assert api.call("DELETE", f"/v1/jobs/{job['id']}?dry_run=perhaps").problem()["field"] == "dry_run"


def test_resuming_decides_about_what_was_missed_by_another_policy_this_once(url: str) -> None:
    with in_process_api(url) as api:
        job = api.create(schedule={"every": "1m"}, misfire={"policy": "fire_all", "lookback": "1d"})
        api.post(f"/v1/jobs/{job['id']}/pause")
        api.fetch("UPDATE jobs SET next_fire_at = tocsin_now() - interval '10 minutes'")
        path = f"/v1/jobs/{job['id']}/resume"
        assert api.post(path, {"dry_run": True}).json()["fired"] >= 10
        said = api.post(path, {"dry_run": True, "misfire": "skip"}).json()
        assert (said["fired"], said["skipped"] >= 9) == (1, True) or (
            said["fired"],
            said["skipped"] >= 9,
        ) == (0, True)
        bad = api.post(path, {"misfire": {"policy": "skip", "grace": "0s"}})
        assert bad.problem()["field"] == "misfire.grace"
        done = api.post(path, {"misfire": "skip"}).json()
        assert (done["fired"], done["skipped"]) == (said["fired"], said["skipped"])
        assert done["job"]["misfire"]["policy"] == "fire_all"
