"""Operations under a running engine on virtual time: each thing acted on once, whatever crashes; steps, brake
and pace."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain import operation as operation_rules
from tocsin.domain.audit import Origin
from tocsin.domain.errors import Conflict, Unavailable
from tocsin.domain.instant import DAY, SECOND, format_instant, parse_instant
from tocsin.domain.operation import Do, Of, StopAt
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.domain.policy import Policies, Retry
from tocsin.failpoints import Failpoints
from tocsin.scheduler.operations import Operations
from tocsin.store import acting as acting_module
from tocsin.store import gathering
from tocsin.store.acting import Acting
from tocsin.store.execution_filter import ExecutionFilter
from tocsin.store.execution_listing import select_executions
from tocsin.store.gathering import Gathering
from tocsin.store.job_listing import JobFilter, select_jobs
from tocsin.store.operations import NewOperation, OperationStore, named_jobs

NOON = parse_instant("2031-05-05T12:00:00Z", "")
WHO = Origin("key_of_somebody")
ONE_TRY = Policies(retry=Retry(max_attempts=1))
FAILED = Outcome(Verdict.FAILED, error="the target answered 503")


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


class Desk:
    """Where operations are asked for, and a service that carries them out."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = OperationStore(engine.database)
        self.points = Failpoints()
        acting = Acting(engine.database, engine.settings.horizon, self.points)
        self.service = Operations(acting, Gathering(engine.database, self.points))

    async def begin(self, do: Do, of: Of, selection: Any, **how: Any) -> int:
        new = NewOperation(
            **({"reason": None, "pace": 0, "steps": (), "stop_at": None, "filter": {}} | how),
            do=do,
            of=of,
            selection=selection,
        )
        return await self.store.define(TENANT, new, self.engine.time.now(), WHO)

    async def look(self, operation: int) -> dict[str, Any]:
        return dict(await self.store.get(TENANT, operation))

    async def work(self, operation: int, patience: int = 10_000) -> dict[str, Any]:
        """Until it is over or held, with everything that it fires."""
        for _ in range(patience):
            report = await self.service.run_once(self.engine.time.now())
            await self.engine.settle()
            found = await self.look(operation)
            if found["state"] != "running":
                return found
            assert report.again_at is not None
            await self.engine.run_until(max(report.again_at, self.engine.time.now()))
        raise AssertionError("it does not end")


async def jobs(engine: Engine, number: int) -> list[UUID]:
    return [await engine.define(schedule(every="1h"), ONE_TRY) for _ in range(number)]


async def dead_letters(engine: Engine, number: int) -> None:
    """One-offs that fail for good."""
    engine.calls.answer = lambda _: FAILED
    for _ in range(number):
        await engine.define(schedule(at=format_instant(NOON + SECOND)), ONE_TRY)
    await engine.run_until(NOON + 2 * SECOND)
    assert await engine.count("history", "state = 'dead'") == number
    engine.calls.made.clear()
    engine.calls.answer = lambda _: SUCCEEDED


def letters() -> Any:
    return select_executions(TENANT, ExecutionFilter(state="dead", kept_only=True))  # type: ignore[arg-type]


def everything() -> Any:
    return select_jobs(TENANT, JobFilter())


async def paused(engine: Engine) -> int:
    return await engine.count("jobs", "state = 'paused'")


def test_all_that_match_are_paused_and_what_comes_later_is_not(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 230)
        operation = await desk.begin(Do.PAUSE, Of.JOBS, everything(), reason="vendor down")
        await jobs(engine, 3)
        done = await desk.work(operation)
        assert (done["state"], done["matched"], done["done"], done["position"]) == (
            "completed",
            230,
            230,
            230,
        )
        assert await paused(engine) == 230
        assert await engine.count("jobs", "state_reason = 'vendor down'") == 230
        assert await engine.count("operation_batches") == 0
        actions = Counter(row["action"] for row in await engine.database.fetch("SELECT action FROM audit"))
        assert actions["job.pause"] == 230
        assert actions["operation.create"] == actions["operation.complete"] == 1
        resumed = await desk.work(await desk.begin(Do.RESUME, Of.JOBS, everything()))
        assert (resumed["done"], resumed["position"]) == (230, 233)
        assert await paused(engine) == 0

    play(url, NOON, story)


