"""From a request to the audit log.

Every endpoint that changes something leaves an entry, also one whose author did not think of it: the
application gives each such call a trail. Changes of a job or an execution are noted inside their transaction,
creations by the statement that creates; for the rest an entry is written when the handler is done. A handler
says what it knows with `note`. A dry run, or a repetition that found everything done already, leaves nothing.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from uuid import UUID

import structlog

from tocsin.api.endpoint import ApiCall, Asker, Endpoint
from tocsin.db.pool import witnessed
from tocsin.domain.audit import DASHBOARD, Origin
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import parse_execution_text, parse_job_text
from tocsin.store.audit import (
    AuditStore,
    Entry,
    ExecutionWatch,
    JobWatch,
    Watch,
    job_object,
    shown_object,
)

# Modules whose handlers act on something that they are not named after.
_OTHERS: Final = {"control": "job", "batch": "job"}
_FIRST_PARAMETER: Final = re.compile(r"{(\w+)}")
_log = structlog.get_logger()


class Trail:
    """What one request leaves behind in the log."""

    def __init__(
        self, store: AuditStore, asker: Asker, endpoint: Endpoint, request_id: str, address: str
    ) -> None:
        self.origin = Origin(asker.key_id, request_id, address, DASHBOARD if asker.in_browser else None)
        self._store = store
        self._tenant_id = asker.tenant_id
        self._endpoint = endpoint
        self._noted = False
        self._object: str | None = None
        self._before: Any = None
        self._after: Any = None

    def creates(self) -> Origin:
        """The statement that creates notes the creation itself; it needs to know for whom."""
        self._noted = True
        return self.origin

    def leaves_nothing(self) -> None:
        """Nothing changed, or it was noted elsewhere."""
        self._noted = True

    def note(self, object_: str | None = None, *, before: Any = None, after: Any = None) -> None:
        """What the entry should say. Never a secret."""
        self._object = object_ or self._object
        self._before = before
        self._after = after

    def summarise(self, object_: str, after: Any) -> None:
        """Leave an entry for the whole beside those for its parts."""
        self.note(object_, after=after)
        self._noted = False

    def noting_job(self, job_id: UUID, action: str) -> AbstractContextManager[None]:
        """Watch a job that the path does not name; that is all there is to note."""
        self._noted = True
        return _watched(self, JobWatch(self._tenant_id, self.origin, action, job_id))

    async def follow(self, call: ApiCall) -> Any:
        """Run the handler, and see to it that what it changes is noted."""
        watch = self._watch(call)
        if watch is None:
            answer = await self._endpoint.handler(call)
        else:
            with _watched(self, watch):
                answer = await self._endpoint.handler(call)
        if not self._noted and not getattr(call.body, "dry_run", False):
            await self._write(call)
            self.made(None)
        return answer

    def made(self, watch: Watch | None) -> None:
        """A line in the log, beside the entry. It names jobs and executions by their ids, and nothing by a
        name that a user chose: those are in the audit log, under the same request."""
        subject = {} if watch is None else {"object": shown_object(watch.object)}
        _log.info(
            "change.made",
            action=action_of(self._endpoint),
            **subject,
            tenant=self._tenant_id,
            actor=self.origin.actor,
            request_id=self.origin.request_id,
        )

    def _watch(self, call: ApiCall) -> Watch | None:
        if not call.path:
            return None
        action = action_of(self._endpoint)
        if (text := call.path.get("execution_id")) is not None:
            return ExecutionWatch(self._tenant_id, self.origin, action, parse_execution_text(text))
        if (text := call.path.get("job_id")) is not None:
            return JobWatch(self._tenant_id, self.origin, action, parse_job_text(text))
        return None

    async def _write(self, call: ApiCall) -> None:
        object_ = self._object or _object_of(self._endpoint, call)
        action = action_of(self._endpoint)
        try:
            await self._store.write(
                Entry(self._tenant_id, self.origin, action, object_, self._before, self._after)
            )
        except Unavailable as error:
            # It is done, and saying otherwise would have it done again.
            _log.error("audit.lost", action=action, object=object_, actor=self.origin.actor, error=str(error))


@contextmanager
def _watched(trail: Trail, watch: Watch) -> Iterator[None]:
    """Transactions inside are watched; if that wrote an entry, the trail needs no other."""
    with witnessed(watch):
        yield
    if watch.written:
        trail.leaves_nothing()
        trail.made(watch)


def action_of(endpoint: Endpoint) -> str:
    """What the log calls an endpoint's doing: ``job.pause``."""
    module = endpoint.handler.__module__.rpartition(".")[2]
    return f"{_OTHERS.get(module, module.removesuffix('s'))}.{endpoint.handler.__name__}"


def _object_of(endpoint: Endpoint, call: ApiCall) -> str:
    """The thing in the path; for endpoints without one, the path."""
    named = _FIRST_PARAMETER.search(endpoint.path)
    if named is None:
        return endpoint.path.removeprefix("/v1/")
    value = call.path[named[1]]
    match named[1]:
        case "job_id":
            return job_object(parse_job_text(value))
        case "execution_id" | "worker_id":
            return value
        case _:
            return f"{action_of(endpoint).partition('.')[0]}:{value[:200]}"
