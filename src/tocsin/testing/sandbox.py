"""The sandbox of a test: a fleet on virtual time, and what a test says to it.

`advance` lets time go from one instant at which something is due to the next. At each of them everything
runs until it is quiet. No time passes while a task runs, unless the test says how long it takes (`slow`).
"""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import HOUR, MILLISECOND, Instant, parse_span, to_datetime
from tocsin.domain.protocol import TaskClaim, TaskSettlement
from tocsin.sdk import transactions
from tocsin.sdk.app import App
from tocsin.sdk.client.sync import Client
from tocsin.sdk.outcomes import TimedOut, failed
from tocsin.sdk.task import NamedTask, Task
from tocsin.testing.attempts import Attempts, LoopThread, claim_of
from tocsin.testing.database import drop_database, new_database
from tocsin.testing.faults import Faults, error_maker, instant_of, next_clock_change
from tocsin.testing.fleet import KEY, LEASE, LOGIN, Fleet, SteadyClock
from tocsin.testing.ledger import OVER, Entry, Ledger, entry_of
from tocsin.testing.transport import SandboxTransport
from tocsin.testing.virtual_time import START, VirtualLoop
from tocsin.testing.waiting import WAITING, Waiting, rows_in, waiting_of

P = ParamSpec("P")
R = TypeVar("R")
Lane = tuple[str, str]
_URL: Final = "http://sandbox.invalid"
_TURNS_AT_AN_INSTANT: Final = 10_000


class _Running(msgspec.Struct, frozen=True):
    """An attempt that takes its time: when it ends, and how."""

    until: Instant
    claim: TaskClaim
    settlement: TaskSettlement
    lane: Lane


