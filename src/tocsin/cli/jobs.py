"""`tocsin jobs …`: create, find, change. What stops and starts a job is in `job_control`."""

from typing import Any, Final

import click

from tocsin.cli import job_control
from tocsin.cli.client import ApiError, Client
from tocsin.cli.groups import Group
from tocsin.cli.job_import import import_jobs
from tocsin.cli.job_options import CLEAR_OPTION, JOB_OPTIONS, NAME_OPTION, changes, new_job
from tocsin.cli.lookup import find_job, job_id
from tocsin.cli.schedule_options import with_options
from tocsin.cli.show import api_command, fields, fires, rows, table, watched_command
from tocsin.domain.job_order import SORTS
from tocsin.domain.target_kind import KINDS

_TRIES: Final = 5
_TABLE = table(
    [
        ("ID", "id"),
        ("NAME", "name"),
        ("KIND", "kind"),
        ("STATE", "state"),
        ("NEXT FIRE", "next_fire_at"),
        ("QUEUE", "queue"),
    ]
)


@click.group(cls=Group)
def jobs() -> None:
    """Create, list and control jobs.

    Where a command takes a JOB, give its id; a recurring job also goes by its name.

    \b
    Examples:
      tocsin jobs create --name report --cron "0 9 * * MON" --time-zone Europe/Berlin \\
          --target-url https://example.com/report
      tocsin jobs create --in 90s --target-url https://example.com/remind --body '{"user": 7}'
      tocsin jobs update report --misfire fire_all --lookback 6h
      tocsin jobs upcoming report --limit 5
      tocsin jobs pause report --until 2030-01-31T09:00:00Z --reason "moving house"
      tocsin jobs resume report --dry-run
      tocsin jobs import jobs.ndjson
    """


@jobs.command()
@NAME_OPTION
@with_options(*JOB_OPTIONS)
@click.option("--idempotency-key", help="Repeating the command with this key within a day creates nothing.")
@click.option(
    "--unique", metavar="KEY", help="If a job with this key is live, show that job and create none."
)
@click.option(
    "--debounce",
    metavar="KEY",
    help="Delay the job with this key, if it has not started, and replace its payload.",
)
@click.option("--max-wait", metavar="DURATION", help="The most that --debounce delays a job in all.")
@api_command
def create(client: Client, **options: Any) -> tuple[Any, Any]:
    """Create a job.

    \b
    Examples:
      tocsin jobs create --every 5m --target-url https://example.com/poll --overlap skip
      tocsin jobs create --cron "0 9 * * MON-FRI" --cron "0 12 * * SAT" --exclude-date 2030-12-25 --noop
    """
    return client.post("jobs", body=new_job(options)), fields


@jobs.command()
@click.argument("name")
@with_options(*JOB_OPTIONS)
@api_command
def put(client: Client, name: str, **options: Any) -> tuple[Any, Any]:
    """Create the recurring job NAME, or replace its definition.

    Options that are not given get their defaults, also on a job that exists; `update` changes a part.
    """
    return client.put("jobs", "by-name", name, body=new_job(options)), fields


@jobs.command()
@click.argument("job")
@NAME_OPTION
@with_options(*JOB_OPTIONS)
@CLEAR_OPTION
@click.option(
    "--if-version", type=click.IntRange(1), metavar="N", help="Refuse if the job has changed since."
)
@api_command
def update(
    client: Client, job: str, if_version: int | None, clear: tuple[str, ...], **options: Any
) -> tuple[Any, Any]:
    """Change a job in place; options that are not given stay as they are.

    Tags, headers and rules are replaced as a whole.

    \b
    Examples:
      tocsin jobs update report --cron "0 10 * * MON"
      tocsin jobs update report --lookback 6h --clear ends-at --if-version 3
    """
    for left in reversed(range(_TRIES)):
        current = find_job(client, job)
        body = changes(current, options, clear)
        try:
            version = if_version or current["version"]
            return client.patch("jobs", current["id"], body=body, version=version), fields
        except ApiError as error:
            if error.status != 412 or if_version is not None or not left:
                raise
    raise AssertionError  # the last try returns or raises


