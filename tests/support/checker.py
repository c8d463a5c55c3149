"""Judges a run: was every promise kept?

`check` takes a `History` and returns a `Verdict` with every broken promise, the numbers behind it, and for
the first offender its whole timeline. It is pure, knows nothing of the product's code, and is itself tested
with histories that are wrong on purpose (`tests/unit/test_checker.py`).

=====  =======================================================================================================
I1     an acknowledged job is there; a refused one is not; an unknown one is there at most once
I2     every due (job, fire time) has exactly one final row, and it is one that the schedule names
I3     nothing exists, and nothing was called, that nobody asked for
I4     attempts are numbered 1, 2, 3 … without a gap; only a success or the last attempt is left unrecorded
I5     a shard's epoch grows with every owner, and no owner is replaced before its lease has expired
I8     a second call has a recorded reason, an attempt calls at most once, workers get lost only by faults
I9     `succeeded` means that the sink received that very attempt and answered 2xx, and rests on that answer
I10    `cancelled` in a client's hands means that no attempt was or will be made, and the final row says so;
       asked to stop is only what had started, and an end that was told is the end
I11    no fire time is skipped or expired (the jobs of these runs ask for all of them)
I12    no more attempts than the job allows, and it is given up only after the last of them
I13    nothing is called before its fire time
I16    after the run nothing is left over: every execution is final, every schedule is exhausted
=====  =======================================================================================================

The oracle for I2 is arithmetic: a one-off fires at its instant; `every` fires at the multiples of its
interval. A fire time between a creation's request and its answer may be in or out, because the moment of
creation lies there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from tests.support.history import Create, History, Hit, Key, LeaseChange, Row, answer_to

_LIVE = ("queued", "claimed", "running")
_FINAL = ("succeeded", "dead", "cancelled", "skipped", "expired")
_SHOWN = 20
_CLOCKS_DIFFER = 50_000
"""Microseconds by which the clock of a process may differ from the database's."""


class Violation(msgspec.Struct, frozen=True):
    """A broken promise."""

    invariant: str
    words: str
    key: Key | None = None

    def __str__(self) -> str:
        return f"{self.invariant}: {self.words}" + (f" [{self.key}]" if self.key else "")


class Verdict(msgspec.Struct, frozen=True):
    """The judgement of a run."""

    violations: list[Violation]
    counts: dict[str, int]
    timeline: list[str]

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    def report(self) -> str:
        """The verdict in words."""
        lines = ["every promise was kept" if self.good else f"{len(self.violations)} broken promises"]
        lines += [f"  {violation}" for violation in self.violations[:_SHOWN]]
        lines += [f"  {name}: {number}" for name, number in sorted(self.counts.items())]
        if self.timeline:
            lines += ["the first offender:", *(f"  {line}" for line in self.timeline)]
        return "\n".join(lines)


def check(history: History) -> Verdict:
    """Judge a run that has come to rest."""
    run = _Run(history)
    violations = [
        *_creations(run),
        *_fire_times(run),
        *_phantoms(run),
        *_attempts(run),
        *_calls(run),
        *_successes(run),
        *_cancellations(run),
        *_left_out(run),
        *_leftovers(run),
        *_leases(history.leases),
    ]
    offender = next((violation.key for violation in violations if violation.key), None)
    return Verdict(violations, _counts(run), _timeline(run, offender) if offender else [])