class Sandbox:
    """What the fixture `tocsin` is. Its methods are called by one thread at a time: the test's."""

    def __init__(self, server_url: str, loop: LoopThread, clock: SteadyClock) -> None:
        self._server_url = server_url
        self._loop = loop
        self._clock = clock
        self.url = loop.run(new_database(server_url))
        self._fleet: Fleet = loop.run(Fleet.open(self.url, clock))
        self._clean = True
        self._begin()

    @classmethod
    def open(cls, server_url: str) -> "Sandbox":
        """A sandbox in a database of its own on this server."""
        clock = SteadyClock(START)
        return cls(server_url, LoopThread(VirtualLoop(clock), "tocsin sandbox"), clock)

    def close(self) -> None:
        """Remove it."""
        self._attempts.close()
        self._loop.run(self._fleet.close())
        self._loop.run(drop_database(self._server_url, self.url))
        self._loop.close()

    def reset(self) -> None:
        """Everything is deleted, and the clock goes to its first instant."""
        self._attempts.close()
        self._loop.run(self._fleet.reset())
        self._begin()

    def _begin(self) -> None:
        self.apps: dict[str, App] = {}
        self.faults = Faults()
        self.client = Client(
            _URL,
            KEY,
            transport=SandboxTransport(lambda *asked: self._loop.run(self._fleet.ask(*asked)), self.drain),
        )
        self._attempts = Attempts()
        self._running: list[_Running] = []
        self._seen: set[tuple[str, datetime]] = set()
        self._driving = threading.Lock()

    def adopt(self, replace: Callable[[object, str, object], None]) -> None:
        """Let every app of this process enqueue here. `replace` is `setattr` of a fixture that undoes it."""
        replace(App, "client", property(self.client_of))
        replace(transactions, "new_id", lambda: new_job_id(self._clock.now()))

    @property
    def database_url(self) -> str:
        """Where an application under test connects that enqueues in its own transactions: as a login that is
        bound to the sandbox's tenant, and may have tables of its own."""
        parts = urlsplit(self.url)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{LOGIN}@{place}"))

    @property
    def now(self) -> datetime:
        """The virtual time, in UTC."""
        return to_datetime(self._clock.now())

    def serve(self, *apps: App) -> None:
        """Run the tasks of these apps. An app that enqueued something is served in any case."""
        for app in apps:
            self.apps[app.name] = app

    def client_of(self, app: App) -> Client:
        """The client by which an app enqueues its tasks here."""
        self.serve(app)
        return self.client

    # Time

    def advance(self, span: str | float | None = None, *, to: str | datetime | None = None) -> Ledger:
        """Let time pass: a span such as ``3d``, or until an instant. Everything that is due meanwhile runs,
        in order, at its virtual instant. Returns what came to its end."""
        if (span is None) == (to is None):
            raise Refused("give a span, or an instant with `to`", field="span")
        now = self._clock.now()
        until = now + parse_span(span, "span") if span is not None else instant_of(to or "", now, "to")
        if until < now:
            raise Refused("time does not go back", field="to")
        return self._drive(until)

    def drain(self) -> Ledger:
        """Run everything that is due now, and what follows from it without any waiting."""
        return self._drive(self._clock.now())

    def clock_change(self, time_zone: str) -> datetime:
        """Go on until an hour before the clocks of a time zone are next put forward or back. Returns when
        they are."""
        at = next_clock_change(time_zone, self._clock.now() + HOUR)
        self._drive(at - HOUR)
        return to_datetime(at)

    # Faults

    def fail(
        self,
        task: "Task[..., Any] | NamedTask | str",
        times: int = 1,
        error: type[BaseException] | BaseException = RuntimeError,
    ) -> None:
        """Let the next attempts at a task fail with this error, without running it."""
        self.faults.fail(_name_of(task), times, error_maker(error))

    def slow(self, task: "Task[..., Any] | NamedTask | str", by: str | float) -> None:
        """Let each attempt at a task take so long. An attempt longer than its timeout times out."""
        self.faults.slow(_name_of(task), parse_span(by, "by"))

    def lose_worker(self, at: str | datetime | None = None) -> None:
        """Let the worker vanish, now or at an instant, with all that it runs then; if it runs nothing, with
        what it begins next. Another worker is there at once."""
        now = self._clock.now()
        self.faults.vanishes_at = now if at is None else instant_of(at, now, "at")

    def outage(self, begin: str | datetime, end: str | datetime) -> None:
        """Let nothing be planned or run between two instants. A time of the day, ``02:40``, is the next such
        time in UTC."""
        start = instant_of(begin, self._clock.now(), "begin")
        self.faults.outage(start, instant_of(end, start, "end"))

    # What is enqueued, and what happened

    def waiting(self, task: "Task[..., Any] | NamedTask | str", connection: Any = None) -> list[Waiting]:
        """Calls of a task that are enqueued and not over, those that run first before others. With a
        connection to `database_url`, as it sees them: what it has enqueued and not committed is there."""
        route = f"task:{_name_of(task)}"
        if connection is None:
            rows = self._loop.run(self._fleet.fetch(WAITING.format(route="$1"), route))
        else:
            rows = rows_in(connection, route)
        return [waiting_of(tuple(row)) for row in rows]

    def assert_enqueued(
        self,
        task: "Task[..., Any] | NamedTask | str",
        *,
        within: str | float | None = None,
        connection: Any = None,
        **payload: Any,
    ) -> Waiting:
        """Fail unless a call of a task is enqueued that has these parameters, among others, and runs within a
        span; with a connection, as its open transaction sees it. Returns the first such call."""
        found = self._enqueued(task, within, payload, connection)
        if not found:
            raise AssertionError(f"{_call(task, within, payload)} is not enqueued; {self._told(task)}")
        return found[0]

    def refute_enqueued(
        self,
        task: "Task[..., Any] | NamedTask | str",
        *,
        within: str | float | None = None,
        connection: Any = None,
        **payload: Any,
    ) -> None:
        """Fail if a call of a task is enqueued that has these parameters and runs within a span."""
        if self._enqueued(task, within, payload, connection):
            raise AssertionError(f"{_call(task, within, payload)} is enqueued; {self._told(task)}")

    def ledger(self) -> Ledger:
        """Everything that came to its end since the test began."""
        return Ledger(self._entries())

    def run(self, task: "Task[P, R]", *args: P.args, **kwargs: P.kwargs) -> R:
        """One attempt at a task, here and now, with a context of its own: `current()` is there, the app's
        lifespan and middleware are. What it raises is raised; nothing is enqueued."""
        claim = claim_of(task, task.signature.payload(args, kwargs), self._clock.now())
        value: R = self._attempts.value(task, claim)
        return value

    # How time passes

    def _drive(self, until: Instant) -> Ledger:
        """Go from instant to instant. A task that asks for time to pass, from inside of it, is refused."""
        if not self._driving.acquire(blocking=False):
            raise Refused("time passes already: a task cannot let it pass")
        try:
            while True:
                if (back := self.faults.away_until(self._clock.now())) is not None:
                    if back > until:
                        break
                    self._move(back)
                next_at = self._run_until_quiet()
                if next_at is None or next_at > until:
                    break
                self._move(next_at)
            self._move(until)
        finally:
            self._driving.release()
        return self._new_entries()

    def _move(self, to: Instant) -> None:
        self._loop.run(self._fleet.move(to))

    def _run_until_quiet(self) -> Instant | None:
        """Let everything run that is due at this instant. Returns when something is due next."""
        for _ in range(_TURNS_AT_AN_INSTANT):
            now = self._clock.now()
            self._vanish_if_due(now)
            done = self._end_running(now)
            look = self._loop.run(self._fleet.look())
            done += self._loop.run(self._fleet.tidy(look))
            due = [lane for lane, at in look.lanes.items() if at <= now and lane[0] in self._tasks()]
            done += self._begin_attempts(due) if due else 0
            if not done:
                times = (
                    look.next_after(now),
                    self._next_end(),
                    self._next_beat(now),
                    self.faults.next_outage(now),
                )
                return min((at for at in times if at is not None), default=None)
        raise AssertionError(
            f"it does not become quiet at {self.now}: a task enqueues itself without any delay?"
        )

    def _begin_attempts(self, due: list[Lane]) -> int:
        """Claim what is due, and run it. Returns how many attempts were begun."""
        begun = 0
        for lane in due:
            claims = self._loop.run(self._fleet.claim([lane]))
            begun += len(claims)
            if (
                self.faults.vanishes_at is not None
                and claims
                and self.faults.vanishes_at <= self._clock.now()
            ):
                self.faults.vanishes_at = None
                continue  # never settled: they come back when their lease is over
            settlements = [one for claim in claims if (one := self._attempt(claim, lane)) is not None]
            if settlements:
                self._loop.run(self._fleet.settle([lane], settlements))
        return begun

    def _attempt(self, claim: TaskClaim, lane: Lane) -> TaskSettlement | None:
        """Make an attempt. None: it takes its time."""
        task = self._tasks()[claim.task]
        error = self.faults.error_of(claim.task)
        if error is not None:
            settlement = failed(claim, error, task.options.retry.never, task.options.retry.on)
        else:
            settlement = self._attempts.settle(task, claim)
        takes = self.faults.takes(claim.task)
        if not takes:
            return settlement
        most = claim.timeout_ms * MILLISECOND
        if takes > most:
            takes, settlement = most, failed(claim, TimedOut("its time is over"), ())
        self._running.append(_Running(self._clock.now() + takes, claim, settlement, lane))
        return None

    def _end_running(self, now: Instant) -> int:
        """Settle what has taken its time, and hold on to the rest."""
        over = [one for one in self._running if one.until <= now]
        for one in over:
            self._loop.run(self._fleet.settle([one.lane], [one.settlement]))
        self._running = [one for one in self._running if one.until > now]
        gone: set[str] = set()
        for lane in {one.lane for one in self._running}:
            held = [one.claim for one in self._running if one.lane == lane]
            gone |= self._loop.run(self._fleet.beat([lane], held))
        for one in [one for one in self._running if one.claim.id in gone]:
            cancelled = msgspec.structs.replace(one.settlement, verdict="cancelled", result=None)
            self._loop.run(self._fleet.settle([one.lane], [cancelled]))
            self._running.remove(one)
        return len(over)

    def _vanish_if_due(self, now: Instant) -> None:
        if self.faults.vanishes_at is not None and self.faults.vanishes_at <= now and self._running:
            self._running, self.faults.vanishes_at = [], None

    def _next_end(self) -> Instant | None:
        return min((one.until for one in self._running), default=None)

    def _next_beat(self, now: Instant) -> Instant | None:
        return now + LEASE // 3 if self._running else None

    def _tasks(self) -> dict[str, Task[Any, Any]]:
        return {name: task for app in self.apps.values() for name, task in app.tasks.items()}

    # What is looked at

    def _enqueued(
        self, task: Any, within: str | float | None, payload: dict[str, Any], connection: Any
    ) -> list[Waiting]:
        wanted = msgspec.to_builtins(payload)
        until = None if within is None else self._clock.now() + parse_span(within, "within")
        return [
            one
            for one in self.waiting(task, connection)
            if all(
                isinstance(one.payload, dict) and one.payload.get(name) == value
                for name, value in wanted.items()
            )
            and (until is None or one.run_at <= to_datetime(until))
        ]

    def _told(self, task: Any) -> str:
        waiting = self.waiting(task)
        if not waiting:
            return "no call of it is"
        return "its calls are " + ", ".join(
            f"{one.payload} at {one.run_at:%Y-%m-%d %H:%M:%S}" for one in waiting
        )

    def _entries(self) -> list[Entry]:
        return [entry_of(row) for row in self._loop.run(self._fleet.fetch(OVER, 0))]

    def _new_entries(self) -> Ledger:
        new = [one for one in self._entries() if (one.id, one.finished_at) not in self._seen]
        self._seen.update((one.id, one.finished_at) for one in new)
        return Ledger(new)


def _name_of(task: Any) -> str:
    return task if isinstance(task, str) else str(task.name)


def _call(task: Any, within: str | float | None, payload: dict[str, Any]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in payload.items())
    return f"{_name_of(task)}({given})" + ("" if within is None else f" within {within}")
