"""`tocsin doctor`: what is wrong, the likeliest cause first, and the command that mends it."""

from typing import Any, Final

import click

from tocsin.cli.client import ApiError
from tocsin.cli.show import Connect, line, local_command

_COLOURS: Final = {"wrong": "red", "late": "yellow", "soon": "cyan"}
_FOUND: Final = 1
_NOBODY: Final = {
    "code": "no_api",
    "severity": "wrong",
    "words": "No API process answers, so nothing else can be looked at.",
    "fix": "tocsin serve   # or: tocsin api; point --url or TOCSIN_URL at it",
}
_AWAY: Final = {
    "code": "database_away",
    "severity": "wrong",
    "words": "The API answers, and its database does not.",
    "fix": "start PostgreSQL, or mend the way to it; the API's log has database.unavailable with the reason",
}


@click.command()
@local_command
def doctor(connect: Connect) -> tuple[Any, ...]:
    """Say what is wrong, the likeliest cause first, with evidence and the command that fixes it.

    Looks at nodes, leases, planning, queues, limits, clocks, versions, partitions, and at the database's
    locks, transactions and settings. Exits with 0 if nothing is wrong and with 1 if something is.
    """
    try:
        answer = connect().get("system", "findings")
    except ApiError as error:
        trouble = _AWAY if error.status == 503 else _NOBODY if error.status is None else None
        if trouble is None:
            raise
        finding = trouble | {"evidence": [error.message.partition("\n")[0]]}
        answer = {"healthy": False, "looked_for": 1, "findings": [finding]}
    return answer, _shown, *([] if answer["healthy"] else [_FOUND])


def _shown(answer: Any) -> None:
    if answer["healthy"]:
        line(f"nothing wrong: looked for {answer['looked_for']} kinds of trouble", "green")
        return
    for number, one in enumerate(answer["findings"], 1):
        line(
            f"{number}. [{one['severity']}] {one['words']} ({one['code']})", _COLOURS.get(one["severity"], "")
        )
        for evidence in one["evidence"]:
            line(f"   {evidence}")
        line(f"   → {one['fix']}", "bold")
