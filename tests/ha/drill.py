"""A fault of the database under load, and what everybody saw of it.

The load is that of the promise: 50 creations and 20 recurring fires a second. Observers time every call of
the API, watch `/readyz`, and note what is fired. The figures are printed; the promises are checked, with room
for a machine that has other things to do (`TOCSIN_HA_STRICT=1` takes the room away).
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.acceptance.fleet import Fleet, until
from tests.acceptance.fleet_client import Answer, Client, NoAnswer
from tests.acceptance.fleet_load import now
from tests.ha.servers import Place, commits, writable
from tests.support.checker import Verdict
from tests.support.figures import Note, put_down
from tests.support.history import SECOND
from tests.support.processes import Process
from tocsin.api.problems import OUTCOME_UNKNOWN

STRICT = bool(os.environ.get("TOCSIN_HA_STRICT"))
ROOM = 1.0 if STRICT else 4.0
CREATIONS = 50.0
RECURRING = 20


class TimedClient(Client):
    """Notes how long each answer took, and how many asked for patience."""

    longest = 0.0
    put_off = 0

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        began = time.monotonic()
        try:
            answer = await super().ask(method, path, body)
        finally:
            self.longest = max(self.longest, time.monotonic() - began)
        if answer.status == 503:
            # Who does not know whether it was done should not simply repeat it.
            assert "retry-after" in answer.headers or answer.body["type"] == OUTCOME_UNKNOWN, answer
            self.put_off += 1
        return answer


class Drill:
    """One fleet, one fault after the other. What was seen is put down in `note`."""

    def __init__(self, fleet: Fleet, note: Note) -> None:
        self.fleet = fleet
        self._note = note
        self.client = TimedClient(fleet.client._port, connections=512)
        fleet.client = fleet.load._client = self.client
        self._probe = Client(self.client._port)
        self.figures: dict[str, Any] = {}
        self._readiness: list[tuple[float, bool]] = []

    @asynccontextmanager
    async def under_load(self, seconds: float) -> AsyncIterator[None]:
        """The load, and for so many seconds recurring fires; the observers, too."""
        await self.fleet.load.everies(RECURRING, now() + round(seconds * SECOND), longest=1)
        watching = asyncio.create_task(self._watch())
        try:
            async with self.fleet.under_load(per_second=CREATIONS, ahead=2.0):
                await until(lambda: len(self.fleet.sink.hits) > RECURRING, 20, "nothing fires")
                yield
        finally:
            watching.cancel()
            self._probe.close()

    @asynccontextmanager
    async def fault(self, name: str) -> AsyncIterator["Fault"]:
        """The body breaks something, and mends it (`back`); then we wait until all is well."""
        fault = Fault(self, name)
        noted = self.fleet.note(name, "database")
        yield fault
        assert fault.back_at, "the fault never ended"
        await until(lambda: fault.resumed() is not None, 30, "nothing fires")
        await until(lambda: self._ready_after(fault.back_at), 30, "the API is not ready")
        noted.proof, noted.ended_at = "the servers are the test's own", now()
        self.figures[name] = fault.figures()
        print(f"HA {name}: {json.dumps(self.figures[name])}", flush=True)
        put_down(self._note, "faults of the database", {"fault": name} | self.figures[name])

    async def note_lag(self, name: str, primary: Place, *, after: float, seconds: float) -> None:
        """How late calls arrive while nothing is broken, of jobs that were there a second before: much less
        late than a bare commit takes at the same moment, for which every start would wait without a lead."""
        await asyncio.sleep(after)
        before = len(self.fleet.sink.hits)
        bare = await commits(primary, seconds)
        known = {create.job_id: create.answered_at for create in self.fleet.load.creates}
        lags = [
            (hit.received_at - hit.key.fire_at) / 1000
            for hit in self.fleet.sink.hits[before:]
            if hit.attempt == 1 and hit.key.fire_at - known.get(hit.key.job_id, hit.key.fire_at) > SECOND
        ]
        (p50, p99), (bare_p50, bare_p99) = _quantiles(lags), _quantiles(bare)
        seen = {"p50_ms": p50, "p99_ms": p99, "commit_p50_ms": bare_p50, "commit_p99_ms": bare_p99}
        self.figures[f"lag {name}"] = seen
        put_down(self._note, "start lag beside a bare commit", {"commits": name, "calls": len(lags)} | seen)
        if STRICT:
            assert (p50 <= 5, p99 <= 40) == (True, True), seen
        assert p50 <= bare_p50 / 2, seen
        assert p99 <= 4 * bare_p99, seen

    async def judge(self) -> Verdict:
        """Everything kept? Prints the figures."""
        verdict = await self.fleet.judge()
        again = await self.fleet.query(
            "SELECT count(*) AS twice FROM history WHERE jsonb_path_exists(attempts, '$[*] ? (@.verdict == \"lost\")')"
        )
        print(
            f"HA executions with a lost attempt: {again[0]['twice']}; broken promises: {len(verdict.violations)}"
        )
        return verdict

    def _ready_after(self, moment: float) -> bool:
        at, well = self._readiness[-1]
        return well and at > moment

    async def _watch(self) -> None:
        while True:
            try:
                ready = await asyncio.wait_for(self._probe.works("/readyz"), 2)
            except (TimeoutError, NoAnswer):
                ready = False
            self._readiness.append((time.monotonic(), ready))
            await asyncio.sleep(0.05)

    @property
    def processes(self) -> list[Process]:
        return [self.fleet.api, *self.fleet.nodes]


class Fault:
    """One fault, from its first moment until all is well."""

    def __init__(self, drill: Drill, name: str) -> None:
        self._drill = drill
        self._name = name
        self._began = time.monotonic()
        self._lines = {process.name: _lines(process.log) for process in drill.processes}
        self.back_at = 0.0
        drill.client.longest, drill.client.put_off = 0.0, 0

    async def is_noticed(self) -> None:
        """Until the API says that it is not ready, and has asked somebody for patience."""
        await until(lambda: self._unready() is not None, 30, "the API goes on saying that it is ready")
        await until(lambda: self._drill.client.put_off > 0, 30, "nobody is asked for patience")

    async def back(self, server: Place) -> None:
        """Wait until there is a writable server again, at one of these places."""
        while not await writable(server):
            await asyncio.sleep(0.02)
        self.back_at = time.monotonic()

    def resumed(self) -> float | None:
        """Seconds from the writable primary to the first call."""
        hits = [hit.mono for hit in self._drill.fleet.sink.hits[-2000:] if hit.mono > self.back_at]
        return min(hits) - self.back_at if hits else None

    def figures(self) -> dict[str, Any]:
        """What was seen. Promises are checked here."""
        ready = min(at for at, well in self._drill._readiness if well and at > self.back_at) - self.back_at
        unready = self._unready()
        lines = {
            process.name: _lines(process.log) - self._lines[process.name] for process in self._drill.processes
        }
        seen = {
            "away_s": round(self.back_at - self._began, 2),
            "firing_s": round(self.resumed() or 0, 2),
            "ready_s": round(ready, 2),
            "unready_s": None if unready is None else round(unready, 2),
            "longest_call_s": round(self._drill.client.longest, 2),
            "put_off": self._drill.client.put_off,
            "log_lines": max(lines.values()),
        }
        assert seen["firing_s"] <= 3 * ROOM, seen
        assert seen["ready_s"] <= 3 * ROOM, seen
        assert unready is None or unready <= 2 * ROOM, seen
        assert seen["longest_call_s"] <= 5 + 1.5 * (ROOM - 1), seen
        assert seen["log_lines"] <= 20 + 10 * (ROOM - 1), (seen, self._words())
        return seen

    def _unready(self) -> float | None:
        found = [at for at, well in self._drill._readiness if not well and at > self._began]
        return min(found) - self._began if found else None

    def _words(self) -> str:
        return "\n".join(process.output()[-3000:] for process in self._drill.processes)


STORIES = '"job.created"', '"attempt.finished"'
"""Events that tell what became of a job, a line each, whatever the database does."""


def _quantiles(found: Sequence[float]) -> tuple[float, float]:
    """The one in the middle, and the one that one in a hundred exceeds."""
    ordered = sorted(found)
    return round(ordered[len(ordered) // 2], 1), round(ordered[len(ordered) * 99 // 100], 1)


def _lines(log: Path) -> int:
    """How many lines a log has beside the stories of jobs. All are JSON: nothing prints beside our own
    logger."""
    lines = log.read_text().splitlines() if log.exists() else []
    for line in lines:
        assert line.startswith("{"), f"not ours: {line}"
    return sum(not any(story in line for story in STORIES) for line in lines)
