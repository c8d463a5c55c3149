"""Random walks over the lifecycle with the product's real operations, compared step by step with the one
table.

The model knows only `TRANSITIONS`, the tokens that were handed out and the virtual time. Every operation is
tried in every situation, with claims that are still good and with claims that were lost: what the table does
not allow must be refused and must change nothing.
"""

import asyncio
import random
import re
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.simulation.virtual_time import START, VirtualLoop
from tests.simulation.workshop import CLAIM_TTL, TENANT, Workshop, close_workshop, open_workshop
from tocsin.clock import VirtualClock
from tocsin.db.pool import open_connection
from tocsin.db.statements import statement
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.lifecycle import FINAL, LIVE, TRANSITIONS, CancelResult, Event, State, after
from tocsin.domain.policy import Policies, Retry
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.telemetry import Telemetry

MOST_ATTEMPTS = 3
AHEAD = 7 * SECOND
ENDINGS = {
    Event.SUCCEED: State.SUCCEEDED,
    Event.DIE: State.DEAD,
    Event.STOP: State.CANCELLED,
    Event.EXPIRE: State.EXPIRED,
    Event.SKIP: State.SKIPPED,
}
T = TypeVar("T")
choices = st.integers(0, 1000)


class Model(msgspec.Struct):
    """What must be true of one execution. No state: a pause took it back out of the queue."""

    key: ExecutionKey
    state: State | None
    run_at: Instant
    attempt: int = 1
    earlier: int = 0
    token: int | None = None
    deadline: Instant = 0
    stop_asked: bool = False
    job: str = "active"

    def become(self, event: Event) -> None:
        """Take a step of the table."""
        assert self.state is not None
        following = after(self.state, event)
        assert following is not None, (self, event)
        self.state = following
        if following not in (State.CLAIMED, State.RUNNING):
            self.token = None
        if following in FINAL:
            self.stop_asked = False