@jobs.command("list")
@click.option(
    "--state", type=click.Choice(["active", "paused", "completed", "cancelled"]), help="Jobs in this state."
)
@click.option("--kind", type=click.Choice(["once", "recurring"]), help="One-offs, or recurring jobs.")
@click.option("--queue", help="Jobs of this queue.")
@click.option("--tag", "tags", multiple=True, help="Jobs with this tag; repeated: jobs with all of them.")
@click.option("--any-tag", is_flag=True, help="Match jobs that have any of the tags.")
@click.option("--name", help="Part of the name; case does not matter.")
@click.option("--target", type=click.Choice(KINDS), help="Jobs with this kind of target.")
@click.option("--created-from", metavar="INSTANT", help="Created at or after this instant.")
@click.option("--created-to", metavar="INSTANT", help="Created before this instant.")
@click.option("--next-fire-from", metavar="INSTANT", help="The next fire is at or after this instant.")
@click.option("--next-fire-to", metavar="INSTANT", help="The next fire is before this instant.")
@click.option("--overdue", is_flag=True, help="Recurring jobs that should have fired and were not planned.")
@click.option(
    "--sort", type=click.Choice(SORTS), help="Newest first, or recurring jobs by name or next fire."
)
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@watched_command
def list_jobs(
    client: Client, tags: tuple[str, ...], any_tag: bool, overdue: bool, **filters: Any
) -> tuple[Any, Any]:
    """List jobs, newest first."""
    if any("," in tag for tag in tags):
        raise click.UsageError("a tag to look for cannot have a comma; repeat --tag instead")
    match = "any" if any_tag else None
    filters["overdue"] = "true" if overdue else None
    return client.get("jobs", **filters, tag=",".join(tags) or None, tag_match=match), _TABLE


@jobs.command()
@click.argument("job")
@watched_command
def show(client: Client, job: str) -> tuple[Any, Any]:
    """Show a job."""
    return find_job(client, job), fields


@jobs.command()
@click.argument("job")
@click.option("--limit", type=click.IntRange(1, 500), default=10, show_default=True)
@click.option("--after", metavar="INSTANT", help="Fires after this instant.  [default: now]")
@api_command
def upcoming(client: Client, job: str, limit: int, after: str | None) -> tuple[Any, Any]:
    """Show when a job fires next, with warnings."""
    return client.get("jobs", job_id(client, job), "upcoming", limit=limit, after=after), fires


@jobs.command()
@click.argument("job")
@click.option("--from", "since", metavar="DATE", help="The first day.  [default: 90 days ago]")
@click.option("--to", "until", metavar="DATE", help="The last day.  [default: in 30 days]")
@click.option("--zone", help="The time zone whose days these are.  [default: the schedule's own]")
@api_command
def calendar(
    client: Client, job: str, since: str | None, until: str | None, zone: str | None
) -> tuple[Any, Any]:
    """Show a job's days: what ran, what did not run and why, what is planned."""
    asked = {"from": since, "to": until, "zone": zone}
    return client.get("jobs", job_id(client, job), "calendar", **asked), _days


def _days(answer: Any) -> None:
    busy = [
        day | {"skipped": ", ".join(f"{number} {reason}" for reason, number in day["skipped"].items())}
        for day in answer["days"]
        if any(day[name] for name in ("ran", "dead", "skipped", "cancelled", "expired", "expected"))
    ]
    columns = ("date", "ran", "dead", "skipped", "cancelled", "expired", "expected", "backfilled")
    rows([(name.upper(), name) for name in columns], busy)


for _command in (
    job_control.cancel,
    job_control.cancel_queued,
    job_control.pause,
    job_control.resume,
    job_control.run,
    job_control.skip_next,
    job_control.delete,
    import_jobs,
):
    jobs.add_command(_command)
