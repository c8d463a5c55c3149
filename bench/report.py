"""The report: what a full run measured as `RESULTS.md`, every figure beside its anchor from the same run.

A measurement is plain data and is kept as a JSON line as soon as it is there (`keep`, `kept`), so that a run
that was cut can go on, and the page can be written again. Rows of the same `what` share a table. The first
row of ours is what the others are compared with.
"""

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec

OURS = "Tocsin"
DECIDING = "p99, ms"  # the part of a lag that ratios are taken of
SECTIONS: Mapping[str, str] = {
    "a": "Create",
    "b": "Drain",
    "c": "Herd: all due at one instant",
    "d": "Start lag with little to do",
    "e": "Growth with pending jobs",
    "f": "Recurring every minute",
    "g": "Drain while a transaction holds vacuum back",
    "h": "Idle cost",
    "i": "HTTP fires",
    "j": "Failover",
    "k": "Tasks: functions in workers of users",
    "l": "Messages, gRPC calls and scripts",
    "m": "The archive",
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
        size = abs(self.median)
        form = ",.0f" if size >= 100 else ",.1f" if size >= 1 else ",.3f"
        if self.min == self.max:
            return f"{self.median:{form}}"
        return f"{self.median:{form}} ({self.min:{form}}–{self.max:{form}})"


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row: who did what how well, and the command that measures it. `values` gives the runs of each
    column.

    A `curve` is for a plot: evenly spaced quantiles of lags, or throughput over time. `size` says how large
    the thing was whose growth is plotted. Without values, `note` says why there are none.
    """

    section: str
    what: str
    who: str
    values: Mapping[str, Sequence[float]]
    command: str
    ours: bool = False
    note: str = ""
    curve: Sequence[float] = ()
    size: float | None = None
    headline: bool = False

    def spread(self, part: str) -> Spread | None:
        values = self.values.get(part)
        return Spread.of(values) if values else None

    @property
    def deciding(self) -> str:
        """The column that ratios are taken of."""
        return DECIDING if DECIDING in self.values else next(iter(self.values), "")


class Done(msgspec.Struct, frozen=True):
    """A part of a run that was done: its name, how many seconds it took, what it measured."""

    name: str
    took: float
    measured: list[Measured]


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
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    model = f" ({names[0].partition(':')[2].strip()})" if names else ""
    return (
        f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores{model},"
        f" {memory:.0f} GiB of memory"
    )


def keep(path: Path, done: Done) -> None:
    """A step as a JSON line, added to what is there."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(done) + b"\n")


def kept(path: Path) -> list[Done]:
    """What was kept. A last line that was cut off in the middle does not count."""
    if not path.exists():
        return []
    return [
        msgspec.json.decode(line, type=Done)
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]


def page(run: Run, took: float, measured: Sequence[Measured], plots: Mapping[str, Sequence[str]]) -> str:
    """The page as text. `took` says how many seconds, `plots` gives files beside the page to show in a
    section."""
    sections = sorted({row.section for row in measured} | set(plots))
    return "\n".join(
        [
            *_head(run, took),
            *(line for key in sections for line in _section(key, measured, plots.get(key, ()))),
        ]
    )


def ratio(row: Measured, first: Measured) -> float | None:
    """Ours to theirs; where the row is ours too, it to the first of ours."""
    mine, other = first.spread(first.deciding), row.spread(first.deciding)
    if row is first or mine is None or other is None:
        return None
    above, below = (other, mine) if row.ours else (mine, other)
    return above.median / below.median if below.median else None


def readme_table(measured: Sequence[Measured]) -> str:
    """The short table: what is a headline, its anchor, and the best of the peers."""
    lines = [_row("What", OURS, "Beside it", "Best peer"), "|---|---|---|---|"]
    for first in (row for row in measured if row.headline):
        others = [row for row in measured if row.what == first.what and not row.ours and row.values]
        part = first.deciding
        anchors = [row for row in others if not _is_peer(row)]
        peers = sorted(
            (row for row in others if _is_peer(row) and row.values.get(part)),
            key=lambda row: _median(row, part),
            reverse=not part.endswith("ms"),
        )
        lines.append(
            _row(
                f"{first.what}: {part}",
                str(first.spread(part)),
                "; ".join(f"{row.who} {row.spread(part)}" for row in anchors) or "–",
                f"{peers[0].who} {peers[0].spread(part)}" if peers else "–",
            )
        )
    return "\n".join(lines)


def _is_peer(row: Measured) -> bool:
    return "bench.peers" in row.command


def _median(row: Measured, part: str) -> float:
    return statistics.median(row.values[part])


def _head(run: Run, took: float) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    lines = [
        "# Results",
        "",
        f"Measured on {run.date} by `make bench-full`. {run.machine}. {versions}.",
        "",
        (
            f"{run.settings} Load, workers and store share the machine, and everything stays on it. A figure is the median of"
            f" {run.runs} runs with (least–most) unless its row says otherwise. The ratio is {OURS}'s median to that row's; in"
            f" a row of {OURS} itself it is that row's to the first row's. Of lags it is taken of p99. All of it is one run,"
            f" which took {took / 60:.0f} minutes, or a run that was taken up again with `--resume`: then rows of one table may"
            " be hours apart, and the README says which."
        ),
        "",
    ]
    if run.contenders:
        lines += ["| Peer | Version | Settings | Where it may be unfair |", "|---|---|---|---|"]
        lines += [_row(peer.name, peer.version, peer.settings, peer.unfair) for peer in run.contenders]
        lines += [""]
    return lines


def _section(key: str, measured: Sequence[Measured], plots: Sequence[str]) -> list[str]:
    mine = [row for row in measured if row.section == key]
    lines = [f"## ({key}) {SECTIONS.get(key, '')}".rstrip(), ""]
    for what in dict.fromkeys(row.what for row in mine):
        lines += [f"### {what}", "", *_table([row for row in mine if row.what == what]), ""]
    lines += [line for plot in plots for line in (f"![{SECTIONS.get(key, key)}]({plot})", "")]
    commands = dict.fromkeys(row.command for row in mine)
    return [*lines, "```sh", *commands, "```", ""] if commands else lines


def _table(rows: Sequence[Measured]) -> list[str]:
    rows = sorted(rows, key=lambda row: not row.ours)  # ours first, whatever was measured first
    parts = list(dict.fromkeys(part for row in rows for part in row.values))
    ratios = [ratio(row, rows[0]) if rows[0].ours else None for row in rows]
    return [
        _row("", *parts, "Ratio"),
        "|---" * (len(parts) + 2) + "|",
        *(
            _row(
                f"{row.who}: {row.note}" if row.note else row.who,
                *(str(row.spread(part) or "–") for part in parts),
                _ratio_text(share),
            )
            for row, share in zip(rows, ratios, strict=True)
        ),
    ]


def _ratio_text(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.2f}" if share >= 0.1 else f"{share:.2g}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
