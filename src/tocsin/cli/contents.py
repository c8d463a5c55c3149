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
        Entry("executions", "executions", "Look at firings of jobs, cancel, retry or run them again."),
        Entry("dead-letters", "dead_letters", "Look at executions that failed for good, replay, give up."),
        Entry("operations", "operations", "Act on all that match, or on many."),
        Entry("backfills", "backfills", "Run the fire times of a past range."),
        Entry("preview", "preview", "Show when a schedule would fire, and what to watch out for."),
        Entry("try", "trial", "Call a target once, now, and show what came of it."),
        Entry("plan", "plan", "Show what applying a file would do: to fields and fires."),
        Entry("apply", "plan", "Make jobs what a file says, after showing what that does."),
        Entry("export", "plan", "Write recurring jobs as a file that `apply` takes."),
        Entry("schema", "plan", "Print the JSON schema of such files, for editors."),
        Entry("import", "imports", "Take over jobs of other schedulers."),
        Entry("calendars", "calendars", "Keep calendars of ranges in which jobs do not fire."),
    ),
    "Operate": (
        Entry("doctor", "doctor", "Say what is wrong, why, and which command mends it."),
        Entry("top", "top", "Watch what runs, waits, ends and fails, live."),
        Entry("stats", "stats", "Show what runs, waits and ended within the hour, how late."),
        Entry("forecast", "forecast", "Show the fires of the coming day, with its peaks."),
        Entry("queues", "queues", "Look at queues, hold them, let them go on."),
        Entry("alerts", "alerts", "See what is wrong, and choose who is told of it."),
        Entry("nodes", "fleet", "Show the processes of the fleet."),
        Entry("shards", "fleet", "Show the shards and who leases them."),
        Entry("system", "fleet", "Show the database, versions, and what is not as it should be."),
        Entry("dashboard", "dashboard", "Print a link that opens the dashboard, logged in."),
        Entry("bench", "bench", "Measure this installation, and say what to expect of it."),
        Entry("history", "history", "Export what ended, or ask the archive in SQL."),
        Entry("archive", "archive", "See which days are archived, and check their files."),
        Entry("tallies", "stats", "Tend the counts behind the plots."),
    ),
    "Access": (
        Entry("tenants", "tenants", "Create, weigh, limit, suspend and delete tenants."),
        Entry("keys", "keys", "Make, list, rotate and revoke API keys."),
        Entry("whoami", "whoami", "Show the key in use: its scopes, tenant and limits."),
        Entry("audit", "audit", "See who changed what."),
        Entry("secrets", "secrets", "Keep values that targets name and nobody can read back."),
        Entry("webhook-secret", "secrets", "See and replace the secret that requests are signed with."),
        Entry("connections", "connections", "Keep connections to brokers, which message targets name."),
    ),
    "Develop": (
        Entry("tasks", "tasks", "Run functions of your own."),
        Entry("workers", "workers", "Look at remote workers, and ask them to end."),
        Entry("outbox", "outbox", "Enqueue in transactions of databases that are not Tocsin's."),
        Entry("sandbox", "sandbox", "Run everything on virtual time, for tests."),
        Entry("conformance", "conformance", "Judge a worker by the worker protocol."),
        Entry("completion", "completion", "Print the script by which a shell completes commands."),
    ),
}
ENTRIES: Final = {entry.name: entry for entries in SECTIONS.values() for entry in entries}
