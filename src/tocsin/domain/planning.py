"""Turn a cursor into executions: which fire times run, which are skipped and why, and where the cursor goes.

Pure: the planner feeds it a job and writes down the answer. Every fire time from the cursor up to `until` is
decided exactly once, as a fire or as part of a skip, and the first undecided one becomes the new cursor. A
call decides a bounded number of fire times, so a job that was down for a month costs one bounded step after
another and the cursor itself remembers how far the work has come.

Fire times whose grace is over were missed. Which of them still run, together with executions that were
planned in time and have not started (`Terms.planned`), `domain.misfire` says; the others are skipped. Fire
times inside a blackout are dropped, or held until it ends. Due is a fire time with its jitter, or at the end
of the blackout that holds it: until then it can still run on time.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import msgspec

from tocsin.domain.blackout import NO_BLACKOUTS, Blackouts, Range
from tocsin.domain.instant import LATEST, Instant, Span, parse_span
from tocsin.domain.misfire import Dropped, Late, Missed, judge, oldest_that_runs, still_run, why_not
from tocsin.domain.policy import Misfire, Policies
from tocsin.domain.schedule import Every, Rule, Schedule, blackout_dates, offset_of

DEFAULT_LIMIT: Final = 20_000
_SLICE: Final = 2500  # more than the most that a misfire policy keeps


class Fire(msgspec.Struct, frozen=True):
    """A fire time that becomes an execution. `late` ones were missed and run in the catch-up lane."""

    at: Instant
    due_at: Instant
    """When it should run: the fire time, plus the job's jitter offset, or the end of a blackout that holds
    it."""
    wait: Span = 0
    """How long after being planned it may run at the earliest: the pace of catching up."""
    late: bool = False


class Skip(msgspec.Struct, frozen=True):
    """A run of fire times that do not become executions, for one reason."""

    first: Instant
    last: Instant
    count: int
    reason: str


class Plan(msgspec.Struct, frozen=True):
    """What to write for one job. A `cursor` of None means that the schedule is exhausted."""

    fires: list[Fire]
    skips: list[Skip]
    cursor: Instant | None
    late: list[Late] = []
    dropped: list[Dropped] = []
    """What becomes of executions that were planned before and have been missed."""

    @property
    def decided(self) -> int:
        """How many fire times it decides."""
        return len(self.fires) + sum(skip.count for skip in self.skips)

    def followed_by(self, later: "Plan") -> "Plan":
        """This step and the next as one; a run of skips that the first one ends with goes on."""
        skips, more = list(self.skips), list(later.skips)
        last_fire = max((fire.at for fire in self.fires), default=None)
        ends_with_skips = bool(skips) and (last_fire is None or last_fire < skips[-1].first)
        if more and ends_with_skips and skips[-1].reason == more[0].reason:
            first, rest = skips.pop(), more.pop(0)
            skips.append(Skip(first.first, rest.last, first.count + rest.count, first.reason))
        return Plan(
            self.fires + later.fires,
            skips + more,
            later.cursor,
            self.late + later.late,
            self.dropped + later.dropped,
        )


class Terms(msgspec.Struct, frozen=True):
    """What a job's definition says about its fire times, apart from the rule itself."""

    misfire: Misfire = Misfire()
    fires_left: int | None = None
    """What max_fires still allows."""
    offset: Span = 0
    blackouts: Blackouts = NO_BLACKOUTS
    decided: Blackouts = NO_BLACKOUTS
    """Fire times that were decided before the cursor moved back to where it is: they are left alone."""
    missed_reason: str | None = None
    """Why fire times were missed, when it is known better than the misfire policy would say it (`paused`)."""
    planned: tuple[Missed, ...] = ()
    """Executions from before the cursor that have not started and were missed. They are decided together with
    the rest."""

    def after(self, done: Plan) -> "Terms":
        """The terms on which planning goes on after a step."""
        if self.fires_left is None:
            return self
        left = self.fires_left - len(done.fires) + len(done.dropped)
        return msgspec.structs.replace(self, fires_left=left)


