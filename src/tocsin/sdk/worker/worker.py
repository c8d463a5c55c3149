"""A remote worker: claims tasks of its app over the protocol, runs them, and says what became of them.

Three threads talk to the gateway, each over a connection of its own. One asks for work, and takes along what
has ended. One settles what ends while that request is parked. One heartbeats (`beats`). A worker that finds
no gateway when it is entered goes on trying.

What may be lost: nothing. A claim that was not settled passes its deadline, and another worker tries again.
"""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

import tocsin
from tocsin.domain.errors import NotFound, Refused, TocsinError, Unauthorized, Unavailable
from tocsin.domain.protocol import (
    Ask,
    ClaimName,
    Given,
    NewWorker,
    Settled,
    TaskClaim,
    TaskError,
    TaskOffer,
    TaskSettlement,
)
from tocsin.sdk.client.core import Gone
from tocsin.sdk.depends import Shared
from tocsin.sdk.outcomes import ClaimLost
from tocsin.sdk.worker.attempt import Attempt
from tocsin.sdk.worker.beats import EXIT_STRAYS, Beats, release
from tocsin.sdk.worker.hand import Hand
from tocsin.sdk.worker.link import Link, persistently
from tocsin.sdk.worker.loop_watch import LoopWatch
from tocsin.sdk.worker.membership import Membership
from tocsin.sdk.worker.processes import ProcessRunner, Wear
from tocsin.sdk.worker.runners import AsyncRunner, Runner, ThreadRunner
from tocsin.sdk.worker.telling import Telling

if TYPE_CHECKING:
    from tocsin.sdk.app import App

EXIT_AT_ONCE: Final = 130
"""The exit code of a worker that was told a third time to end."""
_WAIT_MS: Final = 20_000
_SETTLING: Final = 25.0
"""Seconds for telling what became of attempts, at the end."""
_POKE_AHEAD: Final = 1_000_000
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_SIGNALS_UNTIL_NOW: Final = 3
_log = logging.getLogger("tocsin.worker")


