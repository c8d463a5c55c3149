"""How `tocsin top` looks: a picture of the fleet in as many lines as the terminal has."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tocsin.cli.cells import COLOURS, harmless
from tocsin.cli.top_picture import Picture
from tocsin.cli.top_screen import HELP, Part, Screen, row_of

_BARS: Final = "▁▂▃▄▅▆▇█"
_PLOT: Final = 60
_ROWS: Final = {"queues": 8, "running": 8, "ended": 8}
_NEEDS: Final = 4


def drawn(picture: Picture, screen: Screen, where: str) -> RenderableType:
    """Everything, the most urgent at the top."""
    parts: list[RenderableType] = [
        _head(picture.summary, where),
        *_needs(picture.summary),
        *_plots(picture.series),
    ]
    parts += [
        Text(),
        _queues(picture, screen),
        Text(),
        _running(picture, screen),
        Text(),
        _ended(picture, screen),
    ]
    if picture.nodes:
        parts += [Text(), _nodes(picture.nodes)]
    return Group(*parts, Text(), _foot(screen))


def _head(summary: dict[str, Any], where: str) -> Text:
    due, share = summary["due"], summary["on_time_1h"]
    oldest = "" if due["oldest_ms"] is None else f" (oldest {_span(due['oldest_ms'])})"
    words = [
        f"running {_count(summary['running'])}"
        + (f" of {summary['capacity']:,}" if summary["capacity"] else ""),
        f"due {_count(due)}{oldest}",
        f"late p99 {_span(summary['late_1h']['p99_ms'])}",
        f"on time {'–' if share is None else f'{share:.2%}'}",
        f"dead in 24 h {_count(summary['dead_24h'])}",
    ]
    return Text.assemble(("tocsin ", "bold"), (f"{where}  ", "dim"), "  ".join(words))


def _needs(summary: dict[str, Any]) -> list[Text]:
    return [
        Text(f"! {need['kind']} {need['count']:,}: {harmless(need['text'])}", "yellow")
        for need in summary["needs_you"][:_NEEDS]
    ]


def _plots(series: dict[str, Any]) -> list[Text]:
    fires, late = series["total"]["fires"], series["total"]["p99_ms"]
    step = series["step_s"]
    return [
        _plot("ended/s", [number / step for number in fires], lambda value: f"{value:,.1f}"),
        _plot("late p99", [value or 0.0 for value in late], _span),
    ]


def _plot(name: str, values: Sequence[float], words: Any) -> Text:
    shown = values[-_PLOT:]
    most = max(shown, default=0.0)
    return Text.assemble((f"{name:<9}", "bold"), (sparkline(shown), "cyan"), f"  at most {words(most)}")


def sparkline(values: Sequence[float]) -> str:
    """A bar per value. What is not nothing shows, however small."""
    most = max(values, default=0.0)
    if most <= 0:
        return _BARS[0] * len(values)
    top = len(_BARS) - 1
    return "".join(_BARS[0 if value <= 0 else max(1, round(value / most * top))] for value in values)


def _queues(picture: Picture, screen: Screen) -> Table:
    table = _table("QUEUE", "DUE", "OLDEST", "RUNNING", "PER MINUTE", "WORKERS", "PAUSED")
    for place, queue in _window("queues", picture, screen):
        paused = queue["paused"]
        cells = (
            queue["name"], _count(queue["due"]), _span(queue["due"]["oldest_ms"]), _count(queue["running"]),
            f"{queue['per_minute'][-2]:,}", str(queue["workers"]),
            "" if paused is None else paused["reason"] or "paused",
        )  # fmt: skip
        _add(table, cells, "queues", place, picture, screen, "yellow" if paused else "")
    return table


def _running(picture: Picture, screen: Screen) -> Table:
    table = _table("RUNNING", "EXECUTION", "FOR", "ATTEMPT", "QUEUE", "PROGRESS")
    now = datetime.fromisoformat(picture.summary["now"])
    for place, item in _window("running", picture, screen):
        cells = (
            _name(item), item["id"], _since(item["started_at"], now), str(item["attempt"]), item["queue"],
            _progress(item["progress"]),
        )  # fmt: skip
        _add(table, cells, "running", place, picture, screen)
    return table


def _ended(picture: Picture, screen: Screen) -> Table:
    table = _table("ENDED", "EXECUTION", "STATE", "LATE", "TOOK", "REASON")
    for place, item in _window("ended", picture, screen):
        ended = datetime.fromisoformat(item["finished_at"]) if item["finished_at"] else None
        took = "–" if ended is None else _since(item["started_at"], ended)
        cells = (_name(item), item["id"], item["state"], _span(item["lag_ms"]), took, item["reason"] or "")
        _add(table, cells, "ended", place, picture, screen, COLOURS.get(item["state"], ""))
    return table


def _nodes(nodes: list[dict[str, Any]]) -> Table:
    table = _table("NODE", "ROLES", "SHARDS", "RUNNING", "LOAD", "PER SECOND", "")
    for node in nodes:
        load = node["saturation"]
        table.add_row(
            _plain(node["name"]), ", ".join(node["roles"]), str(node["shards"]),
            "–" if node["running"] is None else f"{node['running']:,}", "–" if load is None else f"{load:.0%}",
            "–" if node["started_per_s"] is None else f"{node['started_per_s']:,.0f}",
            "" if node["alive"] else "silent", style="" if node["alive"] else "red",
        )  # fmt: skip
    return table


def _foot(screen: Screen) -> RenderableType:
    if screen.asked is not None:
        return Text(
            f"{screen.asked.deed} {harmless(screen.asked.what)}? y: yes, any other key: no", "bold yellow"
        )
    lines = [Text(harmless(words)) for words in screen.told]
    return Group(*lines, Text(HELP, "dim"))


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", min_width=24 if place == 0 else None)
    return table


def _window(part: Part, picture: Picture, screen: Screen) -> list[tuple[int, dict[str, Any]]]:
    """The rows that are shown: from the first, or as far down as the chosen one."""
    items, size = getattr(picture, part), _ROWS[part]
    first = max(0, row_of(screen, picture) - size + 1) if screen.part == part else 0
    return list(enumerate(items))[first : first + size]


def _add(
    table: Table,
    cells: tuple[str, ...],
    part: Part,
    place: int,
    picture: Picture,
    screen: Screen,
    style: str = "",
) -> None:
    here = screen.part == part and place == row_of(screen, picture)
    table.add_row(*(_plain(cell) for cell in cells), style="reverse" if here else style)


def _plain(text: str) -> Text:
    """Free text on one line, without markup."""
    return Text(harmless(" ".join(text.split())))


def _name(item: dict[str, Any]) -> str:
    return str(item["job_name"] or item["job_id"])


def _progress(progress: dict[str, Any] | None) -> str:
    return "" if not progress or progress.get("share") is None else f"{progress['share']:.0%}"


def _since(begin: str | None, end: datetime) -> str:
    if begin is None:
        return "–"
    return _span(max(0.0, (end - datetime.fromisoformat(begin)).total_seconds() * 1000))


def _count(counted: dict[str, Any]) -> str:
    return f"{counted['count']:,}{'+' if counted['capped'] else ''}"


def _span(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
