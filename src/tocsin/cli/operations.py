"""`tocsin operations …`: one action on many."""

import time
from collections.abc import Callable
from typing import Any, Final

import click

from tocsin.cli.client import ApiError, Client
from tocsin.cli.groups import Group
from tocsin.cli.lookup import job_id
from tocsin.cli.progress import progress
from tocsin.cli.schedule_options import with_options
from tocsin.cli.show import api_command, fields, line, rows, table, watched_command
from tocsin.domain.operation import Do, Of

_POLL: Final = 1.0
_PATIENCE: Final = 30  # polls without an answer: longer than a restart of the API takes
_TABLE = table(
    [
        ("ID", "id"), ("DO", "do"), ("OF", "of"), ("STATE", "state"), ("MATCHED", "matched"), ("DONE", "done"),
        ("CANNOT", "cannot"), ("LEFT", "left"), ("FAILED", "failed"), ("CREATED", "created_at"), ("REASON", "state_reason"),
    ]
)  # fmt: skip
_follow = click.option("--follow", is_flag=True, help="Wait until it ends, with a progress bar.")
HOW: Callable[..., Any] = with_options(
    click.option("--reason", help="Why, for the record."),
    click.option("--pace", metavar="DURATION", help="The time between two actions.  [default: 0s]"),
    click.option(
        "--step",
        "steps",
        type=int,
        multiple=True,
        help="The size of a first step, whose outcome the rest waits for; may be repeated.",
    ),
    click.option(
        "--stop-share", type=float, help="Pause when this share of the latest outcomes are failures."
    ),
    click.option("--stop-of", type=int, default=50, show_default=True, help="How far the brake looks back."),
    click.option(
        "--dry-run", is_flag=True, help="Change nothing; say how many match, and list some of them."
    ),
    _follow,
)


@click.group(cls=Group)
def operations() -> None:
    """Act on many jobs, executions or dead letters at once.

    \b
    Examples:
      tocsin operations create pause jobs --where queue=imports --where state=active --dry-run
      tocsin operations create pause jobs --where queue=imports --reason "vendor down" --follow
      tocsin operations create retry dead_letters --where fingerprint=5f0c1d2e3a4b --step 1 --step 10
      tocsin operations show 7 --follow
    """


@operations.command()
@click.argument("do", type=click.Choice([str(one) for one in Do]))
@click.argument("of", type=click.Choice([str(one) for one in Of]))
@click.option(
    "--where",
    multiple=True,
    metavar="NAME=VALUE",
    help="A filter of the list command, NAME=VALUE; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Everything.")
@click.option("--id", "ids", multiple=True, help="This one; may be repeated.")
@HOW
@api_command
def create(
    client: Client,
    do: str,
    of: str,
    where: tuple[str, ...],
    everything: bool,
    ids: tuple[str, ...],
    **how: Any,
) -> Any:
    """Act on all that match a filter, or on those named."""
    if sum((bool(where), everything, bool(ids))) != 1:
        raise click.UsageError("give --where, --id or --all")
    things: Any = {"ids": list(ids)} if ids else {"where": _filter(client, where)}
    return begin(client, {"do": do, "of": of, **things}, **how)


@operations.command("list")
@click.option("--state", type=click.Choice(["running", "paused", "completed", "cancelled"]))
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@watched_command
def list_operations(client: Client, **page: Any) -> tuple[Any, Any]:
    """List operations, newest first."""
    return client.get("operations", **page), _TABLE


@operations.command()
@click.argument("operation_id")
@_follow
@watched_command
def show(client: Client, operation_id: str, follow: bool) -> tuple[Any, Any] | tuple[Any, Any, int]:
    """Show an operation and its progress."""
    if not follow:
        return client.get("operations", operation_id), fields
    ended = _followed(client, operation_id)
    return ended, fields, _exit_code(ended)


@operations.command()
@click.argument("operation_id")
@click.option("--reason", help="Why, for the record.")
@api_command
def pause(client: Client, operation_id: str, reason: str | None) -> tuple[Any, Any]:
    """Pause an operation: it acts on nothing more until it is resumed."""
    return client.post("operations", operation_id, "pause", body={"reason": reason}), fields


@operations.command()
@click.argument("operation_id")
@api_command
def resume(client: Client, operation_id: str) -> tuple[Any, Any]:
    """Resume an operation that a person, the brake or a failed step paused."""
    return client.post("operations", operation_id, "resume"), fields


@operations.command()
@click.argument("operation_id")
@click.option("--reason", help="Why, for the record.")
@api_command
def cancel(client: Client, operation_id: str, reason: str | None) -> tuple[Any, Any]:
    """Stop an operation for good; finished actions are not undone."""
    return client.post("operations", operation_id, "cancel", body={"reason": reason}), fields


def begin(
    client: Client, body: dict[str, Any], *, stop_share: float | None, stop_of: int, follow: bool, **how: Any
) -> Any:
    """Ask for an operation, and wait for it if that is wanted."""
    if follow and how["dry_run"]:
        raise click.UsageError("a dry run leaves nothing to --follow")
    if stop_share is not None:
        body["stop_at"] = {"share": stop_share, "of": stop_of}
    body |= {name: value for name, value in how.items() if value not in (None, ())}
    answer = client.post("operations", body=body)
    if not follow:
        return answer, _created
    answer["operation"] = _followed(client, str(answer["operation"]["id"]))
    return answer, _created, _exit_code(answer["operation"])


def _filter(client: Client, where: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in where:
        name, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"--where {text!r} has no =; write NAME=VALUE")
        if name in ("tag", "tags"):
            found.setdefault("tags", []).append(value)
        else:
            found[name] = job_id(client, value) if name == "job" else value
    return found


def _followed(client: Client, operation_id: str) -> Any:
    """The operation once it is over or held."""
    try:
        with progress() as bar:
            task = bar.add_task(f"operation {operation_id}", total=None, words="")
            while True:
                found = _look(client, operation_id)
                acted = found["matched"] - found["left"] - found["under_way"]
                words = f"{found['done']:,} done, {found['cannot']:,} cannot, {found['failed']:,} failed"
                bar.update(task, completed=acted, total=found["matched"], words=words)
                if found["state"] != "running":
                    return found
                time.sleep(_POLL)
    except KeyboardInterrupt:
        click.echo(f"the operation goes on: tocsin operations show {operation_id} --follow", err=True)
        click.get_current_context().exit(130)


def _look(client: Client, operation_id: str) -> Any:
    """The operation as it stands, over a short absence of the API."""
    for left in reversed(range(_PATIENCE)):
        try:
            return client.get("operations", operation_id)
        except ApiError as error:
            if not (error.undecided and left):
                raise
            time.sleep(_POLL)
    raise AssertionError  # the last try returns or raises


def _exit_code(operation: Any) -> int:
    return 0 if operation["state"] == "completed" else 1


def _created(answer: Any) -> None:
    if answer["operation"] is not None:
        fields(answer["operation"])
        return
    line(f"{answer['count']:,}{' or more' if answer['capped'] else ''} match")
    for refusal in answer["cannot"]:
        line(f"{refusal['count']:,} cannot: {refusal['reason']}", "yellow")
    rows([("ID", "id"), ("NAME", "name"), ("STATE", "state")], answer["sample"])
    if answer["count"] > len(answer["sample"]):
        line(f"… and {answer['count'] - len(answer['sample']):,} more")
