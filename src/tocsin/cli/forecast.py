"""`tocsin forecast`: the load to come."""

from datetime import UTC, datetime
from typing import Any, Final

import click

from tocsin.cli.cells import moment_text
from tocsin.cli.client import Client
from tocsin.cli.show import api_command, line, rows

_BARS: Final = " ▁▂▃▄▅▆▇█"


@click.command()
@click.option("--from", "since", metavar="INSTANT", help="The begin of the range.  [default: now]")
@click.option("--to", "until", metavar="INSTANT", help="The end of the range.  [default: a day later]")
@click.option("--step", default="15m", show_default=True, help="The width of a bucket, in whole minutes.")
@click.option("--queue", help="Only this queue.")
@api_command
def forecast(
    client: Client, since: str | None, until: str | None, step: str, queue: str | None
) -> tuple[Any, Any]:
    """Show the fires of the coming day, its peaks and their jobs, and free minutes."""
    asked = {"from": since, "to": until, "step": step, "queue": queue}
    return client.get("forecast", **asked), _shown


def _shown(answer: Any) -> None:
    fires = [a + b for a, b in zip(answer["expected"], answer["one_offs"], strict=True)]
    most = max([1, *fires])
    line("".join(_BARS[min(8, -(-round(8 * number) // most))] for number in map(round, fires)))
    now, number = datetime.now(UTC), round(sum(fires))
    begin = moment_text(answer["at"][0], now, brief=True)
    line(
        f"{number:,} {'fire' if number == 1 else 'fires'} from {begin} on, at most {round(most):,} within"
        f" {answer['step_s'] // 60} min"
    )
    peaks = [
        {
            "peak_at": peak["at"],
            "fires": peak["fires"],
            "name": ", ".join(str(job["name"] or job["id"]) for job in peak["jobs"]),
        }
        for peak in answer["peaks"]
    ]
    if peaks:
        rows([("PEAK", "peak_at"), ("FIRES", "fires"), ("NAME", "name")], peaks)
    free = [datetime.fromisoformat(one).astimezone() for one in answer["free"][:5]]
    line(f"free minutes: {', '.join(f'{one:%H:%M}' for one in free) or 'none'}")
    if answer["age_s"] is not None:
        line(f"recurring jobs as of {answer['age_s']} s ago", "dim")
    if answer["capped"]:
        line("there are more jobs than were summed up", "yellow")
