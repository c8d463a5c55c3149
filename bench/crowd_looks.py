"""What the pages of the dashboard ask for: every list and view, with the filters that people use.

A look names a request and how long it may take. `tests/unit/test_crowd_looks.py` holds them against the API's
routes, so that none is left out.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

LIST_MS: Final = 200
VIEW_MS: Final = 300
NAME_MS: Final = 500
ANY_MS: Final = 1_000
"""No request takes longer, also one that counts a hundred thousand."""


class Look(NamedTuple):
    """A request, and how long it may take; one with a body is a POST."""

    name: str
    path: str
    budget_ms: int
    query: Mapping[str, Any] = MappingProxyType({})
    body: Mapping[str, Any] | None = None


def dry_run(do: str, of: str, where: Mapping[str, Any], words: str) -> Look:
    """What an operation would act on."""
    body = {"do": do, "of": of, "where": where, "dry_run": True}
    return Look(f"dry run: {do} {words}", "/v1/operations", ANY_MS, body=body)


def looks(job: str, quiet: str, execution: str, ago: dict[str, str], week: str) -> list[Look]:
    """Every list and view, with the filters that people use. `job` fires every five seconds, `quiet`
    rarely."""
    lists = [
        Look("jobs", "/v1/jobs", LIST_MS),
        Look("jobs with their last 20", "/v1/jobs", LIST_MS, {"with": "recent"}),
        *(
            Look(f"jobs by {sort}", "/v1/jobs", LIST_MS, {"sort": sort, "with": "recent"})
            for sort in ("name", "next_fire")
        ),
        *(
            Look(f"jobs {state}", "/v1/jobs", LIST_MS, {"state": state})
            for state in ("active", "paused", "cancelled")
        ),
        Look("jobs overdue", "/v1/jobs", LIST_MS, {"overdue": "true"}),
        Look("jobs of a queue", "/v1/jobs", LIST_MS, {"queue": "reports"}),
        Look("jobs with a rare target", "/v1/jobs", LIST_MS, {"target": "http"}),
        Look("jobs of a queue that has none", "/v1/jobs", LIST_MS, {"queue": "nobody"}),
        Look("jobs with a tag", "/v1/jobs", LIST_MS, {"tag": "etl"}),
        Look("a name that no job has", "/v1/jobs", NAME_MS, {"name": "zzzz"}),
        Look("three letters of a name", "/v1/jobs", NAME_MS, {"name": "a1f"}),
        Look("a word of a name", "/v1/jobs", NAME_MS, {"name": "nightly"}),
        Look("jobs counted", "/v1/jobs/count", 600),
        Look("paused jobs counted", "/v1/jobs/count", 600, {"state": "paused"}),
        Look("executions", "/v1/executions", LIST_MS),
        Look("executions of a queue that has none", "/v1/executions", LIST_MS, {"queue": "nobody"}),
        Look("executions of a day that is over", "/v1/executions", LIST_MS, {"fire_to": ago["from"]}),
        Look("executions of a job", f"/v1/jobs/{job}/executions", LIST_MS),
        *(
            Look(f"executions {state}", "/v1/executions", LIST_MS, {"state": state})
            for state in ("dead", "skipped", "running", "cancelled")
        ),
        Look("executions by error", "/v1/executions", LIST_MS, {"error": "503"} | ago),
        Look("executions late", "/v1/executions", LIST_MS, {"min_lag": "10s"} | ago),
        Look("executions by job name", "/v1/executions", LIST_MS, {"job_name": "a1f2"} | ago),
        *(
            Look(f"executions by {name}", "/v1/executions", LIST_MS, {name: value} | ago)
            for name, value in (
                ("tag", "etl"),
                ("node", "1"),
                ("cause", "manual"),
                ("fingerprint", "f1"),
                ("job", quiet),
            )
        ),
        Look("executions counted", "/v1/executions/count", 1100),
        Look("an execution", f"/v1/executions/{execution}", LIST_MS),
        Look("its logs", f"/v1/executions/{execution}/logs", LIST_MS),
        Look("explain", f"/v1/executions/{execution}/explain", LIST_MS),
        Look("dead letters", "/v1/dead-letters", LIST_MS),
        Look("dead letters of a kind", "/v1/dead-letters", LIST_MS, {"fingerprint": "f1"}),
        Look("dead letters by error", "/v1/dead-letters", LIST_MS, {"error": "503"} | ago),
        Look("dead letters of a queue", "/v1/dead-letters", LIST_MS, {"queue": "reports"}),
        Look("queues", "/v1/queues", LIST_MS),
        Look("a queue", "/v1/queues/reports", LIST_MS),
        Look("a job and its last 20", f"/v1/jobs/{job}", LIST_MS, {"with": "recent"}),
        Look("a job's next fires", f"/v1/jobs/{job}/upcoming", LIST_MS),
        Look("backfills of a job", f"/v1/jobs/{job}/backfills", LIST_MS),
        Look("operations", "/v1/operations", LIST_MS),
        Look("backfills of all jobs", "/v1/backfills", LIST_MS),
        *(
            Look(name.replace("-", " "), f"/v1/{name}", LIST_MS)
            for name in (
                "alerts",
                "alert-rules",
                "alert-channels",
                "calendars",
                "connections",
                "declarations",
                "secrets",
                "workers",
                "whoami",
                "session",
            )
        ),
        Look("a job by its name", "/v1/jobs/by-name/tick", LIST_MS),
        Look("audit", "/v1/audit", LIST_MS),
        Look("audit of a rare action", "/v1/audit", LIST_MS, {"action": "secret.put"}),
        Look("audit of a job", "/v1/audit", LIST_MS, {"object": quiet}),
        *(
            Look(f"executions {state} counted", "/v1/executions/count", 600, {"state": state, "cap": 1000})
            for state in ("queued", "succeeded", "dead", "expired")
        ),
        Look("cancelled jobs counted", "/v1/jobs/count", 600, {"state": "cancelled", "cap": 1000}),
    ]
    views = [
        Look("summary", "/v1/stats/summary", VIEW_MS),
        Look("series of an hour", "/v1/stats/series", VIEW_MS),
        Look("series of a day", "/v1/stats/series", VIEW_MS, ago),
        Look("lag of a day", "/v1/stats/lag", VIEW_MS, ago),
        Look("series of a job", "/v1/stats/series", VIEW_MS, {"job": job} | ago),
        Look("timeline of 50 lanes", "/v1/timeline", VIEW_MS, {"limit": 50, "sort": "next_fire"} | ago),
        Look("timeline of dense lanes", "/v1/timeline", VIEW_MS, {"name": "tick"} | ago),
        Look("calendar of a job every 5 s", f"/v1/jobs/{job}/calendar", VIEW_MS),
        Look("calendar of a job", f"/v1/jobs/{quiet}/calendar", VIEW_MS),
        Look("groups of dead letters", "/v1/dead-letters/groups", VIEW_MS),
        Look("forecast", "/v1/forecast", VIEW_MS),
        Look("forecast of a week", "/v1/forecast", VIEW_MS, {"to": week, "step": "10m"}),
        Look("upcoming", "/v1/upcoming", VIEW_MS),
        Look("where a schedule fits", "/v1/forecast:fit", VIEW_MS, body={"schedule": "30 2 * * *"}),
        Look("a schedule's next fires", "/v1/schedules/preview", VIEW_MS, body={"schedule": "30 2 * * *"}),
        dry_run("pause", "jobs", {}, "all jobs"),
        dry_run("pause", "jobs", {"state": "active", "kind": "recurring"}, "active recurring jobs"),
        dry_run("delete", "jobs", {"name": "a1f"}, "jobs by part of a name"),
        dry_run("cancel", "executions", {"state": "queued"}, "queued executions"),
        dry_run("rerun", "executions", {}, "all executions"),
        dry_run("retry", "dead_letters", {}, "all dead letters"),
        dry_run("discard", "dead_letters", {"fingerprint": "f1"}, "dead letters of a kind"),
    ]
    return lists + views


def looks_of_operators(tenant: str, key: str) -> list[Look]:
    """What only keys with `admin` may ask for."""
    return [
        Look("tenants", "/v1/tenants", LIST_MS),
        Look("a tenant", f"/v1/tenants/{tenant}", LIST_MS),
        Look("its logins", f"/v1/tenants/{tenant}/logins", LIST_MS),
        Look("keys", "/v1/keys", LIST_MS),
        Look("a key", f"/v1/keys/{key}", LIST_MS),
        Look("nodes", "/v1/nodes", LIST_MS),
        Look("shards", "/v1/shards", LIST_MS),
        Look("archives", "/v1/archives", LIST_MS),
        Look("audit of all tenants", "/v1/audit", LIST_MS, {"action": "job.create"}),
        Look("queues of all tenants", "/v1/queues", VIEW_MS, {"group": "tenant"}),
        Look("series by tenant", "/v1/stats/series", VIEW_MS, {"group": "tenant"}),
        Look("series of the fleet", "/v1/stats/series", VIEW_MS, {"of": "fleet"}),
        Look("system", "/v1/system", ANY_MS),
        Look("findings", "/v1/system/findings", ANY_MS),
    ]
