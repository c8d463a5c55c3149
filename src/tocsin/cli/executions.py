"""`tocsin executions …`."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.log_follow import follow_logs
from tocsin.cli.lookup import job_id
from tocsin.cli.schedule_options import with_options
from tocsin.cli.show import api_command, fields, line, table, watched_command
from tocsin.domain.lifecycle import State

_SOON: Final = timedelta(hours=1)
_TABLE = table(
    [
        ("ID", "id"), ("JOB", "job_name"), ("STATE", "state"), ("FIRE TIME", "fire_at"), ("ENDED", "finished_at"),
        ("LAG", "lag"), ("ATTEMPT", "attempt"), ("REASON", "reason"),
    ]
)  # fmt: skip
_LOGS = table(
    [("ATTEMPT", "attempt"), ("AT", "at"), ("LEVEL", "level"), ("MESSAGE", "message"), ("FIELDS", "fields")]
)
FILTERS = with_options(
    click.option("--job", help="Executions of this job, by its id or name."),
    click.option("--queue", help="Executions of this queue."),
    click.option("--fire-from", metavar="INSTANT", help="Fire times at or after this instant."),
    click.option("--fire-to", metavar="INSTANT", help="Fire times before this instant."),
    click.option(
        "--finished-from", metavar="INSTANT", help="Executions that ended at or after this instant."
    ),
    click.option("--finished-to", metavar="INSTANT", help="Executions that ended before this instant."),
    click.option("--min-lag", metavar="DURATION", help="Started at least this late: 500ms, 2s"),
    click.option("--error", metavar="TEXT", help="Finished executions whose reason or error contains this."),
    click.option("--job-name", metavar="TEXT", help="Executions of jobs whose name contains this."),
    click.option("--tag", help="Executions of jobs with this tag; several are separated by commas."),
    click.option("--node", type=click.IntRange(0), help="Executions whose last attempt this node made."),
    click.option("--fingerprint", help="Dead executions with this kind of error."),
    click.option("--cause", help="By cause: schedule, catch_up, manual, backfill, rerun."),
    click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True),
    click.option("--cursor", help="Continue a listing."),
)


@click.group(cls=Group)
def executions() -> None:
    """List, explain, cancel, retry and rerun firings of jobs.

    \b
    Examples:
      tocsin executions list --job report
      tocsin executions list --state dead --queue mail
      tocsin executions explain EXECUTION_ID
      tocsin executions rerun EXECUTION_ID
    """


@executions.command("list")
@click.option("--live", is_flag=True, help="Only executions that have not ended, of any fire time.")
@click.option("--state", type=click.Choice([str(state) for state in State]), help="Executions in this state.")
@click.option("--over", is_flag=True, help="Only finished executions, latest first.")
@FILTERS
@watched_command
def list_executions(
    client: Client, job: str | None, over: bool, live: bool, **options: Any
) -> tuple[Any, Any]:
    """List executions: finished ones, latest first, then those of the coming hour.

    Of a single job, the latest fire time comes first. Use --live or --state for executions further off.
    """
    page = {"limit": options.pop("limit"), "cursor": options.pop("cursor")}
    if live and (over or options["state"] or options["finished_from"] or options["finished_to"]):
        raise click.UsageError("--live leaves no room for --over, --state and times of an end")
    if job is not None and not any(options.values()) and not (over or live):
        return client.get("jobs", job_id(client, job), "executions", **page), show_executions
    narrowed = {"job": id_of(client, job), **options}
    if live:
        return _only_live(client.get("executions", **narrowed, **page)), show_executions
    if options["state"]:
        return client.get("executions", **narrowed, over="true" if over else None, **page), show_executions
    found = client.get("executions", **narrowed, over="true", **page)
    room = page["limit"] - len(found["items"])
    if not over and room > 0 and page["cursor"] is None and found["next_cursor"] is None:
        soon = _due_soon(_only_live(client.get("executions", **narrowed, limit=page["limit"])))
        found = found | {"items": [*found["items"], *soon[:room]]}
    return found, show_executions


@executions.command()
@click.argument("execution_id")
@watched_command
def show(client: Client, execution_id: str) -> tuple[Any, Any]:
    """Show an execution with its attempts."""
    return client.get("executions", execution_id), fields


@executions.command()
@click.argument("execution_id")
@click.option("--limit", type=click.IntRange(1, 500), default=500, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@click.option("--follow", is_flag=True, help="Print lines as they come, until the execution ends.")
@api_command
def logs(client: Client, execution_id: str, follow: bool, **page: Any) -> tuple[Any, Any]:
    """Show what the attempts at an execution logged."""
    if follow:
        follow_logs(client, execution_id, page)
        return None, lambda _: None
    return client.get("executions", execution_id, "logs", **page), _LOGS


@executions.command()
@click.argument("execution_id")
@click.option("--reason", help="Why, for the record.")
@api_command
def cancel(client: Client, execution_id: str, reason: str | None) -> tuple[Any, Any]:
    """Cancel an execution; a running one is asked to stop."""
    return client.post("executions", execution_id, "cancel", body={"reason": reason}), _cancelled


@executions.command()
@click.argument("execution_id")
@api_command
def retry(client: Client, execution_id: str) -> tuple[Any, Any]:
    """Retry a dead, expired or cancelled execution: its id stays and its attempts continue."""
    return client.post("executions", execution_id, "retry"), fields


@executions.command()
@click.argument("execution_id")
@api_command
def rerun(client: Client, execution_id: str) -> tuple[Any, Any]:
    """Run a finished execution again, as a new execution that names the first."""
    return client.post("executions", execution_id, "rerun"), fields


@executions.command()
@click.argument("execution_id")
@api_command
def explain(client: Client, execution_id: str) -> tuple[Any, Any]:
    """Say why an execution waited, was late, was skipped, or is where it is."""
    return client.get("executions", execution_id, "explain"), _explained


def id_of(client: Client, job: str | None) -> str | None:
    """The id of the job that a listing is narrowed to, if it is."""
    return None if job is None else job_id(client, job)


def show_executions(answer: Any) -> None:
    """A view of a page of executions."""
    _TABLE(answer | {"items": [_row(one) for one in answer["items"]]})


def _row(one: Any) -> Any:
    """An execution in words. A record of several skipped fires says how many they are."""
    reason = one["reason"] or (None if one.get("error") is None else one["error"])
    if one.get("fire_count", 1) > 1:
        reason = f"{reason}: {one['fire_count']:,} fires, until {one['fire_until']}"
    return one | {"lag": _lag(one["lag_ms"]), "reason": reason, "job_name": one["job_name"] or one["job_id"]}


def _lag(ms: float | None) -> str | None:
    if ms is None:
        return None
    return f"{ms:.0f} ms" if abs(ms) < 10_000 else f"{ms / 1000:,.0f} s"


def _only_live(answer: Any) -> Any:
    """The live ones of a page. They come first, so there are no more once others follow."""
    kept = [one for one in answer["items"] if one["finished_at"] is None]
    return answer | {
        "items": kept,
        "next_cursor": answer["next_cursor"] if len(kept) == len(answer["items"]) else None,
    }


def _due_soon(answer: Any) -> list[Any]:
    """Those that run now or within the hour."""
    soon = datetime.now(UTC) + _SOON
    return [one for one in answer["items"] if datetime.fromisoformat(one["run_at"]) <= soon]


def _cancelled(answer: Any) -> None:
    if answer["answer"] == "cancelled":
        line("cancelled: it was never called, and never will be")
    elif answer["final_state"] is None:
        line("cancel_requested: it had started, and has been asked to stop")
    else:
        line(f"cancel_requested: it had been called before, and ended as {answer['final_state']}")
    fields(answer)


def _explained(answer: Any) -> None:
    for sentence in answer["explanation"]:
        line(sentence)
