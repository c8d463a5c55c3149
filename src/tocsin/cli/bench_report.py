"""What `tocsin bench` found, for people: a line per measurement, and what it means."""

from typing import Any

from rich.table import Table

from tocsin.cli.show import console, line


def show(answer: Any) -> None:
    """Print the report."""
    found = [row(answer) for name, row in _ROWS.items() if answer[name]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("WHAT", "MEASURED"):
        table.add_column(heading, no_wrap=True)
    table.add_column("WHAT IT MEANS", overflow="fold")
    for cells in found:
        table.add_row(*cells)
    console().print(table)
    for note in answer["notes"]:
        line(f"note: {note}", "yellow")
    if answer["stopped"]:
        line(f"stopped: {answer['stopped']}", "red")


def _create(answer: Any) -> tuple[str, str, str]:
    found = answer["create"]
    measured = f"{_rate(found)}, p50 {_ms(found['p50_ms'])}, p99 {_ms(found['p99_ms'])}"
    return (
        "create",
        measured,
        f"{found['requests']:,} jobs, one to a request, {answer['concurrency']} at a time",
    )


def _create_batch(answer: Any) -> tuple[str, str, str]:
    found = answer["create_batch"]
    return "create in batches", _rate(found), f"{found['jobs']:,} jobs, up to 10,000 to a request"


def _drain(answer: Any) -> tuple[str, str, str]:
    found = answer["drain"]
    took = _ms(1000 * found["seconds"])
    return "drain", _rate(found), f"{found['executions']:,} executions overdue were done in {took}"


def _herd(answer: Any) -> tuple[str, str, str]:
    found = answer["herd"]
    return "herd", _lag(found), f"{found['executions']:,} due at one instant started this late"


def _spread(answer: Any) -> tuple[str, str, str]:
    found = answer["spread"]
    over = found["over_seconds"]
    return "spread", _lag(found), f"{found['executions']:,} due over {over:g} s started this late"


_ROWS = {
    "create": _create, "create_batch": _create_batch, "drain": _drain, "herd": _herd, "spread": _spread,
}  # fmt: skip


def _rate(found: Any) -> str:
    return f"{found['per_second']:,.0f}/s" if found["per_second"] >= 10 else f"{found['per_second']:.1f}/s"


def _lag(found: Any) -> str:
    return f"p50 {_ms(found['p50_ms'])}, p99 {_ms(found['p99_ms'])}, max {_ms(found['max_ms'])}"


def _ms(value: float) -> str:
    return (
        f"{value / 1000:,.1f} s"
        if value >= 10_000
        else f"{value:,.0f} ms"
        if value >= 10
        else f"{value:.1f} ms"
    )
