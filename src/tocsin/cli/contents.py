"""What the command line has: each command with its words for the list of all, and the module that it is in.

The words stand here so that the list and a shell's completion import none of the commands. They fit a line of
80 columns, and stay whole.
"""

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command, or a group of them."""

    name: str
    module: str
    words: str


SECTIONS: Final = {
    "Run": (
        Entry("serve", "processes", "Run everything on this machine, database included."),
        Entry("api", "processes", "Run an API process against a shared database."),
        Entry("engine", "processes", "Run a scheduler and a worker in one process."),
        Entry("scheduler", "processes", "Run a scheduler process: it plans, reclaims and tidies."),
        Entry("worker", "processes", "Run a worker process: it claims, fires and settles."),
        Entry("migrate", "processes", "Bring a shared database to this version's schema."),
    ),
    "Jobs": (
        Entry("jobs", "jobs", "Create, list and control jobs."),
        Entry("executions", "executions", "List, explain, cancel, retry and rerun firings of jobs."),
        Entry("dead-letters", "dead_letters", "List, replay and discard executions that failed for good."),
        Entry("operations", "operations", "Act on many jobs, executions or dead letters at once."),
        Entry("backfills", "backfills", "Run the fire times of a past range."),
        Entry("preview", "preview", "Show when a schedule would fire, with warnings."),
        Entry("try", "trial", "Call a target once, now, and show the result."),
        Entry("plan", "plan", "Show what applying a file would change: fields and fires."),
        Entry("apply", "plan", "Show what a file of jobs changes, ask, and apply it."),
        Entry("export", "plan", "Write recurring jobs as a file that `apply` takes."),
        Entry("schema", "plan", "Print the JSON schema of files of jobs, for editors."),
        Entry("import", "imports", "Import jobs from other schedulers."),
        Entry("calendars", "calendars", "Manage calendars: ranges in which jobs do not fire."),
    ),
    "Operate": (
        Entry("doctor", "doctor", "Say what is wrong, why, and which command fixes it."),
        Entry("top", "top", "Watch what runs, waits, ends and fails, live."),
        Entry("stats", "stats", "Show what runs and waits, the last hour, and lateness."),
        Entry("forecast", "forecast", "Show the fires of the coming day, with its peaks."),
        Entry("queues", "queues", "List, pause and resume queues."),
        Entry("alerts", "alerts", "List alerts; manage their rules and channels."),
        Entry("nodes", "fleet", "Show the processes of the fleet."),
        Entry("shards", "fleet", "Show the shards and who leases them."),
        Entry("system", "fleet", "Show the database, versions, settings and failed checks."),
        Entry("dashboard", "dashboard", "Print a link that opens the dashboard, logged in."),
        Entry("bench", "bench", "Measure this installation, and say what to expect of it."),
        Entry("history", "history", "Export finished executions; query the archive in SQL."),
        Entry("archive", "archive", "List archived days; verify their files."),
        Entry("tallies", "stats", "Rebuild the counts behind the plots."),
    ),
    "Access": (
        Entry("tenants", "tenants", "Create, weigh, limit, suspend and delete tenants."),
        Entry("keys", "keys", "Create, list, rotate and revoke API keys."),
        Entry("whoami", "whoami", "Show the key in use: its scopes, tenant and limits."),
        Entry("audit", "audit", "See who changed what."),
        Entry("secrets", "secrets", "Store values that targets name and nobody can read back."),
        Entry("webhook-secret", "secrets", "Show and rotate the secret that signs requests."),
        Entry("connections", "connections", "Manage named connections to brokers and mail servers."),
    ),
    "Develop": (
        Entry("tasks", "tasks", "Run functions of your own."),
        Entry("workers", "workers", "List and drain remote workers."),
        Entry("outbox", "outbox", "Enqueue in transactions of other databases."),
        Entry("sandbox", "sandbox", "Run everything on virtual time, for tests."),
        Entry("conformance", "conformance", "Test a worker against the worker protocol."),
        Entry("completion", "completion", "Print the completion script of a shell."),
    ),
}
ENTRIES: Final = {entry.name: entry for entries in SECTIONS.values() for entry in entries}