class _Run:
    """A history with the look-ups that the checks share."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.ids_of_label: dict[str, list[str]] = defaultdict(list)
        for job in history.jobs:
            if job.label is not None:
                self.ids_of_label[job.label].append(job.id)
        self.job_of_id = {job.id: job for job in history.jobs}
        self.create_of_id = dict(self._jobs_that_should_be())
        self.rows_of_job: dict[str, list[Row]] = defaultdict(list)
        self.row_of_key: dict[Key, Row] = {}
        for row in (*history.lives, *history.finals):
            self.rows_of_job[row.key.job_id].append(row)
            self.row_of_key[row.key] = row
        self.hits_of_key: dict[Key, list[Hit]] = {}
        for hit in history.hits:
            self.hits_of_key.setdefault(hit.key, []).append(hit)

    def hits(self, key: Key) -> list[Hit]:
        """The calls of one execution."""
        return self.hits_of_key.get(key, [])

    def _jobs_that_should_be(self) -> Iterator[tuple[str, Create]]:
        for create in self.history.creates:
            if create.job_id is not None:
                yield create.job_id, create
            elif create.answer == "unknown":
                for job_id in self.ids_of_label[create.label]:
                    yield job_id, create


def _creations(run: _Run) -> Iterator[Violation]:
    for create in run.history.creates:
        found = run.ids_of_label[create.label]
        if create.answer == "ok":
            if create.job_id not in run.job_of_id:
                yield Violation("I1", f"the acknowledged job {create.label} ({create.job_id}) is gone")
            elif len(found) > 1:
                yield Violation("I1", f"one request made {len(found)} jobs named {create.label}")
        elif create.answer == "refused" and found:
            yield Violation("I1", f"the refused job {create.label} exists")
        elif create.answer == "unknown" and len(found) > 1:
            yield Violation("I1", f"one unanswered request made {len(found)} jobs named {create.label}")


def _fire_times(run: _Run) -> Iterator[Violation]:
    for job_id, create in run.create_of_id.items():
        if job_id not in run.job_of_id:
            continue  # I1 has said so
        must, may = _oracle(create, run.history.slept)
        seen = Counter(row.key.fire_at for row in run.rows_of_job[job_id])
        for fire_at in sorted(must - seen.keys()):
            yield Violation("I2", f"{create.label} has no row for this fire time", Key(job_id, fire_at))
        for fire_at, number in sorted(seen.items()):
            if fire_at not in may:
                yield Violation("I2", f"{create.label} does not fire at this time", Key(job_id, fire_at))
            if number > 1:
                yield Violation("I2", f"{create.label} has {number} rows for this time", Key(job_id, fire_at))


def _oracle(create: Create, slept: int) -> tuple[set[int], set[int]]:
    """The fire times that must have a row, and those that may."""
    if create.at is not None:
        return {create.at}, {create.at}
    if create.every is None or create.until is None:
        raise ValueError(f"{create.label} has no schedule that the oracle knows")
    first = ((create.invoked_at - _CLOCKS_DIFFER - slept) // create.every + 1) * create.every
    may = set(range(first, create.until + 1, create.every))
    return {fire_at for fire_at in may if fire_at > create.answered_at + _CLOCKS_DIFFER}, may


def _phantoms(run: _Run) -> Iterator[Violation]:
    labels = {create.label for create in run.history.creates}
    for job in run.history.jobs:
        if job.label not in labels:
            yield Violation("I3", f"nobody asked for the job {job.label} ({job.id})")
    for job_id, rows in run.rows_of_job.items():
        if job_id not in run.create_of_id:
            yield Violation("I3", f"{len(rows)} executions of a job that nobody asked for", rows[0].key)
    for key in run.hits_of_key:
        if key not in run.row_of_key:
            yield Violation("I3", "a call for an execution that does not exist", key)


def _attempts(run: _Run) -> Iterator[Violation]:
    for row in run.row_of_key.values():
        numbers = [record.number for record in row.attempts]
        if numbers != list(range(1, row.attempt)):
            yield Violation(
                "I4", f"attempt {row.attempt} is preceded by attempts {numbers} in the record", row.key
            )
        if any(record.verdict == "succeeded" for record in row.attempts):
            yield Violation("I4", "it was tried again after a success", row.key)
        create = run.create_of_id.get(row.key.job_id)
        if create is None:
            continue
        if row.attempt > create.max_attempts:
            yield Violation("I12", f"{row.attempt} attempts, {create.max_attempts} allowed", row.key)
        if row.state == "dead" and row.attempt < create.max_attempts:
            yield Violation(
                "I12", f"given up after {row.attempt} of {create.max_attempts} attempts: {row.error}", row.key
            )


def _calls(run: _Run) -> Iterator[Violation]:
    faults = len(run.history.faults)
    for key, hits in run.hits_of_key.items():
        row = run.row_of_key.get(key)
        if row is None:
            continue  # I3 has said so
        if min(hit.received_at for hit in hits) < key.fire_at:
            early = key.fire_at - min(hit.received_at for hit in hits)
            yield Violation("I13", f"called {early} µs before its fire time", key)
        for attempt, number in Counter(hit.attempt for hit in hits).items():
            if number > 1:
                yield Violation("I8", f"attempt {attempt} called {number} times", key)
        recorded = {record.number for record in row.attempts} | {row.attempt}
        if strays := {hit.attempt for hit in hits} - recorded:
            yield Violation("I8", f"calls of attempts {sorted(strays)}, which are not in the record", key)
        if len(hits) - 1 > len(row.attempts):
            yield Violation("I8", f"{len(hits)} calls, but {len(row.attempts)} recorded reasons", key)
    for row in run.row_of_key.values():
        if not faults and any(record.verdict == "lost" for record in row.attempts):
            yield Violation("I8", "its worker was lost although nothing was broken", row.key)


def _successes(run: _Run) -> Iterator[Violation]:
    for row in run.row_of_key.values():
        if row.state != "succeeded":
            continue
        good = [hit.attempt for hit in run.hits(row.key) if 200 <= hit.status < 300]
        if row.attempt not in good:
            seen = {hit.attempt: hit.status for hit in run.hits(row.key)}
            yield Violation(
                "I9", f"attempt {row.attempt} counts as succeeded, but the sink saw {seen}", row.key
            )
        if row.answer is not None and row.answer != answer_to(row.attempt):
            yield Violation("I9", f"attempt {row.attempt} counts as succeeded by the {row.answer}", row.key)


def _cancellations(run: _Run) -> Iterator[Violation]:
    asked = {cancel.key for cancel in run.history.cancels if cancel.answer != "too_late"}
    for cancel in run.history.cancels:
        row = run.row_of_key.get(cancel.key)
        if row is None:
            continue  # I2 has said so
        if cancel.answer == "cancelled":
            if row.state != "cancelled":
                yield Violation("I10", f"answered cancelled, but it ended as {row.state}", row.key)
            if hits := run.hits(row.key):
                yield Violation("I10", f"answered cancelled, but attempt {hits[0].attempt} called", row.key)
        if cancel.answer == "asked_to_stop" and row.started_at is None and not row.attempts:
            yield Violation("I10", "answered that it was asked to stop, but it had never started", row.key)
        if cancel.final_state not in (None, row.state):
            yield Violation("I10", f"answered {cancel.final_state}, but it ended as {row.state}", row.key)
        if cancel.answer == "too_late" and row.state in ("cancelled", *_LIVE):
            yield Violation("I10", f"answered too late, but it ended as {row.state}", row.key)
    for row in run.row_of_key.values():
        if row.state == "cancelled" and row.key not in asked:
            yield Violation("I10", "cancelled, although nobody called it off", row.key)


def _left_out(run: _Run) -> Iterator[Violation]:
    for row in run.history.finals:
        if row.state in ("skipped", "expired"):
            yield Violation("I11", f"{row.fire_count} fire times {row.state}: {row.error}", row.key)


def _leftovers(run: _Run) -> Iterator[Violation]:
    for row in run.history.lives:
        yield Violation("I16", f"still {row.state} after the run", row.key)
    for row in run.history.finals:
        if row.state not in _FINAL:
            yield Violation("I16", f"{row.state} is no final state", row.key)
        started_at = row.started_at or 0
        if row.finished_at is None or row.finished_at < started_at - _CLOCKS_DIFFER:
            yield Violation("I16", f"finished at {row.finished_at}, started at {row.started_at}", row.key)
    for job in run.history.jobs:
        if job.kind == "recurring" and job.state != "completed":
            yield Violation("I16", f"the schedule of {job.label} is over, but the job is {job.state}")


def _leases(changes: list[LeaseChange]) -> Iterator[Violation]:
    newest: dict[int, LeaseChange] = {}
    for change in changes:
        before = newest.get(change.shard)
        if before is not None and (change.before_owner, change.before_epoch) != (before.owner, before.epoch):
            yield Violation("I5", f"shard {change.shard}: a change of owner went unseen")
        if change.owner is not None and change.epoch <= change.before_epoch:
            yield Violation("I5", f"shard {change.shard}: epoch {change.epoch} follows {change.before_epoch}")
        taken = change.before_owner is not None and change.owner not in (None, change.before_owner)
        if taken and (change.before_expires_at is None or change.before_expires_at > change.at):
            yield Violation(
                "I5", f"shard {change.shard}: taken from node {change.before_owner} before its lease expired"
            )
        newest[change.shard] = change


def _counts(run: _Run) -> dict[str, int]:
    history = run.history
    states = Counter(row.state for row in history.finals)
    lost = sum(record.verdict == "lost" for row in run.row_of_key.values() for record in row.attempts)
    return {
        **{f"creates {answer}": number for answer, number in Counter(c.answer for c in history.creates).items()},
        **{f"cancels {answer}": number for answer, number in Counter(c.answer for c in history.cancels).items()},
        **{f"executions {state}": number for state, number in states.items()},
        **{f"faults {what}": number for what, number in Counter(f.what for f in history.faults).items()},
        "attempts lost": lost,
        "calls": len(history.hits),
        "calls repeated": len(history.hits) - len(run.hits_of_key),
        "lease changes": len(history.leases),
    }  # fmt: skip


def _timeline(run: _Run, key: Key) -> list[str]:
    """Everything known about one execution, and the faults of the run, in order."""
    return [f"{(at - key.fire_at) / 1e6:+10.3f} s  {words}" for at, words in sorted(_moments(run, key))]


def _moments(run: _Run, key: Key) -> Iterator[tuple[int, str]]:
    yield key.fire_at, "fire time"
    create = run.create_of_id.get(key.job_id)
    if create is not None:
        yield create.invoked_at, f"create {create.label} asked for"
        yield create.answered_at, f"create answered: {create.answer}"
    for cancel in run.history.cancels:
        if cancel.key == key:
            yield key.fire_at, f"cancel answered: {cancel.answer}"
    for hit in run.hits(key):
        yield hit.received_at, f"call of attempt {hit.attempt}, answered {hit.status}"
    for row in (*run.history.finals, *run.history.lives):
        if row.key == key:
            records = ", ".join(f"{record.number} {record.verdict}" for record in row.attempts) or "none"
            words = f"row: {row.state}, attempt {row.attempt}, earlier: {records}, {row.error or 'no error'}"
            yield row.finished_at or row.started_at or key.fire_at, words
            if row.started_at is not None:
                yield row.started_at, f"attempt {row.attempt} started by the database's clock"
    for fault in run.history.faults:
        yield fault.began_at, f"fault: {fault.what} {fault.victim} ({fault.proof})"
