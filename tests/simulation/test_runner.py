"""A worker that lost an execution and claimed it again may have both attempts under way for a moment: what
happens to the lost one does not touch the other. And whatever goes wrong around a call, the attempt ends as
an outcome. What has started ahead of its instant fires on it, if it is still ours."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest
import structlog

from tests.simulation.faults import spin
from tests.simulation.virtual_time import START, VirtualTimer, run_virtually
from tocsin.clock import VirtualClock
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.domain.target import HttpTarget, NoopTarget
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim, Finish
from tocsin.targets.assignment import Assignment
from tocsin.telemetry import Telemetry
from tocsin.worker.places import Places
from tocsin.worker.runner import Runner
from tocsin.worker.settler import Settlement, Settler
from tocsin.worker.timetable import Timetable

TARGET = msgspec.json.encode(HttpTarget("http://target.example/")).decode()


AHEAD = 20 * MILLISECOND


class Settled:
    """Takes what a settler would."""

    def __init__(self) -> None:
        self.settlements: list[Settlement] = []

    def put(self, settlement: Settlement) -> None:
        self.settlements.append(settlement)

    def put_succeeded(self, claims: list[Claim], now: Instant) -> None:
        self.settlements += [Settlement(claim, SUCCEEDED, now) for claim in claims]

    @property
    def verdicts(self) -> list[tuple[int, Verdict]]:
        return [(s.claim.token, s.outcome.verdict) for s in self.settlements if s.postponed_to is None]

    @property
    def given_back(self) -> list[tuple[int, Instant, str | None]]:
        """Those that count as not started, when they start again, and what they wait for until then."""
        return [
            (s.claim.token, s.postponed_to, s.waits_for)
            for s in self.settlements
            if s.postponed_to is not None
        ]


class Calls:
    """Calls that answer when the test says so, by token."""

    def __init__(self) -> None:
        self.answers: dict[int, asyncio.Future[Outcome]] = {}

    def host(self, target: HttpTarget) -> tuple[str, int]:
        return target.url, 80

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome:
        self.answers[assignment.token] = asyncio.get_running_loop().create_future()
        return await self.answers[assignment.token]


class AtOnce:
    """Answers at once, and chokes on the first."""

    def __init__(self) -> None:
        self._answers = iter((ZeroDivisionError(), SUCCEEDED))

    def answer_at_once(self, target: Any) -> Outcome:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Settling:
    """Notes by which statement each claim is settled."""

    def __init__(self) -> None:
        self.succeeded: list[int] = []
        self.finished: list[tuple[int, str]] = []

    async def succeed(self, claims: list[Claim], finished_at: Instant) -> list[Claim]:
        self.succeeded += [claim.token for claim in claims]
        return []

    async def finish(self, finishes: list[Finish]) -> list[Claim]:
        self.finished += [(finish.claim.token, str(finish.state)) for finish in finishes]
        return []


def claim(token: int, attempt: int = 1, run_at: Instant = START, started_at: Instant | None = None) -> Claim:
    values = dict.fromkeys(Claim.__struct_fields__)
    known = {"job_id": UUID(int=1), "fire_at": START, "due_at": START, "run_at": run_at}
    known |= {"started_at": started_at or run_at, "deadline_at": run_at + 10 * SECOND}
    return Claim(
        **values
        | known
        | {"attempt": attempt, "earlier_attempts": 0, "target": TARGET, "token": token, "limit_key": "k"}
        | {"route": "http", "queue": "default"}
    )


def play(
    story: Callable[[Runner, Calls, Any], Awaitable[None]],
    points: Failpoints | None = None,
    calls: Calls | None = None,
    settled: Any = None,
) -> list[Any]:
    """Returns what was logged."""
    clock, calls, settled = VirtualClock(START), calls or Calls(), settled or Settled()
    parts: Any = (
        settled,
        Places(10),
        Timetable(),
        SimpleNamespace(abandon=lambda _: None),
        clock,
        Telemetry(),
    )
    runner: Any = Runner({"http": calls, "noop": AtOnce()}, *parts, points or Failpoints())
    with structlog.testing.capture_logs() as logs:
        run_virtually(clock, story(runner, calls, settled))
    return list(logs)


def test_abandoning_a_lost_claim_leaves_the_new_claim_of_the_same_execution_alone() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        lost, mine = claim(1), claim(2, attempt=2)
        runner.run([lost])
        await spin()
        runner.run([mine])
        await spin()
        assert runner.claims() == [lost, mine]
        runner.abandon(lost)
        await spin()
        assert runner.claims() == [mine]
        calls.answers[2].set_result(SUCCEEDED)
        await spin()
        assert settled.verdicts == [(2, Verdict.SUCCEEDED)]
        assert runner._places.unused == 10

    play(story)


def test_a_late_answer_to_a_lost_claim_leaves_the_new_claim_under_way() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        lost, mine = claim(1), claim(2, attempt=2)
        runner.run([lost, mine])
        await spin()
        calls.answers[1].set_result(SUCCEEDED)
        await spin()
        assert runner.claims() == [mine]
        assert settled.verdicts == [(1, Verdict.SUCCEEDED)]  # which the database will refuse

    play(story)


def test_stopping_one_claim_does_not_stop_the_other() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1), claim(2, attempt=2)])
        await spin()
        runner.stop(claim(1))
        await spin()
        assert settled.verdicts == [(1, Verdict.CANCELLED)]
        assert [held.token for held in runner.claims()] == [2]

    play(story)


@pytest.mark.parametrize("point", ["runner.before_call", "runner.called"])
def test_an_error_around_a_call_ends_the_attempt_and_frees_its_place(point: str) -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1)])
        await spin()
        if point == "runner.called":
            calls.answers[1].set_result(SUCCEEDED)
            await spin()
        assert settled.verdicts == [(1, Verdict.FAILED)]
        assert (runner.claims(), runner._places.unused) == ([], 10)

    play(story, Failpoints.from_text(f"{point}=error"))


def test_a_target_whose_host_cannot_be_told_keeps_no_other_claim_of_its_batch_from_running() -> None:
    class Strange(Calls):
        """Chokes on one target, whatever it is asked about it."""

        def host(self, target: HttpTarget) -> tuple[str, int]:
            if "strange" in target.url:
                raise ZeroDivisionError
            return super().host(target)

        async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome:
            self.host(target)
            return await super().call(assignment, target, timeout)

    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        strange = claim(1)
        strange.target = msgspec.json.encode(HttpTarget("http://strange.example/")).decode()
        runner.run([strange, claim(2)])
        await spin()
        assert settled.verdicts == [(1, Verdict.FAILED)]
        assert [one.token for one in runner.claims()] == [2]
        calls.answers[2].set_result(SUCCEEDED)
        await spin()

    play(story, calls=Strange())


def test_a_target_that_answers_at_once_and_fails_to_keeps_no_other_claim_of_its_batch_from_running() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        strange, plain = claim(1), claim(2)
        strange.target = plain.target = msgspec.json.encode(NoopTarget()).decode()
        runner.run([strange, plain, claim(3)])
        await spin()
        assert settled.verdicts == [(1, Verdict.FAILED), (2, Verdict.SUCCEEDED)]
        assert settled.settlements[0].outcome.error == "internal error: ZeroDivisionError"
        calls.answers[3].set_result(SUCCEEDED)
        await spin()

    [logged] = play(story)
    assert logged["event"] == "runner.call_failed"


def test_a_call_that_succeeds_with_nothing_to_tell_is_settled_the_short_way_and_any_other_by_finish() -> None:
    settling = Settling()
    settler = Settler(settling, VirtualClock(START), Telemetry(), Failpoints(), node_id=1)  # type: ignore[arg-type]

    async def story(runner: Runner, calls: Calls, settler: Settler) -> None:
        runner.run([claim(1), claim(2), claim(3)])
        await spin()
        calls.answers[1].set_result(SUCCEEDED)
        calls.answers[2].set_result(Outcome(Verdict.SUCCEEDED, detail={"status": 200}))
        calls.answers[3].set_result(Outcome(Verdict.REJECTED, error="answered 410"))
        await spin()
        await settler.run_once(START)
        assert settling.succeeded == [1]
        assert settling.finished == [(2, State.SUCCEEDED), (3, State.DEAD)]

    play(story, settled=settler)


def test_a_call_that_never_answers_ends_at_its_timeout() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1)])
        await spin()
        runner._clock.advance(30 * SECOND)
        await spin()
        assert settled.verdicts == [(1, Verdict.TIMED_OUT)]

    play(story)


def test_a_call_that_is_stopped_before_it_made_a_step_ends_as_cancelled() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1)])
        runner.stop(claim(1))
        await spin()
        assert settled.verdicts == [(1, Verdict.CANCELLED)]
        assert (runner.claims(), runner._places.unused, calls.answers) == ([], 10, {})

    play(story)


def test_a_call_that_is_lost_before_it_made_a_step_is_let_go() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        lost: list[Claim] = []
        runner._slots.abandon = lost.append
        mine = claim(1)
        runner.run([mine])
        runner.abandon(mine)
        await spin()
        assert (lost, settled.verdicts, runner._places.unused) == ([mine], [], 10)

    play(story)


def test_what_has_started_ahead_keeps_a_place_and_fires_on_its_instant() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        clock, timer = runner._clock, VirtualTimer(runner._clock, runner)
        mine = claim(1, run_at=START + AHEAD)
        runner.run([mine])
        await spin()
        assert (runner.claims(), runner._places.unused, timer.ring_at) == ([mine], 9, START + AHEAD)
        clock.advance(AHEAD - 1)
        timer.ring()
        await spin()
        assert not calls.answers
        clock.advance(3)
        timer.ring()
        await spin()
        assert list(calls.answers) == [1]
        assert mine.started_at == mine.fired_at == START + AHEAD + 2
        calls.answers[1].set_result(SUCCEEDED)
        await spin()
        assert (settled.verdicts, runner._places.unused) == ([(1, Verdict.SUCCEEDED)], 10)

    play(story)


def test_what_waits_for_its_instant_can_be_stopped_or_lost() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        timer, lost = VirtualTimer(runner._clock, runner), []
        runner._slots.abandon = lost.append
        stopped, gone = (claim(token, run_at=START + AHEAD) for token in (1, 2))
        runner.run([stopped, gone])
        runner.stop(stopped)
        runner.abandon(gone)
        assert (runner.claims(), runner._places.unused, lost) == ([], 10, [gone])
        runner._clock.advance(AHEAD)
        timer.ring()
        await spin()
        assert (settled.verdicts, calls.answers) == ([(1, Verdict.CANCELLED)], {})

    play(story)


def test_a_process_that_stood_still_past_a_deadline_does_not_fire_what_it_lost() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        timer, lost = VirtualTimer(runner._clock, runner), []
        runner._slots.abandon = lost.append
        early, late = claim(1, run_at=START + AHEAD), claim(2, run_at=START + 2 * AHEAD)
        runner.run([early, late])
        runner._clock.advance(early.deadline_at - START)
        timer.ring()
        await spin()
        assert (lost, list(calls.answers), runner._places.unused) == ([early], [2], 9)

    play(story)


def test_a_start_that_was_answered_after_its_instant_is_late_by_that() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        asked_ahead, asked_late = claim(1), claim(2, started_at=START + MILLISECOND)
        runner._clock.advance(15 * MILLISECOND)
        runner.run([asked_ahead, asked_late])
        await spin()
        assert asked_ahead.started_at == asked_ahead.fired_at == START + 15 * MILLISECOND
        assert (asked_late.started_at, asked_late.fired_at) == (START + MILLISECOND, None)

    play(story)


def test_what_is_past_its_latest_start_when_its_instant_is_noticed_is_given_back() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        timer = VirtualTimer(runner._clock, runner)
        late, in_time = claim(1, run_at=START + AHEAD), claim(2, run_at=START + AHEAD)
        late.start_by, in_time.start_by = START + SECOND, START + SECOND + 1
        runner.run([late, in_time])
        runner._clock.advance(SECOND)  # in which the process stood still
        timer.ring()
        await spin()
        assert (list(calls.answers), settled.given_back) == ([2], [(1, late.run_at, None)])
        assert runner._places.unused == 9

    play(story)


def test_what_is_past_its_latest_start_when_its_start_is_answered_is_given_back() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        late, in_time = claim(1), claim(2)
        late.start_by, in_time.start_by = START + SECOND, START + SECOND + 1
        runner._clock.advance(SECOND)
        runner.run([late, in_time])
        await spin()
        assert (list(calls.answers), settled.given_back) == ([2], [(1, late.run_at, None)])

    play(story)


def test_a_call_that_is_over_in_the_moment_draining_ends_keeps_its_outcome() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1)])
        await spin()
        draining = asyncio.create_task(runner.drain(0))
        await asyncio.sleep(0)
        # Its time is over with the next step, of which the call's end is the second half.
        calls.answers[1].set_result(SUCCEEDED)
        await draining
        assert settled.verdicts == [(1, Verdict.SUCCEEDED)]

    play(story)


def test_a_call_that_draining_gives_up_keeps_what_it_holds_until_that_is_written_down() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        abandoned: list[Claim] = []
        runner._slots.abandon = abandoned.append
        runner.run([claim(1)])
        await spin()
        await runner.drain(0)
        await spin()
        assert (settled.verdicts, abandoned) == ([(1, Verdict.FAILED)], [])

    play(story)


@pytest.mark.parametrize("in_time", [True, False])
def test_draining_waits_for_what_is_about_to_fire_and_for_its_call(in_time: bool) -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        timer = VirtualTimer(runner._clock, runner)
        runner.run([claim(1, run_at=START + AHEAD), claim(2, run_at=START + 3600 * SECOND * (not in_time))])
        draining = asyncio.create_task(runner.drain(30))
        await spin()
        assert not draining.done()
        runner._clock.advance(AHEAD)
        timer.ring()
        await spin()
        assert not draining.done()
        for answer in calls.answers.values():
            answer.set_result(SUCCEEDED)
        await spin()
        assert draining.done() == in_time
        runner._clock.advance(30 * SECOND)
        await spin()
        assert draining.done()
        called = [1, 2] if in_time else [1]
        assert sorted(settled.verdicts) == [(token, Verdict.SUCCEEDED) for token in called]
        assert settled.given_back == ([] if in_time else [(2, START + 3600 * SECOND, None)])
        assert (runner.claims(), timer.ring_at) == ([], None)

    play(story)


def test_a_call_for_which_the_worker_has_no_descriptor_is_put_off_without_an_attempt() -> None:
    """It is the worker's own trouble: said once in its log, and told as what it is."""

    class Short(Calls):
        async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome:
            raise OSError(errno.EMFILE, "Too many open files")

    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(token) for token in range(5)])
        await spin()
        assert settled.verdicts == []
        assert {waits_for for _, _, waits_for in settled.given_back} == {"descriptors"}
        assert all(at >= START + SECOND for _, at, _ in settled.given_back)
        assert runner._places.unused == 10

    assert [line["event"] for line in play(story, calls=Short())] == ["worker.out_of_descriptors"]
