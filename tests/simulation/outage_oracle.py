"""What the ledger should say, worked out the slow way and without the engine's own words.

Fire times come from a walk over UTC, minute by minute, that asks zoneinfo what the wall clock reads. What an outage
or a pause makes of them, and what executions of one job do to each other, is played through one event after the
other. Nothing here imports the engine's planning, schedules or statements.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
LIVE_FOR = MINUTE  # how late a fire time may be planned and still be live
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
    max_fires: int | None = None


@dataclass(frozen=True)
class Trouble:
    """When the job could not fire, and how that is called. In an outage what runs is lost; in a pause it goes on."""

    start: int
    end: int
    paused: bool = False

    @property
    def planned_until(self) -> int:
        return self.start if self.paused else self.start + HORIZON

    @property
    def live_from(self) -> int:
        return self.end if self.paused else self.end - LIVE_FOR


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
        times = list(self.fires)
        before = [time for time in times if time <= self.trouble.planned_until]
        missed = [time for time in times if self.trouble.planned_until < time < self.trouble.live_from]
        after = [time for time in times if time > self.trouble.planned_until and time >= self.trouble.live_from]
        left = self.rules.max_fires
        before, left = _take(before, left)
        self.fates = {time: Fate() for time in before}
        late = self._late(missed, left, before)
        left = None if left is None else left - len(late)
        after, left = _take(after, left)
        self.fates |= {time: Fate() for time in after}
        if self.rules.max_fires is not None and left == 0:
            last = max(time for time, fate in self.fates.items() if fate.state != "skipped")
            self.fates = {time: fate for time, fate in self.fates.items() if time <= last}
        self._play(before, late, after)
        return dict(sorted(self.fates.items()))

    def _late(self, missed: list[int], left: int | None, before: list[int]) -> list[int]:
        """Which of the missed ones run after all."""
        if left == 0:
            return []
        if self.trouble.paused:
            missed = missed + [time for time in before if self.trouble.start < time]
        oldest = self.trouble.live_from - self.rules.lookback
        keep = {"skip": 0, "fire_once": 1, "fire_all": self.rules.most}[self.rules.misfire]
        keep = keep if left is None else min(keep, left)
        young = [time for time in missed if time >= oldest]
        late = young[len(young) - keep :] if keep else []
        words = {"skip": "misfire_skipped", "fire_once": "misfire_superseded", "fire_all": "misfire_over_max"}
        for time in missed:
            if time in late:
                self.fates[time] = Fate(cause="catch_up")
            else:
                reason = "misfire_too_old" if time < oldest else words[self.rules.misfire]
                self.fates[time] = Fate("skipped", "paused" if self.trouble.paused else reason)
        return late

    def _play(self, before: list[int], late: list[int], after: list[int]) -> None:
        trouble = self.trouble
        arrivals = [(time, time) for time in before]
        arrivals += [(trouble.end + place * self.rules.pace, time) for place, time in enumerate(late)]
        arrivals += [(max(time, trouble.end) if time < trouble.end else time, time) for time in after]
        Floor(self, arrivals).play()


class Floor:
    """What executions of one job do to each other."""

    def __init__(self, oracle: Oracle, arrivals: list[tuple[int, int]]) -> None:
        self._oracle = oracle
        self._overlap = oracle.rules.overlap
        self._events: list[tuple[int, int, str, int]] = []
        self._running: dict[int, int] = {}
        """Fire time to the instant it ends."""
        self._waiting: set[int] = set()
        self._held: set[int] = set()
        trouble = oracle.trouble
        for instant, fire in arrivals:
            away = not trouble.paused and trouble.start < instant < trouble.end
            heapq.heappush(self._events, (trouble.end if away else instant, 2, "due", fire))
        heapq.heappush(self._events, (trouble.start, 3, "down", 0))
        heapq.heappush(self._events, (trouble.end, 0, "up", 0))

    def play(self) -> None:
        for instant, batch in self._instants():
            for kind, fire in batch:
                if kind == "end" and self._running.get(fire) == instant:
                    del self._running[fire]
                    self._fate(fire).state = "succeeded"
                elif kind == "down":
                    self._down()
                elif kind == "up":
                    self._up(instant)
            due = sorted(fire for kind, fire in batch if kind == "due")
            self._decide(due, instant)

    def _instants(self) -> Iterator[tuple[int, list[tuple[str, int]]]]:
        while self._events:
            instant = self._events[0][0]
            batch = []
            while self._events and self._events[0][0] == instant:
                _, _, kind, fire = heapq.heappop(self._events)
                batch.append((kind, fire))
            yield instant, batch

    def _down(self) -> None:
        trouble = self._oracle.trouble
        if trouble.paused:  # what waits goes back to the schedule, which decides again when the pause is over
            assert not self._waiting, "a pause while something waits is a story of its own"
            return
        self._held = set(self._running)
        self._running = {}

    def _up(self, instant: int) -> None:
        """What was lost is tried again, and still has the floor."""
        for fire in self._held:
            self._fate(fire).attempt = 2
            self._start(fire, instant)
        self._held = set()

    def _decide(self, due: list[int], instant: int) -> None:
        trouble = self._oracle.trouble
        if not trouble.paused and trouble.start <= instant < trouble.end:
            self._waiting |= set(due)
            return
        if self._overlap == "allow":
            for fire in due:
                self._start(fire, instant)
            return
        asking = sorted(self._waiting | set(due))
        if not asking:
            return
        self._waiting = set()
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
        fate = self._fate(fire)
        fate.started = instant
        end = instant + self._oracle.lasts(fire)
        self._running[fire] = end
        heapq.heappush(self._events, (end, 1, "end", fire))

    def _fate(self, fire: int) -> Fate:
        return self._oracle.fates[fire]


def _take(times: list[int], left: int | None) -> tuple[list[int], int | None]:
    return (times, None) if left is None else (times[:left], left - len(times[:left]))
