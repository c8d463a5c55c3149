"""The turn of a job that must not overlap, and how it passes on.

One execution of such a job holds the turn from its first start to its end; the others wait, asleep for up to half a minute
unless they are woken. Whatever ends or removes executions calls `pass_turns` in the same transaction. So at every commit
a job has a holder, or nobody waits, or the execution that is next has been woken: no crash and no timeout comes between.

A holder cannot end while a worker decides to let others wait for it: that worker has its row locked. So whoever has decided
before is seen by `pass_turns`, and whoever decides later sees that the turn is free.
"""

from collections.abc import Sequence
from uuid import UUID

from tocsin.db.pool import Session
from tocsin.db.statements import statement


async def pass_turns(session: Session, cell: int, job_ids: Sequence[UUID]) -> None:
    """Wake the execution that is next in each of these jobs, if none of the job holds the turn."""
    if job_ids:
        await session.execute(statement("tocsin.db", "pass_turns"), cell, job_ids)
