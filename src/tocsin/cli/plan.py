"""`tocsin plan`, `tocsin apply`, `tocsin export` and `tocsin schema`: jobs in a file, as they shall be.

A plan says what applying the file would do, to the fields of jobs and to their fires of the next days. Jobs
belong to the file's owner: those of other owners cannot be touched, and those without an owner only with
--adopt.
"""

import sys
from importlib.resources import files
from typing import Any, Final, TextIO

import click

from tocsin.cli.cells import words
from tocsin.cli.client import Client
from tocsin.cli.schedule_options import Decorator, with_options
from tocsin.cli.show import api_command, line

PENDING: Final = 3
"""The exit code of a plan that would change something."""
_FILE: Final = click.argument("file", type=click.File("r", encoding="utf-8"))
_OPTIONS: Final[tuple[Decorator, ...]] = (
    click.option("--prune", is_flag=True, help="Cancel jobs of this owner that are no longer in the file."),
    click.option("--adopt", is_flag=True, help="Take over jobs of the same name that have no owner."),
    click.option(
        "--days",
        type=click.IntRange(1, 31),
        default=7,
        show_default=True,
        help="How far ahead fires are compared.",
    ),
)
_MARKS: Final = {
    "created": ("+", "green"), "revived": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red"),
    "refused": ("!", "red"), "undeclared": ("?", "dim"), "differs": ("?", "dim"),
}  # fmt: skip
_WRITES: Final = ("created", "revived", "changed", "removed")


@click.command()
@_FILE
@with_options(*_OPTIONS)
@api_command
def plan(client: Client, file: TextIO, **options: Any) -> tuple[Any, Any, int]:
    """Show what applying FILE would change: fields, and the fires of the next days.

    FILE is YAML, TOML or JSON with owner: and jobs:, or "-" for standard input. Ends with 0 if there is
    nothing to do, 3 if there is, 1 if something is refused.

    \b
    Examples:
      tocsin plan jobs.yaml
      tocsin plan jobs.yaml --prune --days 14
    """
    answer = _declared(client, file, options, dry_run=True)
    return answer, _show, _code(answer)


@click.command()
@_FILE
@with_options(*_OPTIONS)
@click.option("--yes", is_flag=True, help="Do not ask.")
@api_command
def apply(client: Client, file: TextIO, yes: bool, **options: Any) -> tuple[Any, Any, int]:
    """Show what FILE would change, ask, and change the jobs.

    Applying a file again changes nothing. Ends with 1 if something is refused; then nothing was written.

    \b
    Examples:
      tocsin apply jobs.yaml
      tocsin apply jobs.yaml --prune --yes
    """
    text = file.read()
    planned = _declared(client, file, options, dry_run=True, text=text)
    if _code(planned) != PENDING:
        return planned, _show, _code(planned)
    if not yes:
        if click.get_current_context().params.get("as_json") or not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to ask on: confirm with --yes")
        _show(planned)
        click.confirm("Apply it?", abort=True)
    answer = _declared(client, file, options, dry_run=False, text=text)
    return answer, _show, 0 if answer["applied"] else 1


@click.command()
@click.option("--owner", metavar="NAME", help="Jobs of this owner.  [default: jobs without an owner]")
@click.option("--as", "new_owner", metavar="NAME", help="The owner that the file names.  [default: --owner]")
@click.option("--tag", help="Only jobs with this tag.")
@api_command
def export(client: Client, owner: str | None, new_owner: str | None, tag: str | None) -> tuple[Any, Any]:
    """Write recurring jobs as a file that `tocsin apply` takes, without defaults.

    \b
    Examples:
      tocsin export --as shop > jobs.yaml && tocsin apply jobs.yaml --adopt
      tocsin export --owner shop
    """
    named = new_owner or owner
    if named is None:
        raise click.UsageError("whose jobs shall the file declare? give --owner or --as")
    from tocsin.cli.exported import exported_jobs  # noqa: PLC0415 - only this command needs the types

    jobs = exported_jobs(client, owner, tag)
    return {"owner": named, "jobs": jobs}, _write


@click.command()
def schema() -> None:
    """Print the JSON schema of the files that plan and apply take, for editors.

    \b
    Examples:
      tocsin schema > tocsin.schema.json
    """
    click.echo(files("tocsin.cli").joinpath("jobs_file.schema.json").read_text(), nl=False)


def _declared(
    client: Client, file: TextIO, options: dict[str, Any], *, dry_run: bool, text: str | None = None
) -> Any:
    from tocsin.cli.jobs_file import Unreadable, read_jobs_file  # noqa: PLC0415 - only the call needs YAML

    try:
        read = read_jobs_file(file.read() if text is None else text, file.name)
    except (Unreadable, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from None
    body = {"jobs": read.jobs, "revision": read.revision, "dry_run": dry_run, **options}
    return client.declare(read.owner, body)


def _code(answer: Any) -> int:
    if answer["superseded"] or answer["counts"].get("refused"):
        return 1
    return PENDING if any(answer["counts"].get(action) for action in _WRITES) else 0


def _show(answer: Any) -> None:
    if answer["superseded"]:
        line(
            f"{answer['owner']} is at revision {answer['revision']}: the file is older, and changes nothing",
            "red",
        )
        return
    for job in answer["jobs"]:
        if job["action"] in _MARKS:
            _show_job(job)
    counts = ", ".join(f"{number:,} {action}" for action, number in answer["counts"].items() if number)
    done = "would be" if answer["dry_run"] else "are"
    if answer["counts"].get("refused"):
        line(f"refused, nothing was written: {counts}", "red")
    elif any(answer["counts"].get(action) for action in _WRITES):
        line(f"jobs of {answer['owner']} {done}: {counts}")
    else:
        line(f"nothing to do: {counts or 'no jobs'}")


def _show_job(job: Any) -> None:
    mark, colour = _MARKS[job["action"]]
    paused = ", and is paused" if job.get("paused") else ""
    line(f"{mark} {job['name']}: {job['action']}{paused}", colour)
    for change in job.get("fields", ()) if job["action"] != "created" else ():
        line(f"    {change['field']}: {words(change['before'])} → {words(change['after'])}")
    if (fires := job.get("fires")) is not None:
        _show_fires(fires)
    if (problem := job.get("problem")) is not None:
        field = f"{problem['field']}: " if problem.get("field") else ""
        hint = f" ({problem['hint']})" if problem.get("hint") else ""
        line(f"    {field}{problem['detail']}{hint}")


def _show_fires(fires: Any) -> None:
    until = f"{fires['until'][:16]}Z"  # a span from now: the seconds of its end do not matter
    if not (fires["gained"] or fires["lost"] or fires["moved"]):
        line(f"    the same {fires['kept']} fires until {until}")
        return
    line(
        f"    until {until}: {fires['gained']} fires gained, {fires['lost']} lost,"
        f" {fires['moved']} moved, {fires['kept']} as before"
    )
    for name, sign in (("first_gained", "+"), ("first_lost", "-")):
        if fires[name]:
            line(f"      {sign} {', '.join(fires[name])}")
    for move in fires["first_moved"]:
        line(f"      {move['before']} → {move['after']}")


def _write(answer: Any) -> None:
    from tocsin.cli.jobs_file import written_yaml  # noqa: PLC0415 - only this command writes YAML

    click.echo(written_yaml(answer["owner"], answer["jobs"]), nl=False)
