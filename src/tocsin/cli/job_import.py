"""`tocsin jobs import`: a file of jobs, ten thousand to a request, with what became of each line that was
refused.

Nothing is sent twice: a request that fails ends the import, and the report says from which line on.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import click

from tocsin.cli.client import ApiError, Client
from tocsin.cli.job_lines import Item, Unreadable, chunks, read_items
from tocsin.cli.show import api_command, line, rows

_MOST_LISTED: Final = 1000
_Send = Callable[[Sequence[bytes]], Any]


@click.command("import")
@click.argument("file", type=click.File("rb"))
@click.option("--atomic", is_flag=True, help="Create all jobs of a request (10,000 lines) or none of them.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only check that each line is a JSON object with a schedule and a target, and count them."
    " Whether these are right, the API says on creation.",
)
@api_command
def import_jobs(client: Client, file: BinaryIO, atomic: bool, dry_run: bool) -> tuple[Any, Any, int]:
    """Create jobs from FILE, or from standard input with "-".

    FILE has one job per line (NDJSON), or is a JSON array of jobs, as POST /v1/jobs takes them. The jobs
    are sent in requests of up to 10,000. Ends with exit code 1 if anything was refused.

    \b
    Examples:
      tocsin jobs import jobs.ndjson
      tocsin jobs import --dry-run jobs.json
      generate-jobs | tocsin jobs import --atomic -
    """
    report = _Report(dry_run)
    send: _Send = _look if dry_run else lambda lines: client.batch(lines, atomic=atomic)
    from tocsin.cli.progress import progress  # noqa: PLC0415 - a listing of jobs draws no bar

    with progress() as bar:
        task = bar.add_task("checking" if dry_run else "importing", total=_size(file), words="")
        for chunk in _readable(report, file):
            if not report.add(chunk, send):
                break
            bar.update(task, completed=_place(file), words=report.words)
    return report.answer(), _show, 0 if report.complete else 1


class _Report:
    """What has become of the lines so far. Of the refused ones, the first thousand are kept."""

    def __init__(self, dry_run: bool) -> None:
        self._dry_run = dry_run
        self._accepted = 0
        self._refused = 0
        self._left_out = 0
        self._problems: list[dict[str, Any]] = []
        self._next_line = 1
        self._stopped: str | None = None

    @property
    def complete(self) -> bool:
        return not (self._refused or self._left_out or self._stopped)

    @property
    def words(self) -> str:
        return f"{self._accepted:,} {'fit' if self._dry_run else 'created'}, {self._refused:,} refused"

    def add(self, chunk: Sequence[Item], send: _Send) -> bool:
        """Send a chunk. Returns whether the next one may follow."""
        try:
            answer = send([item.raw for item in chunk])
        except ApiError as error:
            unsure = "; some of these may have been created" if error.undecided else ""
            self.stop(f"lines {chunk[0].line:,} to {chunk[-1].line:,}: {error.message}{unsure}")
            return False
        self._accepted += answer["created"]
        self._refused += answer["refused"]
        self._left_out += len(chunk) - answer["created"] - answer["refused"]
        for item in answer["items"]:
            if "problem" in item and len(self._problems) < _MOST_LISTED:
                self._problems.append({"line": chunk[item["index"]].line} | item["problem"])
        self._next_line = chunk[-1].line + 1
        return True

    def stop(self, why: str) -> None:
        """Remember why the rest was not imported."""
        self._stopped = why

    def answer(self) -> dict[str, Any]:
        """The report as a value."""
        return {
            "dry_run": self._dry_run,
            "fit" if self._dry_run else "created": self._accepted,
            "refused": self._refused,
            "left_out": self._left_out,
            "problems": self._problems,
            "stopped": self._stopped,
            "next_line": None if self._stopped is None else self._next_line,
        }


def _readable(report: _Report, file: BinaryIO) -> Iterator[list[Item]]:
    try:
        yield from chunks(read_items(file))
    except Unreadable as error:
        report.stop(str(error))


def _look(lines: Sequence[bytes]) -> Any:
    """The answer of a dry run."""
    found = [(index, _fault(raw)) for index, raw in enumerate(lines)]
    items = [{"index": index, "problem": {"detail": fault}} for index, fault in found if fault]
    return {"created": len(lines) - len(items), "refused": len(items), "items": items}


def _fault(raw: bytes) -> str | None:
    try:
        job = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(job, dict):
        return "not a JSON object"
    missing = [name for name in ("schedule", "target") if name not in job]
    return f"no {' and no '.join(missing)}" if missing else None


def _show(answer: Any) -> None:
    if answer["dry_run"]:
        looked = answer["fit"] + answer["refused"]
        line(f"{answer['fit']:,} of {looked:,} look like jobs; nothing was created")
    else:
        line(f"{answer['created']:,} created, {answer['refused']:,} refused")
    if answer["left_out"]:
        line(f"{answer['left_out']:,} left out with them: all or none of a request are created")
    if answer["problems"]:
        rows(
            [("LINE", "line"), ("FIELD", "field"), ("PROBLEM", "detail"), ("HINT", "hint")],
            answer["problems"],
        )
    if answer["refused"] > len(answer["problems"]):
        line(f"… and {answer['refused'] - len(answer['problems']):,} more")
    if answer["stopped"]:
        line(f"stopped: {answer['stopped']}", "red")
        if answer["next_line"] > 1 and not answer["dry_run"]:
            line(f"the lines before {answer['next_line']:,} are done; go on from there")


def _size(file: BinaryIO) -> int | None:
    """How many bytes there are to read, if that is known."""
    try:
        found = os.fstat(file.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _place(file: BinaryIO) -> int:
    return file.tell() if file.seekable() else 0