@pytest.mark.parametrize("point", ["operations.acted", "operations.committed"])
@pytest.mark.parametrize("do", [Do.PAUSE, Do.RUN, Do.DELETE])
def test_a_crash_at_any_point_repeats_nothing_and_leaves_nothing_out(
    url: str, point: str, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_rules, "BATCH", 10)

    async def story(engine: Engine) -> None:
        desk, crashes = Desk(engine), 0
        await jobs(engine, 45)
        operation = await desk.begin(do, Of.JOBS, everything())

        async def crash() -> None:
            nonlocal crashes
            crashes += 1
            if crashes % 2:
                raise Unavailable("gone")

        desk.points.arm(point, crash)
        for _ in range(100):
            try:
                await desk.work(operation)
            except Unavailable:
                desk = _successor(desk)
                continue
            break
        found = await desk.look(operation)
        assert crashes >= 4
        assert (found["state"], found["done"], found["position"]) == ("completed", 45, 45)
        assert await engine.count("audit", f"action = 'job.{do}'") == 45
        if do is Do.PAUSE:
            assert await paused(engine) == 45
        elif do is Do.DELETE:
            assert await engine.count("jobs") == 0
        else:
            assert await engine.count("history", "cause = 'manual' AND state = 'succeeded'") == 45
            assert found["succeeded"] == 45

    play(url, NOON, story)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a statement could gather no more than 20 things."""
    monkeypatch.setattr(gathering, "AT_A_LOOK", 20)
    for module in (gathering, acting_module):
        monkeypatch.setattr(module, "STORED_BATCH", 10)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("point", [None, "operations.gathered"])
def test_more_than_a_statement_gathers_are_all_acted_on_once(url: str, point: str | None) -> None:
    async def story(engine: Engine) -> None:
        desk, crashes = Desk(engine), 0
        await jobs(engine, 70)
        operation = await desk.begin(Do.PAUSE, Of.JOBS, everything())
        found = await desk.look(operation)
        assert (found["matched"], found["gathering"] is not None) == (20, True)

        async def crash() -> None:
            nonlocal crashes
            crashes += 1
            if crashes % 2:
                raise Unavailable("gone")

        if point is not None:
            desk.points.arm(point, crash)
        while (await desk.look(operation))["gathering"] is not None:
            assert await paused(engine) == 0, "it acts before it knows on what"
            with contextlib.suppress(Unavailable):
                await desk.service.run_once(engine.time.now())
            await engine.run_until(engine.time.now() + 30 * SECOND)
        done = await desk.work(operation)
        assert crashes >= (4 if point else 0)
        assert (done["state"], done["matched"], done["done"]) == ("completed", 70, 70)
        assert await paused(engine) == 70
        assert await engine.count("audit", "action = 'job.pause'") == 70
        assert await engine.count("operation_batches") == 0

    play(url, NOON, story)


@pytest.mark.usefixtures("small_chunks")
def test_executions_are_gathered_on_from_live_ones_to_finished_ones(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await dead_letters(engine, 33)
        for _ in range(33):
            await engine.define(schedule(at=format_instant(NOON + DAY)), ONE_TRY)
        operation = await desk.begin(Do.CANCEL, Of.EXECUTIONS, select_executions(TENANT, ExecutionFilter()))
        done = await desk.work(operation)
        assert (done["state"], done["matched"], done["done"]) == ("completed", 66, 33)
        assert await engine.count("history", "state = 'cancelled'") == 33
        discarded = await desk.work(await desk.begin(Do.DISCARD, Of.DEAD_LETTERS, letters()))
        assert (discarded["matched"], discarded["done"]) == (33, 33)

    play(url, NOON, story)


@pytest.mark.usefixtures("small_chunks")
def test_a_pause_holds_the_gathering_and_a_stop_ends_it(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 50)
        operation = await desk.begin(Do.PAUSE, Of.JOBS, everything())
        await desk.store.pause(TENANT, operation, None, WHO)
        assert (await desk.service.run_once(engine.time.now())).done == 0
        await desk.store.resume(TENANT, operation, WHO)
        assert (await desk.service.run_once(engine.time.now())).done == 20
        await desk.store.cancel(TENANT, operation, None, WHO)
        assert (await desk.service.run_once(engine.time.now())).done == 0
        found = await desk.look(operation)
        assert (found["state"], found["done"], found["gathering"]) == ("cancelled", 0, None)
        assert await paused(engine) == await engine.count("operation_batches") == 0

    play(url, NOON, story)


def _successor(desk: Desk) -> Desk:
    """Another node, which knows nothing of the first but what is in the database."""
    after = Desk(desk.engine)
    after.points._armed = desk.points._armed
    return after


def test_what_is_planned_of_a_job_is_taken_back_by_an_operation_too(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 3)
        busy = await engine.define(schedule(every="10s"), ONE_TRY)
        engine.away = {"claimer"}
        await engine.settle()
        assert await engine.count("executions", "job_id = $1", busy) > 0
        done = await desk.work(await desk.begin(Do.PAUSE, Of.JOBS, everything()))
        assert (done["done"], await paused(engine), await engine.count("executions")) == (4, 4, 0)

    play(url, NOON, story)


def test_what_cannot_be_done_is_counted_with_its_reason_and_the_rest_goes_on(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        ids = await jobs(engine, 5)
        await engine.pausing.pause(TENANT, ids[0], None)
        operation = await desk.begin(Do.PAUSE, Of.JOBS, named_jobs(TENANT, [*ids, UUID(int=7), ids[1]]))
        await engine.cancelling.delete(TENANT, ids[4])
        done = await desk.work(operation)
        assert (done["matched"], done["position"], done["done"]) == (6, 6, 3)
        assert "cannot pause a job that is paused" in done["errors"]
        assert await paused(engine) == 4

    play(url, NOON, story)


def test_dead_letters_are_replayed_in_steps_that_wait_for_their_outcome(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await dead_letters(engine, 120)
        engine.calls.lasts = lambda _: 5 * SECOND
        operation = await desk.begin(Do.RETRY, Of.DEAD_LETTERS, letters(), steps=(1, 10))
        at = {}
        for step, expected in ((1, 1), (2, 11)):
            while (found := await desk.look(operation))["position"] < expected:
                report = await desk.service.run_once(engine.time.now())
                await engine.run_until(report.again_at or 0)
            at[step] = engine.time.now()
            await engine.settle()
            assert len(engine.calls.made) == expected
            assert found["step"] == step - 1
        assert at[2] - at[1] >= 5 * SECOND
        done = await desk.work(operation)
        assert (done["state"], done["succeeded"], done["failed"]) == ("completed", 120, 0)
        assert len(engine.calls.made) == 120
        assert await engine.count("history", "state = 'dead'") == 0

    play(url, NOON, story)


def test_a_step_that_fails_holds_the_operation_until_somebody_resumes_it(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await dead_letters(engine, 30)
        engine.calls.answer = lambda _: FAILED
        operation = await desk.begin(Do.RETRY, Of.DEAD_LETTERS, letters(), steps=(1, 10))
        held = await desk.work(operation)
        assert (held["state"], held["position"], held["failed"]) == ("paused", 1, 1)
        assert held["state_reason"] == "stopped after step 1: 1 failed"
        engine.calls.answer = lambda _: SUCCEEDED
        await desk.store.resume(TENANT, operation, WHO)
        done = await desk.work(operation)
        assert (done["state"], done["succeeded"], done["failed"]) == ("completed", 29, 1)

    play(url, NOON, story)


def test_the_brake_holds_a_replay_whose_target_fails_half(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await dead_letters(engine, 200)
        engine.calls.answer = lambda claim: FAILED if claim.job_id.int % 2 else SUCCEEDED
        brake = StopAt(0.2, 20)
        operation = await desk.begin(Do.RETRY, Of.DEAD_LETTERS, letters(), stop_at=brake)
        held = await desk.work(operation)
        assert held["state"] == "paused"
        assert held["state_reason"].startswith("stopped by its brake:")
        assert 20 <= held["position"] <= 40, "at most as many more were fired as it looks back"
        assert "the target answered 503" in held["errors"]
        actions = await engine.database.fetch(
            "SELECT actor, action FROM audit WHERE object = $1", f"operation:{operation}"
        )
        assert ("system", "operation.hold") in {tuple(row) for row in actions}
        await desk.store.cancel(TENANT, operation, "the vendor is down", WHO)
        assert (await desk.look(operation))["state"] == "cancelled"
        assert await engine.count("operation_runs") == await engine.count("operation_batches") == 0

    play(url, NOON, story)


def test_the_pace_is_kept(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 12)
        operation = await desk.begin(Do.RUN, Of.JOBS, everything(), pace=7 * SECOND)
        await desk.work(operation)
        rows = await engine.database.fetch(
            "SELECT fire_at FROM history WHERE cause = 'manual' ORDER BY fire_at"
        )
        starts = [row["fire_at"] for row in rows]
        assert len(starts) == 12
        assert {after - before for before, after in pairwise(starts)} == {7 * SECOND}

    play(url, NOON, story)


def test_a_paused_operation_does_nothing_and_a_stopped_one_leaves_a_correct_rest(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 250)
        operation = await desk.begin(Do.PAUSE, Of.JOBS, everything())
        await desk.service.run_once(engine.time.now())
        await desk.store.pause(TENANT, operation, "wait", WHO)
        before = await paused(engine)
        assert 0 < before < 250
        await desk.service.run_once(engine.time.now())
        assert await paused(engine) == before
        await desk.store.resume(TENANT, operation, WHO)
        await desk.service.run_once(engine.time.now())
        await desk.store.cancel(TENANT, operation, None, WHO)
        await desk.service.run_once(engine.time.now())
        found = await desk.look(operation)
        assert found["state"] == "cancelled"
        assert await paused(engine) == found["done"] == 2 * before
        for change in (
            desk.store.resume(TENANT, operation, WHO),
            desk.store.cancel(TENANT, operation, None, WHO),
        ):
            with pytest.raises(Conflict):
                await change

    play(url, NOON, story)


def test_an_operation_that_a_newer_version_made_is_left_to_it_and_the_others_go_on(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 2)
        newer = await desk.begin(Do.PAUSE, Of.JOBS, everything())
        await engine.database.execute("UPDATE operations SET action = 'polish' WHERE id = $1", newer)
        done = await desk.work(await desk.begin(Do.PAUSE, Of.JOBS, everything()))
        assert done["state"] == "completed"
        row = await engine.database.one("SELECT state, position FROM operations WHERE id = $1", newer)
        assert tuple(row) == ("running", 0)

    play(url, NOON, story)


def test_executions_are_cancelled_and_run_again_and_dead_letters_discarded(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await dead_letters(engine, 3)
        again = await desk.work(await desk.begin(Do.RERUN, Of.DEAD_LETTERS, letters()))
        assert (again["done"], again["succeeded"]) == (3, 3)
        assert await engine.count("history", "cause = 'rerun' AND state = 'succeeded'") == 3
        gone = await desk.work(await desk.begin(Do.DISCARD, Of.DEAD_LETTERS, letters()))
        assert gone["done"] == 3
        assert (await desk.look(await desk.begin(Do.DISCARD, Of.DEAD_LETTERS, letters())))[
            "state"
        ] == "completed"
        await engine.define(schedule(at=format_instant(NOON + DAY)), ONE_TRY)
        live = select_executions(TENANT, ExecutionFilter(state="queued"))  # type: ignore[arg-type]
        off = await desk.work(await desk.begin(Do.CANCEL, Of.EXECUTIONS, live, reason="no more"))
        assert off["done"] == 1
        assert await engine.count("history", "state = 'cancelled' AND reason = 'no more'") == 1

    play(url, NOON, story)


def test_an_operation_whose_batches_take_too_long_does_not_keep_the_others_from_their_turns(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 2)
        slow = await desk.begin(Do.PAUSE, Of.JOBS, everything())
        quick = await desk.begin(Do.PAUSE, Of.JOBS, everything())
        batch = Acting._batch

        async def too_long(self: Acting, session: Any, row: Any, now: int) -> int:
            if row["id"] == slow:
                raise Unavailable(
                    "the database did not answer", why="canceling statement due to statement timeout"
                )
            return await batch(self, session, row, now)

        monkeypatch.setattr(Acting, "_batch", too_long)
        for _ in range(4):
            with contextlib.suppress(Unavailable):
                await desk.service.run_once(engine.time.now())
            await engine.time.advance(SECOND)
        assert [(await desk.look(one))["state"] for one in (slow, quick)] == ["running", "completed"]

    play(url, NOON, story)


def test_operations_take_turns(url: str) -> None:
    async def story(engine: Engine) -> None:
        desk = Desk(engine)
        await jobs(engine, 300)
        first, second = [await desk.begin(Do.CANCEL_QUEUED, Of.JOBS, everything()) for _ in range(2)]
        for _ in range(4):
            await engine.time.advance(1)
            await desk.service.run_once(engine.time.now())
        assert (await desk.look(first))["position"] == (await desk.look(second))["position"] == 200

    play(url, NOON, story)