class LifecycleWalk(RuleBasedStateMachine):
    """One-offs and everything that can happen to them. The workshop is shared by all walks of a test."""

    shop: ClassVar[Workshop]
    runner: ClassVar[asyncio.Runner]
    seen: ClassVar[set[tuple[State, Event]]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Model] = []
        self.claims: list[Claim] = []
        self.workers = [self.shop.worker(1), self.shop.worker(2)]
        self.do(self.shop.plain.execute("TRUNCATE executions, history, jobs, lanes"))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @property
    def now(self) -> Instant:
        return self.shop.time.now()

    # What clients do.

    @rule(in_=st.sampled_from((0, 3 * SECOND, 8 * SECOND, 8 * SECOND)))
    def create(self, in_: int) -> None:
        key = self.do(self.shop.once(in_, Policies(Retry(MOST_ATTEMPTS, jitter=0.0))))
        self.models.append(Model(key, State.QUEUED, key.fire_at))

    @precondition(lambda self: self.models)
    @rule(choice=choices)
    def cancel_execution(self, choice: int) -> None:
        model = self.models[choice % len(self.models)]
        try:
            done = self.do(self.shop.executions.cancel(TENANT, model.key, "enough"))
        except (Conflict, NotFound):
            assert model.state is None or model.state in FINAL
            return
        if model.state is State.RUNNING:
            assert (done.answer, done.row["state"]) == (CancelResult.REQUESTED, "running")
            model.stop_asked = True
        else:
            assert done.row["state"] == "cancelled"
            self.step(model, Event.CANCEL)

    @precondition(lambda self: self.models)
    @rule(choice=choices)
    def cancel_job(self, choice: int) -> None:
        model = self.models[choice % len(self.models)]
        try:
            self.do(self.shop.cancelling.cancel(TENANT, model.key.job_id, "enough"))
        except Conflict:
            assert model.job == "cancelled" or model.state in FINAL
            return
        model.job = "cancelled"
        if model.state is State.RUNNING:
            model.stop_asked = True
        elif model.state is None:
            model.state = State.CANCELLED
        else:
            self.step(model, Event.CANCEL)

    @precondition(lambda self: self.models)
    @rule(choice=choices)
    def pause(self, choice: int) -> None:
        model = self.models[choice % len(self.models)]
        held = model.state in (State.QUEUED, State.CLAIMED) and model.attempt == 1
        try:
            self.do(self.shop.pausing.pause(TENANT, model.key.job_id, "a break"))
        except Conflict:
            assert not held or model.job != "active"
            return
        assert held
        model.state, model.token, model.job = None, None, "paused"

    @precondition(lambda self: self.models)
    @rule(choice=choices)
    def resume(self, choice: int) -> None:
        model = self.models[choice % len(self.models)]
        try:
            self.do(self.shop.pausing.resume(TENANT, model.key.job_id, self.now))
        except Conflict:
            assert model.job != "paused"
            return
        assert model.state is None
        model.state, model.job, model.run_at = State.QUEUED, "active", max(model.key.fire_at, self.now)

    @precondition(lambda self: self.models)
    @rule(choice=choices)
    def revive(self, choice: int) -> None:
        model = self.models[choice % len(self.models)]
        row = self.do(self.shop.past(model.key))
        try:
            self.do(self.shop.executions.retry(TENANT, model.key))
        except (Conflict, NotFound):
            possible = model.state is not None and after(model.state, Event.REVIVE) is not None
            assert not possible or model.job == "cancelled"
            return
        begun = row[0]["started_at"] is not None
        self.step(model, Event.REVIVE)
        model.run_at = self.now
        model.earlier = model.attempt if begun else model.attempt - 1
        model.attempt += begun

    # What workers do.

    @rule(worker=st.integers(0, 1), take=st.sampled_from((1, 3, 1000)))
    def claim(self, worker: int, take: int) -> None:
        # A look further back comes once a second; until then a low mark may leave a row for later.
        self.do(self.shop.time.advance(SECOND + SECOND // 10))
        ready = [m for m in self.models if m.state is State.QUEUED and m.run_at <= self.now + AHEAD]
        claims = self.do(self.shop.claim(self.workers[worker], take=take, ahead=AHEAD))
        assert len(claims) == min(take, len(ready)), (claims, ready)
        for claim in claims:
            model = self.model_of(claim)
            self.step(model, Event.CLAIM)
            model.token, model.deadline = claim.token, claim.deadline_at
            if claim.started_at is not None:
                assert claim.run_at <= self.now
                self.step(model, Event.START)
            assert claim.attempt == model.attempt
        self.claims += claims

    @precondition(lambda self: self.claims)
    @rule(choice=choices, worker=st.integers(0, 1))
    def start(self, choice: int, worker: int) -> None:
        claim, model, mine = self.pick(choice)
        if claim.run_at > self.now:
            return
        granted = self.do(self.workers[worker].starting.start([claim]))
        if mine and model.state is State.CLAIMED:
            assert granted == [claim]
            self.step(model, Event.START)
        else:
            assert bool(granted) == (mine and model.state is State.RUNNING and not model.stop_asked)

    @precondition(lambda self: self.claims)
    @rule(choice=choices, event=st.sampled_from(list(ENDINGS)))
    def finish(self, choice: int, event: Event) -> None:
        claim, model, mine = self.pick(choice)
        before = self.do(self.shop.past(model.key))
        self.do(self.workers[0].settling.finish([self.shop.finish(claim, ENDINGS[event])]))
        if mine and model.state is not None and after(model.state, event) is not None:
            self.step(model, event)
        else:
            assert self.do(self.shop.past(model.key)) == before

    @precondition(lambda self: self.claims)
    @rule(choice=choices)
    def succeed(self, choice: int) -> None:
        claim, model, mine = self.pick(choice)
        self.do(self.workers[0].settling.succeed([claim], self.now))
        if mine and model.state is State.RUNNING:
            self.step(model, Event.SUCCEED)

    @precondition(lambda self: self.claims)
    @rule(choice=choices)
    def retry(self, choice: int) -> None:
        claim, model, mine = self.pick(choice)
        again = self.shop.again(claim)
        left = self.do(self.workers[0].settling.retry([again]))
        if mine and model.state is State.RUNNING and not model.stop_asked:
            assert left == []
            self.step(model, Event.RETRY)
            model.attempt += 1
            model.run_at = again.run_at
        else:
            assert left == [again]

    @precondition(lambda self: self.claims)
    @rule(choice=choices)
    def postpone(self, choice: int) -> None:
        claim, model, mine = self.pick(choice)
        again = msgspec.structs.replace(self.shop.again(claim), record=None)
        left = self.do(self.workers[0].settling.postpone([again]))
        if mine and not model.stop_asked:
            assert left == []
            self.step(model, Event.RELEASE)
            model.run_at = again.run_at
        else:
            assert left == [again]

    @precondition(lambda self: self.claims)
    @rule(choice=choices)
    def release(self, choice: int) -> None:
        claim, model, mine = self.pick(choice)
        given = self.do(self.workers[0].claiming.release([claim]))
        if mine and model.state is State.CLAIMED:
            assert given == 1
            self.step(model, Event.RELEASE)
            model.run_at = max(model.run_at, self.now)
        else:
            assert given == 0

    @precondition(lambda self: self.claims)
    @rule(choice=choices)
    def extend(self, choice: int) -> None:
        claim, model, mine = self.pick(choice)
        lost, cancelled = self.do(self.workers[0].claiming.extend([claim]))
        assert lost == ([] if mine else [claim])
        assert cancelled == ([claim] if mine and model.stop_asked else [])
        if mine:
            model.deadline = claim.deadline_at

    @rule(seconds=st.sampled_from((0, 1, CLAIM_TTL / 2, CLAIM_TTL + 3)))
    def reclaim(self, seconds: float) -> None:
        self.do(self.shop.time.advance(round(seconds * SECOND)))
        leases = Leases(self.shop.time.clock, 1000.0)
        leases.renewed({0: 1}, self.shop.time.clock.monotonic())
        part = Reclaimer(
            self.workers[1].reclaiming,
            self.workers[1].healing,
            leases,
            Telemetry(),
            Failpoints(),
            claim_ttl=10,
        )
        overdue = [m for m in self.models if m.token is not None and m.deadline <= self.now]
        assert self.do(part.run_once(self.now)).done == len(overdue)
        for model in overdue:
            self.take_back(model)

    def take_back(self, model: Model) -> None:
        if model.state is State.CLAIMED:
            self.step(model, Event.RECLAIM)
        elif model.stop_asked:
            self.step(model, Event.STOP)
        elif model.attempt - model.earlier >= MOST_ATTEMPTS:
            self.step(model, Event.DIE)
        else:
            self.step(model, Event.RECLAIM)
            model.attempt += 1
        model.run_at = self.now

    @invariant()
    def the_database_says_what_the_model_says(self) -> None:
        found = {row[0]: row for row in self.do(_states(self.shop))}
        for model in self.models:
            row = found.pop(model.key.job_id, None)
            assert (row and row["state"]) == model.state, model
            if row is not None:
                assert row["attempt"] == model.attempt, model
        assert not found

    def step(self, model: Model, event: Event) -> None:
        assert model.state is not None
        self.seen.add((model.state, event))
        model.become(event)

    def pick(self, choice: int) -> tuple[Claim, Model, bool]:
        """Some claim that was ever handed out, and whether it still counts."""
        claim = self.claims[choice % len(self.claims)]
        model = self.model_of(claim)
        return claim, model, model.token == claim.token

    def model_of(self, claim: Claim) -> Model:
        return next(model for model in self.models if model.key == claim.key)


async def _states(shop: Workshop) -> list[Any]:
    return await shop.plain.fetch(
        "SELECT job_id, attempt, CASE WHEN claim_token IS NULL THEN 'queued' WHEN started_at IS NULL THEN 'claimed'"
        " ELSE 'running' END AS state FROM executions UNION ALL SELECT job_id, attempt, state FROM history"
    )


@contextmanager
def workshop_of_walks(url: str) -> Iterator[None]:
    clock = VirtualClock(START)
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        LifecycleWalk.runner = runner
        LifecycleWalk.shop = runner.run(open_workshop(url, clock, size=1))
        LifecycleWalk.seen = set()
        yield
        runner.run(close_workshop(LifecycleWalk.shop))


def test_whatever_happens_an_execution_goes_only_where_the_table_allows(url: str) -> None:
    with workshop_of_walks(url):
        run_state_machine_as_test(
            LifecycleWalk,
            settings=settings(
                max_examples=25,
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_long_walks_take_every_step_of_the_table(url: str) -> None:
    with workshop_of_walks(url):
        for seed in range(12):
            _walk(LifecycleWalk(), random.Random(seed), steps=200)
    # Nothing expires or is skipped out of the queue itself: a worker holds what it ends that way.
    by_nobody = {(State.QUEUED, Event.SKIP), (State.QUEUED, Event.EXPIRE)}
    assert set(TRANSITIONS) - LifecycleWalk.seen == by_nobody


def _walk(walk: LifecycleWalk, rng: random.Random, steps: int) -> None:
    """Any operation at any time, with recent executions and claims more often than old ones."""
    for _ in range(steps):
        fresh = max(0, len(walk.claims) - 1 - rng.choice((0, 1, 3, 30)))
        name = rng.choice(("create", "claim", "client", "start", "start", "worker", "finish", "reclaim"))
        match name:
            case "create":
                walk.create(in_=rng.choice((0, 8)) * SECOND)
            case "claim":
                walk.claim(worker=rng.randrange(2), take=rng.choice((1, 1000)))
            case "reclaim":
                walk.reclaim(seconds=rng.choice((1, CLAIM_TTL + 3)))
            case "client" if walk.models:
                action = rng.choice(
                    (walk.cancel_execution, walk.cancel_job, walk.pause, walk.resume, walk.revive)
                )
                action(choice=rng.randrange(len(walk.models)))
            case "start" if walk.claims:
                walk.start(choice=fresh, worker=rng.randrange(2))
            case "worker" if walk.claims:
                rng.choice((walk.succeed, walk.retry, walk.postpone, walk.release, walk.extend))(choice=fresh)
            case "finish" if walk.claims:
                walk.finish(choice=fresh, event=rng.choice(list(ENDINGS)))
        walk.the_database_says_what_the_model_says()


def test_the_schema_lists_the_states_of_the_table(url: str) -> None:
    async def scenario() -> dict[str, str]:
        connection = await open_connection(url, name="test")
        rows = await connection.fetch(
            "SELECT conrelid::regclass::text AS place, pg_get_constraintdef(oid) AS text FROM pg_constraint"
            " WHERE contype = 'c' AND connamespace = 'tocsin'::regnamespace"
        )
        await connection.close()
        return {f"{row['place']} {row['text']}": row["text"] for row in rows}

    constraints = asyncio.run(scenario())
    listed = [
        set(_words(text)) for place, text in constraints.items() if place.startswith("history CHECK ((state")
    ]
    assert listed == [set(FINAL)]
    # Live states are not stored: they follow from the claim and the start, which the schema keeps consistent.
    live = " ".join(text for place, text in constraints.items() if place.startswith("executions "))
    assert "(started_at IS NULL) OR (claim_token IS NOT NULL)" in live
    assert "((claim_token IS NULL) = (node_id IS NULL))" in live
    assert "((claim_token IS NULL) = (deadline_at IS NULL))" in live


def _words(text: str) -> Iterator[str]:
    return (match[1] for match in re.finditer(r"'(\w+)'::text", text))


def test_what_statements_say_about_states_is_what_the_table_says() -> None:
    revivable = {state for state, event in TRANSITIONS if event is Event.REVIVE}
    text = statement("tocsin.store", "revive_execution")
    named = re.search(r"h\.state IN \(([^)]*)\)", text)
    assert named is not None
    assert {word.strip(" '") for word in named[1].split(",")} == revivable
    shown = set(re.findall(r"'(queued|claimed|running)'", statement("tocsin.store", "live_columns")))
    assert shown == set(LIVE)
