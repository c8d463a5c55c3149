"""The clients of a run: they create and cancel jobs, and note what they asked for and what they were told.

Jobs name their fire times themselves (instants, or intervals with an end), so that the checker's oracle needs
nothing from the product. Every job has a name of its own, by which an unanswered creation is found again.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Iterable
from typing import Any

from tests.acceptance.fleet_client import Answer, Client, NoAnswer
from tests.support.history import SECOND, Cancel, Create, Key
from tocsin.domain.ids import ExecutionKey, execution_text, parse_job_text
from tocsin.domain.instant import format_instant

# A worker that is lost costs an attempt; runs full of crashes must not use them up.
PATIENT = {"max_attempts": 50, "initial_backoff": "100ms", "max_backoff": "1s"}


_OVER = ("succeeded", "dead", "expired", "completed")  # how a cancel that came too late says that it did
_PATHS = ("/ok", "/ok", "/ok", "/slow/0.2", "/slow/1", "/fail/1")


def now() -> int:
    """The instant by this machine's clock, which is the database's too."""
    return time.time_ns() // 1000


class Load:
    """Everything that clients did in one run."""

    def __init__(self, client: Client, sink_url: str, rng: random.Random) -> None:
        self.creates: list[Create] = []
        self.cancels: list[Cancel] = []
        self.defects: list[Answer] = []
        """Answers that no fault excuses."""
        self._client = client
        self._sink_url = sink_url
        self._rng = rng
        self._numbers = itertools.count(1)

    async def one_off(self, at: int, path: str = "/ok", **more: Any) -> Create:
        """Ask for a call at an instant."""
        create = Create(label=self._label("once"), answer="unknown", invoked_at=now(), answered_at=0, at=at)
        return await self._create(create, {"at": format_instant(at)}, path, more)

    async def every(self, seconds: int, until: int, path: str = "/ok", **more: Any) -> Create:
        """Ask for a call every so many seconds, for the last time at or before `until`."""
        create = Create(
            label=self._label("every"),
            answer="unknown",
            invoked_at=now(),
            answered_at=0,
            every=seconds * SECOND,
            until=until,
        )
        schedule = {"every": f"{seconds}s", "ends_at": format_instant(until)}
        return await self._create(create, schedule, path, {"misfire": "fire_all"} | more)

    async def one_offs(self, instants: Iterable[int], path: str = "/ok") -> list[Create]:
        """Many at once."""
        return await together(self.one_off(at, path) for at in instants)

    async def everies(self, number: int, until: int, longest: int = 5) -> list[Create]:
        """Many recurring jobs with intervals from one second to `longest`."""
        return await together(self.every(self._rng.randint(1, longest), until) for _ in range(number))

    async def flow(self, stop: asyncio.Event, *, per_second: float, ahead: float = 3.0) -> None:
        """Ask steadily for one-offs due within `ahead` seconds and, now and then, a short-lived recurring
        job.

        Some of the calls take a while, so that workers die in the middle of them; some fail once.
        """
        async with asyncio.TaskGroup() as tasks:
            for number in itertools.count(1):
                at = now() + round(self._rng.uniform(0.05, ahead) * SECOND)
                tasks.create_task(self.one_off(at, self._rng.choice(_PATHS)))
                if number % 20 == 0:
                    tasks.create_task(self.every(self._rng.randint(1, 3), until=now() + 5 * SECOND))
                if await _is_set_within(stop, self._rng.uniform(0.5, 1.5) / per_second):
                    return

    async def cancel_job(self, create: Create) -> Cancel:
        """Call a one-off off by its job."""
        assert create.job_id is not None
        return await self._cancel(create, f"/v1/jobs/{create.job_id}/cancel")

    async def cancel_execution(self, create: Create) -> Cancel:
        """Call a one-off off by its execution."""
        assert create.job_id is not None
        key = ExecutionKey(parse_job_text(create.job_id), create.at or 0)
        return await self._cancel(create, f"/v1/executions/{execution_text(key)}/cancel")

    async def _create(
        self, create: Create, schedule: dict[str, Any], path: str, more: dict[str, Any]
    ) -> Create:
        self.creates.append(create)
        target = {"kind": "http", "url": self._sink_url + path, "timeout": "10s"}
        body = {"name": create.label, "schedule": schedule, "target": target, "retry": PATIENT} | more
        create.max_attempts = body["retry"]["max_attempts"]
        try:
            answer = await self._ask("/v1/jobs", body)
        except NoAnswer:
            create.answered_at = now()
            return create
        create.answered_at = now()
        if answer.status == 201:
            create.answer, create.job_id = "ok", answer.body["id"]
        elif answer.status < 500:
            create.answer = "refused"
        return create

    async def _cancel(self, create: Create, path: str) -> Cancel:
        cancel = Cancel(key=Key(create.job_id or "", create.at or 0), answer="unknown", mono=0)
        self.cancels.append(cancel)
        try:
            answer = await self._ask(path)
        except NoAnswer:
            cancel.mono = time.monotonic()
            return cancel
        cancel.mono = time.monotonic()
        if answer.status == 409:
            cancel.answer = "too_late"
            if answer.body["detail"].split()[-1] not in _OVER:
                self.defects.append(answer)
        elif answer.status == 200:
            if (told := _told(answer.body)) is None:
                self.defects.append(answer)
            else:
                cancel.answer, cancel.final_state = told
        return cancel

    async def _ask(self, path: str, body: Any = None) -> Answer:
        answer = await self._client.post(path, body)
        if answer.status >= 500 and answer.status != 503:
            self.defects.append(answer)
        return answer

    def _label(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}"


def _told(body: Any) -> tuple[str, str | None] | None:
    """What an answer says was done to a one-off's execution, and how that had ended by then. A job answers
    how many executions it called off, an execution what was done to it. None: no answer may say this."""
    match body:
        case {"answer": "cancelled", "final_state": "cancelled"}:
            return "cancelled", "cancelled"
        case {"answer": "cancel_requested", "final_state": None | str() as final_state}:
            return "asked_to_stop", final_state
        case {"cancelled": 1, "asked_to_stop": 0, "not_retried": 0}:
            return "cancelled", None
        case {"cancelled": 0, "asked_to_stop": 1, "not_retried": 0}:
            return "asked_to_stop", None
        case {"cancelled": 0, "asked_to_stop": 0, "not_retried": 1}:
            return "asked_to_stop", None
        case _:
            return None


async def together(creations: Iterable[Awaitable[Create]]) -> list[Create]:
    """Run creations at the same time; the client bounds how many are under way."""
    return list(await asyncio.gather(*creations))


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