def terms_of(
    schedule: Schedule,
    policies: Policies,
    job_id: UUID,
    fire_count: int,
    calendars: Iterable[Range] = (),
    missed_reason: str | None = None,
) -> Terms:
    """The terms of a job, with the ranges of the calendars it names."""
    left = None if schedule.max_fires is None else max(0, schedule.max_fires - fire_count)
    blackouts = NO_BLACKOUTS
    if schedule.exclude is not None:
        blackouts = Blackouts([*blackout_dates(schedule), *calendars], schedule.exclude.policy)
    return Terms(policies.misfire, left, offset_of(schedule, job_id), blackouts, missed_reason=missed_reason)


def plan(
    rule: Rule,
    cursor: Instant,
    terms: Terms,
    *,
    now: Instant,
    until: Instant,
    limit: int = DEFAULT_LIMIT,
) -> Plan:
    """Decide the fire times from `cursor` to `until`."""
    step = _Step(rule, terms, now)
    next_fire: Instant | None = cursor
    if step.is_missed(cursor):
        next_fire = step.catch_up(cursor, limit)
    if next_fire is not None and not step.is_missed(next_fire):
        next_fire = step.go_on(next_fire, until, limit)
    if step.exhausted:
        next_fire = None
    return Plan(step.fires, step.skips.runs, next_fire, step.late, step.dropped)


def plan_in_slices(
    rule: Rule,
    cursor: Instant,
    terms: Terms,
    *,
    now: Instant,
    until: Instant,
    limit: int | None = DEFAULT_LIMIT,
) -> Iterator[Plan]:
    """The same, some milliseconds at a time, so that the caller can attend to other things in between.

    Each slice is the plan so far; the last one is the whole plan, or what `limit` fire times came to.
    """
    done = plan(rule, cursor, terms, now=now, until=until, limit=_SLICE)
    while done.cursor is not None and done.cursor <= until and (limit is None or done.decided < limit):
        yield done
        more = plan(rule, done.cursor, terms.after(done), now=now, until=until, limit=_SLICE)
        done = done.followed_by(more)
    yield done


