"""The checker itself: a clean run passes, and each kind of damage done to it by hand is found."""

from collections.abc import Callable
from uuid import UUID

import msgspec
import pytest

from tests.simulation.checker import check
from tests.simulation.records import Cancellation, Change, CursorMove, LeaseChange, Promise, Records, Row
from tests.simulation.target import Hit
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND

ONCE, OFTEN, SOLO = UUID(int=1), UUID(int=2), UUID(int=3)


def at(seconds: float) -> int:
    return round(seconds * SECOND)


def path(job_id: UUID, fire_at: int, *, token: int, end: str = "succeeded") -> list[Change]:
    """Born two seconds ahead, claimed one ahead, started on time, over half a second later."""
    common = {"job_id": job_id, "fire_at": fire_at, "run_at": fire_at}
    held = {"token": token, "deadline_at": fire_at + at(4)}
    return [
        Change(at=fire_at - at(2), what="born", state="queued", **common),
        Change(at=fire_at - at(1), what="changed", state="claimed", **common, **held),
        Change(at=fire_at, what="changed", state="running", started_at=fire_at, **common, **held),
        Change(at=fire_at + at(0.5), what="gone", state="running", started_at=fire_at, **common, **held),
        Change(at=fire_at + at(0.5), what="ended", state=end, started_at=fire_at, token=token, **common),
    ]


def row(job_id: UUID, fire_at: int, *, token: int) -> Row:
    return Row(
        job_id=job_id,
        fire_at=fire_at,
        state="succeeded",
        attempt=1,
        started_at=fire_at,
        finished_at=fire_at + at(0.5),
        token=token,
    )


def clean() -> Records:
    """A one-off; a recurring job with one attempt that was lost and repeated and a run of skips; a job that
    takes turns."""
    retried = [
        *path(OFTEN, at(20), token=3)[:3],
        Change(at=at(24), job_id=OFTEN, fire_at=at(20), what="changed", state="queued", attempt=2, run_at=at(24)),
        Change(
            at=at(25), job_id=OFTEN, fire_at=at(20), what="changed", state="running", attempt=2, run_at=at(24),
            token=4, started_at=at(25), deadline_at=at(29),
        ),
        Change(
            at=at(26), job_id=OFTEN, fire_at=at(20), what="ended", state="succeeded", attempt=2, run_at=at(24),
            token=4, started_at=at(25),
        ),
    ]  # fmt: skip
    lost = {"number": 1, "verdict": "lost", "started_at": at(20), "finished_at": at(24)}
    again = Row(
        job_id=OFTEN, fire_at=at(20), state="succeeded", attempt=2, attempts=[lost], started_at=at(25),
        finished_at=at(26), token=4,
    )  # fmt: skip
    skips = Row(
        job_id=OFTEN,
        fire_at=at(30),
        state="skipped",
        attempt=1,
        finished_at=at(99),
        fire_until=at(50),
        fire_count=3,
    )
    return Records(
        promises=[
            Promise(job_id=ONCE, name="once", fire_times=[at(5)]),
            Promise(job_id=OFTEN, name="often", fire_times=[at(10), at(20), at(30), at(40), at(50)]),
            Promise(job_id=SOLO, name="solo", fire_times=[at(60), at(70)], overlap="skip", limit_key="k", max_parallel=1),
        ],
        rows=[
            row(ONCE, at(5), token=1),
            row(OFTEN, at(10), token=2),
            again,
            skips,
            row(SOLO, at(60), token=5),
            row(SOLO, at(70), token=6),
        ],
        changes=[
            *path(ONCE, at(5), token=1),
            *path(OFTEN, at(10), token=2),
            *retried,
            *path(SOLO, at(60), token=5),
            *path(SOLO, at(70), token=6),
        ],
        hits=[
            Hit(at(5), ExecutionKey(ONCE, at(5)), 1, 1),
            Hit(at(10), ExecutionKey(OFTEN, at(10)), 1, 2),
            Hit(at(20), ExecutionKey(OFTEN, at(20)), 1, 3),
            Hit(at(25), ExecutionKey(OFTEN, at(20)), 2, 4),
            Hit(at(60), ExecutionKey(SOLO, at(60)), 1, 5),
            Hit(at(70), ExecutionKey(SOLO, at(70)), 1, 6),
        ],
        moves=[
            CursorMove(
                at=at(8), job_id=OFTEN, shard=0, before=at(10), after=at(30), writer="7,0:2", owner=7, epoch=2,
                expires_at=at(12),
            ),
        ],
        leases=[
            LeaseChange(at=at(0), shard=0, owner_before=None, epoch_before=0, expired_before=0, owner=6, epoch=1),
            LeaseChange(at=at(6), shard=0, owner_before=6, epoch_before=1, expired_before=at(4), owner=7, epoch=2),
        ],
    )  # fmt: skip


def test_a_clean_run_passes() -> None:
    assert check(clean()) == []


Damage = Callable[[Records], None]


def edit(items: str, place: int, **changes: object) -> Damage:
    def do(records: Records) -> None:
        things = getattr(records, items)
        things[place] = msgspec.structs.replace(things[place], **changes)

    return do


def add(items: str, thing: object) -> Damage:
    return lambda records: getattr(records, items).append(thing)


def drop(items: str, place: int) -> Damage:
    return lambda records: getattr(records, items).pop(place)


def cancelled(answer: str, moment: float) -> Damage:
    return add("cancellations", Cancellation(ExecutionKey(ONCE, at(5)), at(moment), answer))


