"""Starts without an answer, and a request to stop before they are asked for again.

Such an execution runs in the database, and no worker calls it. Asking for its start again does not return it,
for it was asked to stop. So its worker asks for it by itself, to end it: else it would keep its slot and its
job's turn until its claim's deadline, while its worker lets another execution use that slot.

Asking again waits for a start that is still under way, so what was started is known when this looks.
"""

from collections.abc import Sequence

from tocsin.db.pool import Database
from tocsin.db.statements import named
from tocsin.queue.claims import Claim, keys_of, mark_started, without

_BEGUN_AND_STOPPED = named(__package__, "begun_and_stopped")


async def begun_and_stopped(
    database: Database, cell: int, claims: Sequence[Claim], started: Sequence[Claim]
) -> list[Claim]:
    """Those of the claims that have started but are not among the started ones: they were asked to stop."""
    left = without(claims, started)
    if not left:
        return []
    stopped = mark_started(left, await database.fetch(*_BEGUN_AND_STOPPED.given(cell=cell, **keys_of(left))))
    for claim in stopped:
        claim.stop_asked = True
    return stopped
