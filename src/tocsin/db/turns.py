"""The turn of a job that must not overlap, and how it passes on.

One execution of such a job holds the turn from its first start to its end. The others wait, asleep for up to
half a minute unless they are woken. Each transaction that ends or removes executions calls `pass_turns`
before it commits. So after every commit a job has a holder, or no execution waits, or the next one has been
woken: no crash and no timeout comes between.

A worker that makes an execution wait for a holder keeps the holder's row locked until it commits. So either
the holder ends after that, and `pass_turns` sees the waiting execution, or the worker sees that the turn is
free.
"""

from collections.abc import Sequence
from uuid import UUID

from tocsin.db.pool import Session
from tocsin.db.statements import statement


async def pass_turns(session: Session, cell: int, job_ids: Sequence[UUID]) -> None:
    """Wake the execution that is next in each of these jobs, if none of the job holds the turn."""
    if job_ids:
        await session.execute(statement("tocsin.db", "pass_turns"), cell, job_ids)
