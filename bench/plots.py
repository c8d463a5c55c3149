"""Plots of a full run as SVG: distributions of lag, and lines of growth and over time.

matplotlib comes with the `bench` group only (`make .venv/.bench`). The same data gives the same file, byte
for byte.
"""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST = 0.1  # of a lag in milliseconds: a logarithmic axis has no zero
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tocsin",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


def draw(measured: Sequence[Measured], into: Path) -> dict[str, list[str]]:
    """All plots there is data for. Returns the names of the files by section."""
    drawn: dict[str, list[str]] = {}
    plotted = [row for row in measured if row.curve or row.size is not None]
    for section, what in dict.fromkeys((row.section, row.what) for row in plotted):
        rows = [row for row in plotted if (row.section, row.what) == (section, what)]
        files = drawn.setdefault(section, [])
        files.append(f"{section}{len(files) + 1}.svg")
        path = into / files[-1]
        if rows[0].size is not None:
            growth(path, what, "pending jobs", rows[0].deciding.replace("p99, ", ""), _by_part(rows))
        elif section == "g":
            growth(
                path, what, "windows", "per second", {row.who: list(enumerate(row.curve, 1)) for row in rows}
            )
        else:
            lag_distributions(path, what, {row.who: row.curve for row in rows})
    return drawn


def _by_part(rows: Sequence[Measured]) -> dict[str, list[tuple[float, float]]]:
    return {
        part: [(row.size or 0, statistics.median(row.values[part])) for row in rows]
        for part in rows[0].values
    }


def lag_distributions(path: Path, title: str, series: Mapping[str, Sequence[float]]) -> None:
    """What part of the jobs had started by then: one line per name, of lags in milliseconds."""
    with _axes(path, title, "start lag, ms", "part of jobs started") as axes:
        for name, lags in series.items():
            ordered = sorted(max(lag, LEAST) for lag in lags)
            axes.step(
                ordered,
                [rank / len(ordered) for rank in range(1, len(ordered) + 1)],
                where="post",
                label=name,
            )
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)


def growth(
    path: Path, title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> None:
    """How a figure changes with the size of something: one line of points per name."""
    with _axes(path, title, x_label, y_label) as axes:
        for name, points in series.items():
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
        xs = [x for points in series.values() for x, _ in points]
        if min(xs) > 0 and max(xs) / min(xs) >= 100:
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)


@contextmanager
def _axes(path: Path, title: str, x_label: str, y_label: str) -> "Iterator[Any]":
    import matplotlib as mpl  # noqa: PLC0415 - a run without plots needs no matplotlib
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.subplots()
        axes.set(title=title, xlabel=x_label, ylabel=y_label)
        yield axes
        axes.legend()
        figure.savefig(path, format="svg", metadata={"Date": None})