DAMAGE: dict[str, tuple[str, Damage]] = {
    "a service that failed": ("service", add("errors", "planner raised KeyError")),
    "a fire time without a row": ("fire times", drop("rows", 1)),
    "a one-off without a row": ("fire times", drop("rows", 0)),
    "a fire time with two rows": ("fire times", add("rows", row(OFTEN, at(10), token=9))),
    "a fire time that is live and over": ("fire times", add("live", row(OFTEN, at(10), token=9))),
    "a fire time that nobody asked for": ("phantom", add("rows", row(OFTEN, at(11), token=9))),
    "a job that nobody defined": ("phantom", add("rows", row(UUID(int=9), at(10), token=9))),
    "a run of skips that is too short": ("fire times", edit("rows", 3, fire_until=at(40))),
    "a run of skips that counts wrong": ("fire times", edit("rows", 3, fire_count=4)),
    "a skip of what is still to come": ("skips", edit("rows", 3, finished_at=at(45))),
    "too many fires": ("fire times", lambda records: setattr(records.promises[1], "most_fires", 1)),
    "a fire after the job was cancelled": ("phantom", lambda r: setattr(r.promises[1], "ended_before", at(20))),
    "work left over": ("leftover", add("live", row(ONCE, at(5), token=9))),
    "a schedule that never ended": ("leftover", add("unfinished", str(OFTEN))),
    "an end without a start": ("lifecycle", drop("changes", 2)),
    "a success out of the queue": ("lifecycle", edit("changes", 2, state="queued", token=None)),
    "an execution made again after its end": ("lifecycle", lambda r: r.changes.extend(path(ONCE, at(5), token=8))),
    "a start under another claim": ("lifecycle", edit("changes", 2, token=99)),
    "an attempt number that jumps": ("lifecycle", edit("changes", 13, attempt=3)),
    "a call that did not count": ("lifecycle", lambda r: [edit("changes", n, attempt=1)(r) for n in (13, 14, 15)]),
    "a revival of a success": ("lifecycle", lambda r: r.changes.extend(_revived(ONCE, at(5)))),
    "a claim taken back before its deadline": ("overlap", edit("changes", 13, at=at(23))),
    "an attempt started before the one before it was over": ("overlap", edit("changes", 14, started_at=at(21))),
    "a start before its time": ("early", edit("changes", 2, started_at=at(4.9))),
    "a call before its fire time": ("early", edit("hits", 0, at=at(4.9))),
    "a start after its latest start": ("late", lambda r: setattr(r.promises[1], "start_within", at(-0.1))),
    "a fire after its latest start": (
        "late",
        lambda r: (setattr(r.promises[1], "start_within", SECOND), edit("rows", 1, started_at=at(11.1))(r)),
    ),
    "attempts with a gap": ("attempts", edit("rows", 2, attempt=3)),
    "an attempt after a success": ("attempts", lambda r: r.rows[2].attempts[0].update(verdict="succeeded")),
    "more attempts than allowed": ("attempts", lambda r: setattr(r.promises[1], "max_attempts", 1)),
    "a call that was never started": ("calls", edit("hits", 0, token=77)),
    "two calls of one attempt": ("calls", add("hits", Hit(at(5.1), ExecutionKey(ONCE, at(5)), 1, 1))),
    "a call of an attempt without a record": ("calls", edit("rows", 2, attempts=[], attempt=1)),
    "a call of nothing": ("calls", add("hits", Hit(at(5), ExecutionKey(ONCE, at(6)), 1, 1))),
    "a success whose call went badly": ("truth", edit("hits", 0, fate="bad")),
    "a success whose call was another claim's": ("truth", edit("rows", 0, token=8)),
    "a death whose call went well": ("truth", lambda r: (edit("rows", 0, state="dead")(r), edit("hits", 0, heard=True)(r))),
    "an expiry without a latest start": ("truth", edit("rows", 0, state="expired")),
    "a start after a cancellation": ("cancel", cancelled("cancelled", 4)),
    "a start after a stop was asked for": ("cancel", cancelled("running", 4)),
    "a cancellation that ended otherwise": ("cancel", cancelled("cancelled", 6)),
    "a cancellation by nobody": ("cancel", edit("rows", 0, state="cancelled")),
    "two at once of a job that takes turns": ("solo", lambda r: _end_late(r.changes)),
    "more at once than a limit allows": ("limit", lambda r: _end_late(r.changes)),
    "an epoch that does not grow": ("lease", edit("leases", 1, epoch=1)),
    "a lease taken from somebody who had it": ("lease", edit("leases", 1, expired_before=at(9))),
    "a plan under an old epoch": ("lease", edit("moves", 0, writer="7,0:1")),
    "a plan under another node's lease": ("lease", edit("moves", 0, owner=6)),
    "a plan under a lease that had expired": ("lease", edit("moves", 0, expires_at=at(7))),
    "a cursor that a planner moved back": ("lease", edit("moves", 0, after=at(9))),
}  # fmt: skip


def _end_late(changes: list[Change]) -> None:
    """The first execution of the job that takes turns is over only after the second."""
    ends = [c for c in changes if (c.job_id, c.fire_at) == (SOLO, at(60)) and c.what in ("gone", "ended")]
    changes[:] = [change for change in changes if change not in ends] + ends


def _revived(job_id: UUID, fire_at: int) -> list[Change]:
    return [
        Change(at=at(90), job_id=job_id, fire_at=fire_at, what="revived", state="succeeded"),
        Change(
            at=at(90), job_id=job_id, fire_at=fire_at, what="born", state="queued", attempt=2, run_at=at(90)
        ),
    ]


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(what: str) -> None:
    rule, damage = DAMAGE[what]
    records = clean()
    damage(records)
    assert rule in {violation.rule for violation in check(records)}, check(records)
