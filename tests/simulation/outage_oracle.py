"""What the ledger should say, worked out the slow way and without the engine's own words.

Fire times come from a walk over UTC, minute by minute, that asks zoneinfo what the wall clock reads. What an
outage or a pause makes of them, and what executions of one job do to each other, is played through one event
after the other. Nothing here imports the engine's planning, schedules or statements.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
HORIZON = 30 * SECOND
REPLACED = "replaced"


@dataclass(frozen=True)
class Wall:
    """A cron expression as the sets of minutes and hours that it stands for."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    fixed: bool
    """Whether both fields begin with something else than a star."""

    def fires(self, zone: ZoneInfo, dst: str, first: int, last: int) -> list[int]:
        """Every fire time in [first, last]."""
        found = []
        instant = first - first % MINUTE
        moving = dst == "cron" and self.fixed
        while instant <= last:
            local = datetime.fromtimestamp(instant // SECOND, UTC).astimezone(zone)
            again = local.fold == 1 and (moving or dst == "once")
            if (self._reads(local) and not again) or (moving and self._swallowed(local, zone)):
                found.append(instant)
            instant += MINUTE
        return [instant for instant in found if instant >= first]

    def _reads(self, local: datetime) -> bool:
        return local.minute in self.minutes and local.hour in self.hours

    def _swallowed(self, local: datetime, zone: ZoneInfo) -> bool:
        """Whether the clock has just jumped over a reading that fires."""
        before = (local.astimezone(UTC) - timedelta(minutes=1)).astimezone(zone)
        reading = before.replace(tzinfo=None) + timedelta(minutes=1)
        while reading < local.replace(tzinfo=None):
            if self._reads(reading):
                return True
            reading += timedelta(minutes=1)
        return False


@dataclass(frozen=True)
class Rules:
    """A job's policies."""

    misfire: str = "fire_once"
    overlap: str = "allow"
    lookback: int = 60 * MINUTE
    most: int = 100
    pace: int = 0
    grace: int = MINUTE
    max_fires: int | None = None
    slot: int = 0
    """How long after each fire time the job runs."""
    blackouts: tuple[tuple[int, int], ...] = ()
    hold: bool = False


@dataclass(frozen=True)
class Trouble:
    """When the job could not fire, and how that is called. In an outage what runs is lost; in a pause it goes
    on.

    While only workers are away, or cannot get at the job's queue, planning goes on.
    """

    start: int
    end: int
    paused: bool = False
    planning: bool = False

    @property
    def planned_until(self) -> int:
        if self.planning:
            return self.end + HORIZON
        return self.start if self.paused else self.start + HORIZON


@dataclass
class Fate:
    """What became of a fire time."""

    state: str = "?"
    reason: str | None = None
    cause: str = "schedule"
    started: int | None = None
    attempt: int = 1


@dataclass
class Oracle:
    """One job from its first fire time to its last."""

    fires: Sequence[int]
    rules: Rules
    trouble: Trouble
    lasts: Callable[[int], int]
    fates: dict[int, Fate] = field(default_factory=dict)

    def ledger(self) -> dict[int, Fate]:
        """The fate of every fire time."""
        planned = self._decide(
            [time for time in self.fires if time <= self.trouble.planned_until], self._left(set())
        )
        Turn(self, planned).play()
        return dict(sorted(self.fates.items()))

    def is_missed(self, due: int) -> bool:
        """Whether it is too late for what was due then, now that trouble is over."""
        return due + self.rules.grace < self.trouble.end

    def come_back(self, returned: set[int]) -> list[tuple[int, int]]:
        """Trouble is over: which missed fire times run after all, and what is still to come; each with its
        instant.

        `returned` are those that a pause took back out of the queue, or that lay there for too long.
        """
        trouble, left = self.trouble, self._left(returned)
        if left == 0:
            return []
        undecided = [time for time in self.fires if time > trouble.planned_until or time in returned]
        missed = [time for time in undecided if self.is_missed(self._would_run(time))]
        late = self._late(missed, left)
        coming = self._decide([time for time in undecided if time not in missed], left - len(late))
        paced = [(trouble.end + place * self.rules.pace, time) for place, time in enumerate(late)]
        return paced + [(max(due, trouble.end), time) for due, time in coming]

    def _left(self, returned: set[int]) -> int:
        """How many more may fire."""
        if self.rules.max_fires is None:
            return len(self.fires)
        return self.rules.max_fires - sum(
            time not in returned and fate.state != "skipped" for time, fate in self.fates.items()
        )

    def _decide(self, times: list[int], left: int) -> list[tuple[int, int]]:
        """Those that fire, as long as the job may, with the instant at which each is due."""
        firing: list[tuple[int, int]] = []
        for time in times:
            if len(firing) == left:
                break
            due = self._due(time)
            self.fates[time] = Fate("skipped", "blackout") if due is None else Fate()
            firing += [] if due is None else [(due, time)]
        return firing

    def _late(self, missed: list[int], left: int) -> list[int]:
        rules, trouble = self.rules, self.trouble
        oldest = trouble.end - rules.lookback
        keep = min(left, {"skip": 0, "fire_once": 1, "fire_all": rules.most}[rules.misfire])
        able = [time for time in missed if (due := self._due(time)) is not None and due >= oldest]
        late = able[-keep:] if keep else []
        words = {"skip": "misfire_skipped", "fire_once": "misfire_superseded", "fire_all": "misfire_over_max"}
        for time in missed:
            due = self._due(time)
            reason = (
                "blackout" if due is None else "misfire_too_old" if due < oldest else words[rules.misfire]
            )
            if trouble.paused and reason != "blackout":
                reason = "paused"
            self.fates[time] = Fate(cause="catch_up") if time in late else Fate("skipped", reason)
        return late

    def _due(self, time: int) -> int | None:
        """When a fire time runs; None if a blackout drops it."""
        for start, end in self.rules.blackouts:
            if start <= time < end:
                last = max(fire for fire in self.fires if start <= fire < end)
                return end + self.rules.slot if self.rules.hold and time == last else None
        return time + self.rules.slot

    def _would_run(self, time: int) -> int:
        """The same, for those that give way too: under hold a blackout's fire times wait for its end
        together."""
        for start, end in self.rules.blackouts:
            if start <= time < end and self.rules.hold:
                return end + self.rules.slot
        return time + self.rules.slot


class Turn:
    """What executions of one job do to each other."""

    def __init__(self, oracle: Oracle, planned: Sequence[tuple[int, int]]) -> None:
        self._oracle = oracle
        self._trouble = oracle.trouble
        self._overlap = oracle.rules.overlap
        self._events: list[tuple[int, str, int]] = []
        self._running: dict[int, int] = {}
        """Fire time to the instant it ends."""
        self._waiting: set[int] = set()
        self._away: set[int] = set()
        """What a crash interrupted, or a pause took back."""
        self._stranded: set[int] = set()
        """What came due in an outage and was not started in time."""
        self._down = False
        for due, fire in planned:
            self._push(due, "due", fire)
        self._push(self._trouble.start, "down", 0)
        self._push(self._trouble.end, "up", 0)

    def play(self) -> None:
        while self._events:
            instant = self._events[0][0]
            due = set()
            while self._events and self._events[0][0] == instant:
                _, kind, fire = heapq.heappop(self._events)
                match kind:
                    case "due":
                        due.add(fire)
                    case "down":
                        self._go_down()
                    case "up":
                        self._come_up(instant)
                    case "end" if self._running.get(fire) == instant:
                        del self._running[fire]
                        self._fate(fire).state = "succeeded"
            self._waiting |= due
            if self._down and not self._trouble.paused:
                self._stranded |= {fire for fire in due if self._oracle.is_missed(instant)}
            if not self._down or self._trouble.paused:
                self._decide(instant)

    def _go_down(self) -> None:
        self._down = True
        if self._trouble.paused:
            coming = {fire for _, kind, fire in self._events if kind == "due"}
            self._away, self._waiting = self._waiting | coming, set()
            self._events = [event for event in self._events if event[1] != "due"]
            heapq.heapify(self._events)
        else:
            self._away, self._running = set(self._running), {}

    def _come_up(self, instant: int) -> None:
        self._down = False
        if not self._trouble.paused:  # what was lost is tried again, and still has the turn
            for fire in self._away:
                self._fate(fire).attempt = 2
                self._start(fire, instant)
        returned = self._away if self._trouble.paused else self._stranded
        self._waiting -= self._stranded
        for when, fire in self._oracle.come_back(returned):
            self._push(when, "due", fire)

    def _decide(self, instant: int) -> None:
        asking, self._waiting = sorted(self._waiting), set()
        if not asking:
            return
        if self._overlap == "allow":
            for fire in asking:
                self._start(fire, instant)
            return
        if self._overlap == "replace":
            self._replace(asking, instant)
            return
        if not self._running:
            self._start(asking.pop(0), instant)
        match self._overlap:
            case "skip":
                self._skip(asking)
            case "collapse":
                self._skip(asking[:-1])
                self._waiting = set(asking[-1:])
            case "queue":
                self._waiting = set(asking)

    def _replace(self, asking: list[int], instant: int) -> None:
        newest = asking.pop()
        for fire in [*asking, *self._running]:
            fate = self._fate(fire)
            fate.state, fate.reason = "cancelled", REPLACED
        self._running = {}
        self._start(newest, instant)

    def _skip(self, fires: Sequence[int]) -> None:
        for fire in fires:
            fate = self._fate(fire)
            fate.state, fate.reason = "skipped", "overlap"

    def _start(self, fire: int, instant: int) -> None:
        self._fate(fire).started = instant
        self._running[fire] = instant + self._oracle.lasts(fire)
        self._push(self._running[fire], "end", fire)

    def _push(self, instant: int, kind: str, fire: int) -> None:
        heapq.heappush(self._events, (instant, kind, fire))

    def _fate(self, fire: int) -> Fate:
        return self._oracle.fates[fire]