class _Step:
    """One call's worth of decisions."""

    def __init__(self, rule: Rule, terms: Terms, now: Instant) -> None:
        self._rule = rule
        self._terms = terms
        self._now = now
        self._live_from = terms.misfire.live_from(now)
        self._held: set[Instant] = set()
        self.fires: list[Fire] = []
        self.late: list[Late] = []
        self.dropped: list[Dropped] = []
        self.skips = _Skips()

    def due(self, fire: Instant) -> Instant:
        """When a fire time runs, if it runs."""
        end = self._terms.blackouts.end_of(fire) if self._terms.blackouts.hold else None
        return min((fire if end is None else end) + self._terms.offset, LATEST)

    def catch_up(self, cursor: Instant, limit: int) -> Instant | None:
        """Decide missed fire times. Returns the first one left undecided."""
        missed, fire = self._walk(self._skip_too_old(cursor), limit)
        kept = self._kept(missed, fire)
        while fire is not None and self.is_missed(fire) and kept and kept[0] == missed[0]:
            # Nothing can be left undecided without standing still: look on until later ones push the first
            # one out.
            further, fire = self._walk(fire, limit)
            missed += further
            kept = self._kept(missed, fire)
        if fire is not None and self.is_missed(fire):
            # There are more than one step can hold: those that later ones may yet push out stay undecided.
            fire = kept[0] if kept else fire
            missed = [time for time in missed if time < fire]
            kept = []
        else:
            self.late, self.dropped = judge(self._terms.planned, kept, self._terms.misfire, self._now)
        self._write_down(missed, kept)
        return fire

    def _walk(self, fire: Instant | None, limit: int) -> tuple[list[Instant], Instant | None]:
        """Missed fire times from `fire` on, at most `limit`, and the one that follows."""
        missed: list[Instant] = []
        while fire is not None and self.is_missed(fire) and len(missed) < limit:
            missed.append(fire)
            fire = self._rule.next_fire(fire)
        return missed, fire

    def is_missed(self, fire: Instant) -> bool:
        """Whether its grace is over."""
        return self.due(fire) < self._live_from

    def go_on(self, fire: Instant, until: Instant, limit: int) -> Instant | None:
        """Decide fire times that are still to come, or came due just now."""
        following: Instant | None = fire
        for _ in range(limit):
            if following is None or following > until or self.exhausted:
                break
            fire, following = following, self._rule.next_fire(following)
            if self._decided(fire):
                self.skips.cut()
            elif not self._blacked_out(fire) or self._is_held(fire, following):
                self._fire(Fire(fire, self.due(fire)))
            else:
                self.skips.add(fire, 1, fire, "blackout")
        return following

    def _skip_too_old(self, cursor: Instant) -> Instant | None:
        """Leave out what no policy can bring back, in one go where the rule allows arithmetic."""
        oldest = min(oldest_that_runs(self._terms.misfire, self._now), self._live_from) - self._terms.offset
        if cursor >= oldest or not isinstance(self._rule, Every):
            return cursor
        if self._terms.decided or self._terms.blackouts:
            return cursor
        count = self._rule.count(cursor, oldest)
        last = cursor + (count - 1) * self._rule.interval
        self.skips.add(cursor, count, last, self._reason("misfire_too_old"))
        return self._rule.next_fire(last)

    def _kept(self, missed: list[Instant], following: Instant | None) -> list[Instant]:
        """Which of the missed fire times still run: the latest few that nothing else forbids."""
        if self._terms.blackouts.hold:
            pairs = zip(missed, [*missed[1:], following], strict=False)
            self._held = {time for time, after in pairs if self._is_held(time, after)}
        able = [
            Missed(time, self.due(time))
            for time in missed
            if not self._blacked_out(time) and not self._decided(time)
        ]
        left = self._terms.fires_left
        if following is None or not self.is_missed(following):
            # All that was missed is known: what was planned of it stands before the rest.
            able = [*self._terms.planned, *able]
            left = None if left is None else left + len(self._terms.planned)
        return still_run(able, self._terms.misfire, self._now, left)

    def _write_down(self, missed: list[Instant], kept: list[Instant]) -> None:
        pace = parse_span(self._terms.misfire.pace, "misfire.pace")
        place_of = {time: place for place, time in enumerate(kept)}
        for time in missed:
            if self._decided(time):
                self.skips.cut()
            elif time in place_of:
                self._fire(Fire(time, self.due(time), place_of[time] * pace, late=True))
            else:
                self.skips.add(time, 1, time, self._why(time))

    def _fire(self, fire: Fire) -> None:
        self.fires.append(fire)
        self.skips.cut()

    def _why(self, time: Instant) -> str:
        """Why a missed fire time does not run."""
        if self._blacked_out(time):
            return "blackout"
        return self._reason(why_not(Missed(time, self.due(time)), self._terms.misfire, self._now))

    def _reason(self, reason: str) -> str:
        return self._terms.missed_reason or reason

    def _blacked_out(self, time: Instant) -> bool:
        return self._terms.blackouts.end_of(time) is not None and time not in self._held

    def _is_held(self, time: Instant, following: Instant | None) -> bool:
        """Whether it is the one fire time of a blackout that runs when the blackout ends."""
        end = self._terms.blackouts.end_of(time) if self._terms.blackouts.hold else None
        return end is not None and (following is None or following >= end)

    def _decided(self, time: Instant) -> bool:
        return self._terms.decided.end_of(time) is not None

    @property
    def exhausted(self) -> bool:
        """Whether the job may fire no more. A dropped fire time does not count as a fire."""
        left = self._terms.fires_left
        return left is not None and len(self.fires) >= left + len(self.dropped)


class _Skips:
    """Gathers neighbouring skips of one reason into runs."""

    def __init__(self) -> None:
        self.runs: list[Skip] = []
        self._open = False

    def cut(self) -> None:
        """The fire time that follows was not skipped: what comes after it is another run."""
        self._open = False

    def add(self, first: Instant, count: int, last: Instant, reason: str) -> None:
        if not count:
            return
        if self._open and self.runs[-1].reason == reason:
            run = self.runs[-1]
            self.runs[-1] = Skip(run.first, last, run.count + count, reason)
        else:
            self.runs.append(Skip(first, last, count, reason))
        self._open = True
