"""Writes down what tasks say while they run: lines of their logs, and how far they are.

Once a second for all attempts together; what an attempt has not told when it ends is written before it is
settled. Lines of a claim that is lost are refused by the statement that keeps them.
"""

import contextlib
from collections.abc import Callable

from tocsin.db.pool import Database
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import Instant
from tocsin.domain.protocol import Progress
from tocsin.domain.storable import storable_json
from tocsin.sdk.worker.attempt import Attempt
from tocsin.service import Report
from tocsin.store.logs import Logged, LogStore
from tocsin.store.statements import sql
from tocsin.targets.assignment import Assignment


class Telling:
    """The attempts that may have something to tell."""

    name = "task logs"
    interval = 1.0

    def __init__(self, database: Database, look_at_loop: Callable[[], object]) -> None:
        """`look_at_loop` is called as often: see `LoopWatch`."""
        self._database = database
        self._look_at_loop = look_at_loop
        self._logs = LogStore(database)
        self._held: dict[Attempt, Assignment] = {}
        self._now: Instant = 0

    def hold(self, assignment: Assignment, attempt: Attempt) -> None:
        """An attempt begins."""
        self._held[attempt] = assignment
        self._now = max(self._now, assignment.started_at)

    async def release(self, attempt: Attempt) -> None:
        """An attempt is over: write what it has not told."""
        assignment = self._held.pop(attempt)
        if attempt.silent:
            return
        with contextlib.suppress(Unavailable):  # the settlement waits for the database, lines do not
            while await self._tell({attempt: assignment}):
                pass

    async def run_once(self, now: Instant) -> Report:
        """Write what there is."""
        self._now = now
        self._look_at_loop()
        return Report(done=await self._tell(dict(self._held)))

    async def _tell(self, held: dict[Attempt, Assignment]) -> int:
        told = [(attempt, assignment, attempt.held()) for attempt, assignment in held.items()]
        logged = [
            Logged(assignment.key, assignment.attempt, assignment.token, one.logs)
            for _, assignment, one in told
            if one.logs
        ]
        await self._logs.append(logged, self._now)
        moved = [(assignment, one.progress) for _, assignment, one in told if one.progress is not None]
        if moved:
            await self._database.execute(
                sql("task_progress"),
                CELL,
                [assignment.job_id for assignment, _ in moved],
                [assignment.fire_at for assignment, _ in moved],
                [assignment.token for assignment, _ in moved],
                [_text(progress) for _, progress in moved],
            )
        for attempt, _, one in told:
            attempt.heard(one)
        return len(logged)


def _text(progress: Progress) -> str:
    return storable_json(progress)
