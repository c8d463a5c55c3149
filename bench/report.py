"""The report: results of a full run as `bench/RESULTS.md`, every figure beside its anchor from the same run.

A result is plain data, so a run can be kept as JSON lines (`keep`, `kept`) and the page written from them again.
"""

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec

PAGE = Path(__file__).parent / "RESULTS.md"
SECTIONS: Mapping[str, str] = {
    "a": "Create",
    "b": "Drain",
    "c": "Herd: all due at one instant",
    "d": "Start lag with little to do",
    "e": "Drain beside a backlog of future jobs",
    "f": "Recurring every minute",
    "g": "Limits of the store",
    "h": "Idle cost",
    "i": "HTTP",
    "j": "Cron and time zones",
}


class Spread(msgspec.Struct, frozen=True):
    """Some runs of one measurement."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        form = ",.0f" if self.median >= 100 else ",.1f" if self.median >= 1 else ",.3f"
        if self.min == self.max:
            return f"{self.median:{form}}"
        return f"{self.median:{form}} ({self.min:{form}}–{self.max:{form}})"


class Result(msgspec.Struct, frozen=True):
    """One row: ours, what it stands beside, and the command that measures both."""

    section: str
    what: str
    ours: Spread
    anchor: str
    beside: Spread | None
    ratio: float | None
    command: str

    @classmethod
    def of(
        cls,
        section: str,
        what: str,
        ours: Sequence[float],
        anchor: str,
        beside: Sequence[float],
        command: str,
    ) -> "Result":
        """The ratio is ours to theirs, of the medians; without an anchor there is none."""
        measured, other = Spread.of(ours), Spread.of(beside) if beside else None
        ratio = measured.median / other.median if other and other.median else None
        return cls(section, what, measured, anchor, other, ratio, command)


class Contender(msgspec.Struct, frozen=True):
    """A peer as it was run: whatever has these four names, `bench.peers.Peer` too, can be said so."""

    name: str
    version: str
    settings: str
    unfair: str


class Run(msgspec.Struct, frozen=True):
    """Where and with what the results were measured."""

    date: str
    machine: str
    versions: Mapping[str, str]
    settings: str
    runs: int
    contenders: tuple[Contender, ...] = ()

    @classmethod
    def here(
        cls, versions: Mapping[str, str], settings: str, runs: int, contenders: Iterable[Contender] = ()
    ) -> "Run":
        known = {"Python": platform.python_version(), **versions}
        return cls(date.today().isoformat(), machine(), known, settings, runs, tuple(contenders))  # noqa: DTZ011


def machine() -> str:
    """The shape of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory"


def write(run: Run, results: Sequence[Result], plots: Mapping[str, Sequence[str]] | None = None) -> None:
    """Write the page. `plots` gives files beside it to show in a section."""
    PAGE.write_text(page(run, results, plots or {}))


def page(run: Run, results: Sequence[Result], plots: Mapping[str, Sequence[str]]) -> str:
    """The page as text."""
    sections = sorted({result.section for result in results} | set(plots))
    return "\n".join(
        [*_head(run), *(line for key in sections for line in _section(key, results, plots.get(key, ())))]
    )


def keep(path: Path, results: Iterable[Result]) -> None:
    """Results as JSON lines, added to what is there."""
    with path.open("ab") as file:
        file.writelines(msgspec.json.encode(result) + b"\n" for result in results)


def kept(path: Path) -> list[Result]:
    """What was kept."""
    return [msgspec.json.decode(line, type=Result) for line in path.read_bytes().splitlines()]


def _head(run: Run) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    lines = [
        "# Results",
        "",
        f"Measured on {run.date}. {run.machine}. {versions}.",
        "",
        (
            f"{run.settings} Load, workers and store share the machine. A figure is the median of {run.runs} runs with"
            " (least–most); the ratio is ours to the anchor's, of the medians. Both come from the same run."
        ),
        "",
    ]
    if run.contenders:
        lines += ["| Peer | Version | Settings | Where it may be unfair |", "|---|---|---|---|"]
        lines += [_row(peer.name, peer.version, peer.settings, peer.unfair) for peer in run.contenders]
        lines += [""]
    return lines


def _section(key: str, results: Sequence[Result], plots: Sequence[str]) -> list[str]:
    mine = [result for result in results if result.section == key]
    lines = [f"## ({key}) {SECTIONS.get(key, '')}".rstrip(), ""]
    if mine:
        lines += ["| What | Ours | Anchor | Measured | Ratio |", "|---|---|---|---|---|"]
        lines += [
            _row(
                result.what,
                str(result.ours),
                result.anchor,
                str(result.beside) if result.beside else "–",
                f"{result.ratio:.2f}" if result.ratio is not None else "–",
            )
            for result in mine
        ]
        lines += [""]
    lines += [line for plot in plots for line in (f"![{SECTIONS.get(key, key)}]({plot})", "")]
    commands = dict.fromkeys(result.command for result in mine)
    return [*lines, "```sh", *commands, "```", ""] if commands else lines


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
