"""Which fires of a job are to come: as they will be planned, unless something changes until then."""

from collections.abc import Iterable
from uuid import UUID

from tocsin.domain.blackout import Range
from tocsin.domain.instant import Instant
from tocsin.domain.planning import plan, terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule, rule_of

_PLAIN = Policies()


def expected(
    schedule: Schedule,
    job_id: UUID,
    fire_count: int,
    cursor: Instant,
    until: Instant,
    most: int,
    calendars: Iterable[Range] = (),
) -> tuple[list[Instant], Instant]:
    """Fire times from the cursor to before `until`, `most` at most, and up to which instant that is all of
    them."""
    if cursor >= until:
        return [], until
    terms = terms_of(schedule, _PLAIN, job_id, fire_count, calendars)
    found = plan(rule_of(schedule), cursor, terms, now=cursor, until=until - 1, limit=most)
    reached = until if found.cursor is None or found.cursor >= until else found.cursor
    return [fire.at for fire in found.fires], reached
