"""Plots of a full run as SVG: distributions of lag, and lines of growth.

matplotlib comes with the `bench` group only (`make .venv/.bench`). The same data gives the same file, byte for byte.
"""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST = 0.1  # of a lag in milliseconds: a logarithmic axis has no zero
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tocsin",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
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
    import matplotlib as mpl  # noqa: PLC0415 - so that whoever needs no plot needs no matplotlib
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.subplots()
        axes.set(title=title, xlabel=x_label, ylabel=y_label)
        yield axes
        axes.legend()
        figure.savefig(path, format="svg", metadata={"Date": None})