class Worker:
    """Runs the tasks of one app. To be entered, or served."""

    def __init__(
        self,
        app: "App",
        *,
        concurrency: int,
        processes: int,
        wear: Wear,
        queues: tuple[str, ...] | None,
        name: str | None,
        revision: str | None,
        lease: str,
        grace: float,
    ) -> None:
        self._app = app
        self._processes = processes
        self._wear = wear
        self._grace = grace
        offers = [TaskOffer(task) for task in app.tasks]
        who = name or f"{platform.node()}:{os.getpid()}"
        sdk = f"python {tocsin.__version__}"
        queues = queues or app.queues
        revision = revision or os.environ.get("TOCSIN_REVISION")
        new = NewWorker(who, offers, app.name, revision, sdk, 1, queues, concurrency, lease)
        self._hand = Hand(concurrency)
        self._over = threading.Event()
        self._membership = Membership(new, self._over)
        self._shared = Shared()
        self._telling = Telling()
        self._state: object = None
        self._living = contextlib.AsyncExitStack()
        self._seq = 0
        self._poked = 0
        self._signals = 0
        self.failure: TocsinError | None = None
        """Why the worker ended by itself, if it did."""
        self.ended = asyncio.Event()
        self._runners: dict[str, Runner] = {}
        self._threads: list[threading.Thread] = []

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        watch = LoopWatch(self._loop, threading.get_ident())
        self._beats = Beats(self._hand, self._membership, watch, self._ended, self._begin_drain)
        await self._come_alive()
        self._links = [Link(*self._app.place()) for _ in range(4)]
        try:
            await asyncio.to_thread(self._membership.try_to_register, self._links[0])
        except Unavailable as error:
            _log.warning("%s; the worker goes on trying", error)
        except BaseException:
            await self._living.aclose()
            raise
        parts = (self._claim_loop, self._settle_loop, self._beats.run, self._beats.watch_over)
        for target, link in zip(parts, self._links, strict=True):
            thread = threading.Thread(target=self._guarded, args=(target, link), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    async def _come_alive(self) -> None:
        """Enter the app's lifespan, and open what lives as long as the worker: before it asks for work."""
        tasks = self._app.tasks.values()
        wanted = [
            one for task in tasks if task.run != "process" for one in task.signature.dependencies.values()
        ]
        take, ended = self._hand.take, self._ended
        try:
            if any(task.run != "process" for task in tasks):
                self._state = await self._living.enter_async_context(self._app.alive())
            await self._shared.open(self._living, wanted)
        except BaseException:
            await self._living.aclose()
            raise
        self._runners["async"] = AsyncRunner(self._loop, self._shared, take, ended)
        self._runners["thread"] = ThreadRunner(self._shared, take, ended)
        if any(task.run == "process" for task in tasks):
            self._runners["process"] = ProcessRunner(self._processes, take, ended, self._wear)

    async def __aexit__(self, *_: object) -> None:
        await self.drain()

    def serve(self) -> int:
        """Run until SIGTERM or SIGINT, then drain. Returns the exit code. With strays it ends the process
        itself: neither the event loop nor the interpreter would end before they do."""
        return asyncio.run(self._serve())

    async def _serve(self) -> int:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        async with self:
            await self.ended.wait()
        code = EXIT_STRAYS if self._beats.too_many_strays else 0
        if self.failure is not None:
            _log.error("%s", self.failure)
            code = 1
        if self._beats.strays:
            logging.shutdown()
            sys.stdout.flush()
            os._exit(code)
        return code

    async def drain(self) -> None:
        """Take no more, finish what runs, within the grace; settle the rest as failed; leave."""
        self._begin_drain()
        if self._membership.known:
            await self._finish(self._links[3])
        self._over.set()
        self._beats.finish()
        self._hand.finish()
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 2)
        for runner in self._runners.values():
            runner.close()
        if self._membership.known:
            with contextlib.suppress(TocsinError):
                await asyncio.to_thread(self._links[3].leave, self._membership.worker)
        for one in self._links:
            one.close()
        await self._living.aclose()

    async def _finish(self, link: Link) -> None:
        await asyncio.to_thread(self._call_back)
        await asyncio.to_thread(release, link, self._membership.worker, self._hand.take_unbegun())
        await asyncio.to_thread(self._hand.wait_until_empty, lambda: self._grace)
        for attempt in self._hand.attempts():
            why = TaskError("WorkerStopped", "the worker stopped before the task was over")
            self._beats.give_up(attempt, why)
        await asyncio.to_thread(self._hand.wait_until_told, lambda: 0.0 if self._revoked else _SETTLING)

    def _call_back(self) -> None:
        """Have the request answered that is parked, if there is one: a worker asks once at a time, so another
        request ends it. Of several gateways one has it, and each new connection may reach another."""
        claiming, until, pause = self._threads[0], monotonic() + self._grace, _FIRST_PAUSE
        while claiming.is_alive() and monotonic() < until:
            self._poked += 1
            poke = Ask(self._seq + _POKE_AHEAD + self._poked, 0, 0)
            with contextlib.suppress(TocsinError), contextlib.closing(Link(*self._app.place())) as link:
                link.claim(self._membership.worker, poke)
            claiming.join(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    # What the threads do.

    def _guarded(self, target: Callable[[Link], None], link: Link) -> None:
        """A thread that ends by itself ends the worker, and says why."""
        try:
            if target == self._claim_loop and not self._membership.known:
                self._membership.register(link)
            if self._membership.wait_until_known():
                target(link)
        except Gone:
            _log.info("told to end")
            self._begin_drain()
        except TocsinError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - told to the caller that started the worker
            _log.exception("a part of the worker failed")
            self._fail(Refused(f"a part of the worker failed: {error}"))

    def _claim_loop(self, link: Link) -> None:
        while (want := self._hand.wait_for_place(self._membership.terms.batch_max)) > 0:
            self._seq += 1
            ask = Ask(self._seq, want, _WAIT_MS, self._hand.take_outcomes(self._membership.terms.batch_max))
            self._hand.asks(asking=True)
            given = self._ask(link, ask)
            self._hand.asks(asking=False)
            if given is None:
                self._hand.take_back(ask.settle)
            else:
                self._note_settled(given.settled, ask.settle)
                self._take(given)
                if self._hand.draining:
                    release(link, self._membership.worker, self._hand.take_unbegun())

    def _ask(self, link: Link, ask: Ask) -> Given | None:
        """The answer to a claim, repeated as it was. None: it has no answer, and what it would have settled
        is unsettled."""
        worker = self._membership.worker
        try:
            return persistently(lambda: link.claim(worker, ask), lambda: not self._hand.draining)
        except NotFound:
            self._membership.register(link, instead_of=worker)
            return None
        except Refused:
            self._hand.take_back(ask.settle)  # told by the thread that settles, if the server still listens
            raise

    def _settle_loop(self, link: Link) -> None:
        while not self._over.is_set():
            self._hand.wait_for_outcomes()
            if batch := self._hand.take_outcomes(self._membership.terms.batch_max):
                self._settle(link, batch)

    def _settle(self, link: Link, batch: list[TaskSettlement]) -> None:
        worker = self._membership.worker
        try:
            answer = persistently(lambda: link.settle(worker, batch), lambda: not self._over.is_set())
        except NotFound:
            self._membership.register(link, instead_of=worker)
            answer = None
        if answer is None:
            self._hand.take_back(batch)
        else:
            self._note_settled(answer.settled, batch)

    # What they share.

    def _take(self, given: Given) -> None:
        self._beats.stop(given.stop)
        if given.drain:
            self._begin_drain()
        for claim in given.claims:
            self._hold(claim)
        if given.claims:
            self._start(self._hand.admit())
            self._beats.notice()

    def _hold(self, claim: TaskClaim) -> None:
        task = self._app.tasks.get(claim.task)
        if task is None:
            _log.error("given %s, a task that this worker did not offer: released", claim.task)
            with contextlib.suppress(TocsinError):
                self._links[0].release(self._membership.worker, [ClaimName(claim.id, claim.token)])
            return
        before = self._hand.hold(Attempt(claim, task, self._state))
        if before is not None:  # we had it, lost it, and got it again
            before.stop(ClaimLost("another claim of it followed"))

    def _start(self, admitted: list[Attempt]) -> None:
        for attempt in admitted:
            self._runners[attempt.task.run].start(attempt)

    def _ended(self, attempt: Attempt, settlement: TaskSettlement) -> None:
        if not attempt.given_up and not attempt.lost:
            self._telling.ended(attempt, settlement)
        self._start(self._hand.end(attempt, settlement))

    def _note_settled(self, settled: list[Settled], batch: list[TaskSettlement]) -> None:
        tokens = {one.id: one.token for one in batch} if settled else {}
        for one in settled:
            if one.status == "lost":
                _log.warning("%s had passed to another worker", one.id)
            elif one.status == "refused":
                error = TaskError("SettlementRefused", one.problem or "")
                self._hand.tell(TaskSettlement(one.id, tokens[one.id], "rejected", error=error))
        self._hand.told(len(batch))

    def _begin_drain(self) -> None:
        self._hand.drain()
        if not self._membership.known:  # nothing is held, and no server is to be told
            self._over.set()
        self._loop.call_soon_threadsafe(self.ended.set)

    def _signalled(self, *_: Any) -> None:
        """Asked to end by a signal. Not told to the event loop, which a task may block; and not done here,
        where the main thread may hold any lock."""
        self._signals += 1
        if self._signals >= _SIGNALS_UNTIL_NOW:
            os._exit(EXIT_AT_ONCE)
        threading.Thread(target=self._end, args=(self._signals,), daemon=True).start()

    def _end(self, signals: int) -> None:
        if signals == 1:
            words = "asked to stop: %d running tasks have %g s to finish; asked again, they are given up"
            _log.info(words, self._hand.running, self._grace)
        else:
            _log.warning(
                "asked again to stop: %d running tasks are given up; asked once more, it ends at once",
                self._hand.running,
            )
            self._grace = 0.0
        self._begin_drain()

    def _fail(self, error: TocsinError) -> None:
        self.failure = self.failure or error
        if self._revoked:  # nothing can be settled any more: others have it once the leases are over
            self._grace = 0.0
        self._begin_drain()

    @property
    def _revoked(self) -> bool:
        return isinstance(self.failure, Unauthorized)
