"""The turns of jobs that must not overlap.

Such a job has one turn. The execution that is running, or waiting to retry, holds it (`has_turn`); the schema
allows one holder per job. `db/turns.py` says how a turn passes on when its holder ends; here executions that
are due ask for it.

Nearly every execution finds its job's turn free, and one statement starts all of these (`start_alone.sql`).
The others are decided in a transaction that keeps other workers from deciding about the same jobs: the
execution that is next gets the turn, and the overlap policy says what becomes of the rest: skip, wait, wait
alone, or make room.

If two workers grant the same turn at once, the unique index rejects the second; that worker rereads and
decides again.
"""

from collections.abc import Sequence
from typing import Final

from tocsin.db.pool import Database, Session, UniqueViolation
from tocsin.db.statements import named
from tocsin.domain.instant import Instant
from tocsin.queue.claims import Claim, Finish, finish_columns, keys_of, mark_started, without
from tocsin.queue.overtaken import unless_overtaken
from tocsin.queue.slots.book import has_its_slot
from tocsin.queue.slots.slots import Slots
from tocsin.queue.starting.parking import LOOK_AGAIN, park
from tocsin.queue.starting.proof import proof

_CONTESTED_SHARE: Final = 1 / 8
_BATCHES_WITHOUT_TRYING: Final = 8
"""If more than `_CONTESTED_SHARE` of a batch is contested, skip the optimistic statement for this many
batches."""
_START_ALONE = named(__package__, "start_alone")
_HOLD_JOBS = named(__package__, "hold_jobs")
_HOLD_TURNS = named(__package__, "hold_turns")
_GRANT = named(__package__, "grant_turns")
_REPLACE = named(__package__, "replace_older")
_COLLAPSE = named(__package__, "collapse_waiting")
_FINISH = named("tocsin.queue.settling", "finish")


class Turns:
    """Decides about claims of jobs that must not overlap."""

    def __init__(self, database: Database, cell: int, slots: Slots) -> None:
        self._database = database
        self._cell = cell
        self._slots = slots
        self._batches_to_skip = 0

    async def start(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start those that get their job's turn. The claims come in lock order, and have the slots that they
        need."""
        alone = await self.start_alone(claims)
        contested = without(claims, alone)
        if not contested:
            return alone
        return alone + await unless_overtaken(lambda: self.decide(contested, now))

    async def start_alone(self, claims: Sequence[Claim]) -> list[Claim]:
        """Start those whose job has nothing else in their way."""
        if self._batches_to_skip > 0:
            self._batches_to_skip -= 1
            return []
        claims = seated(claims)
        if not claims:
            return []
        statement = _START_ALONE.given(cell=self._cell, **keys_of(claims), **proof(self._slots, claims))
        try:
            started = mark_started(claims, await self._database.fetch(*statement))
        except UniqueViolation:
            return []  # another worker took one of the turns just now
        if len(claims) - len(started) > _CONTESTED_SHARE * len(claims):
            self._batches_to_skip = _BATCHES_WITHOUT_TRYING
        return started

    async def decide(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start the next execution of each job if its turn is free; decide about the others by their
        policy."""
        jobs = [claim.job_id for claim in claims]
        async with self._database.transaction() as session:
            # Workers that decide about these jobs are waited for first: the grant then sees what they did.
            await session.execute(*_HOLD_JOBS.given(cell=self._cell, job_ids=jobs))
            await session.execute(*_HOLD_TURNS.given(cell=self._cell, job_ids=jobs))
            await self._replace_older(session, claims)
            started, refused = await self._grant(session, seated(claims))
            await self._refuse(session, refused, now)
        return started

    async def _replace_older(self, session: Session, claims: Sequence[Claim]) -> None:
        if replacing := [claim for claim in claims if claim.overlap == "replace"]:
            await session.execute(*_REPLACE.given(cell=self._cell, **keys_of(replacing)))

    async def _grant(self, session: Session, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Returns those that have the turn and have started, and those that are refused."""
        rows = await session.fetch(
            *_GRANT.given(cell=self._cell, **keys_of(claims), **proof(self._slots, claims))
        )
        by_key = {(claim.job_id, claim.fire_at, claim.token): claim for claim in claims}
        asked, started = [], []
        for row in rows:
            claim = by_key[row["job_id"], row["fire_at"], row["token"]]
            if row["started_at"] is None:
                asked.append(claim)
            else:
                claim.started_at = row["started_at"]
                started.append(claim)
        return started, without(asked, started)

    async def _refuse(self, session: Session, refused: Sequence[Claim], now: Instant) -> None:
        """Another execution of the job has the turn: skip, wait, or wait alone."""
        # Once more: the holder may have begun after older executions had been looked for.
        await self._replace_older(session, refused)
        skipped = [claim for claim in refused if claim.overlap == "skip"]
        waiting = [claim for claim in refused if claim.overlap != "skip"]
        if skipped:
            finishes = [Finish(claim, "skipped", now, reason="overlap") for claim in skipped]
            await session.fetchrow(*_FINISH.given(cell=self._cell, **finish_columns(finishes)))
        if collapsing := [claim for claim in waiting if claim.overlap == "collapse"]:
            ids, fire_ats = [claim.job_id for claim in collapsing], [claim.fire_at for claim in collapsing]
            await session.execute(*_COLLAPSE.given(cell=self._cell, job_ids=ids, fire_ats=fire_ats))
        await park(session, self._cell, [(claim, now + LOOK_AGAIN) for claim in waiting], "turn")


def seated(claims: Sequence[Claim]) -> list[Claim]:
    """Without claims that have lost their slot again: it turned out meanwhile not to be the worker's."""
    return [claim for claim in claims if has_its_slot(claim)]
