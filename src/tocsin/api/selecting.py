"""What an operation acts on, from how it was asked for: a filter of a listing, or ids."""

from typing import Any, Final

import msgspec

from tocsin.api.wire import operations as wire
from tocsin.domain.errors import NotFound, Refused
from tocsin.domain.ids import parse_execution_text, parse_job_text
from tocsin.domain.instant import Instant, parse_instant, parse_span
from tocsin.domain.job import MAX_NAME, MAX_TAG, check_text
from tocsin.domain.lifecycle import State
from tocsin.domain.operation import Of
from tocsin.store.execution_filter import ExecutionFilter
from tocsin.store.execution_listing import select_executions
from tocsin.store.job_listing import JobFilter, select_jobs
from tocsin.store.operations import named_executions, named_jobs
from tocsin.store.selection import Selection

_OF_JOBS: Final = frozenset({
    "state", "queue", "kind", "tags", "tag_match", "name", "target", "created_from", "created_to", "next_fire_from",
    "next_fire_to",
})  # fmt: skip
_OF_DEAD_LETTERS: Final = frozenset(
    {"queue", "job", "fire_from", "fire_to", "min_lag", "error", "fingerprint"}
)
_FIELDS: Final = {
    Of.JOBS: _OF_JOBS,
    Of.EXECUTIONS: _OF_DEAD_LETTERS | {"state"},
    Of.DEAD_LETTERS: _OF_DEAD_LETTERS,
}
_TEXTS: Final = ("state", "queue", "name", "error", "fingerprint")
_JOB_STATES: Final = ("active", "paused", "completed", "cancelled")


def selection_of(asked: wire.NewOperation, tenant_id: int) -> Selection:
    """What is selected. Refused if it is said in both ways or in none."""
    if (asked.where is None) == (asked.ids is None):
        raise Refused("give where or ids; an empty where means all", field="where")
    if asked.ids is not None:
        return _named(asked, tenant_id)
    where = asked.where or wire.OperationFilter()
    given = msgspec.to_builtins(where)
    for name in given.keys() - _FIELDS[asked.of]:
        raise Refused(f"{asked.of} are not listed by this", field=f"where.{name}")
    for name in _TEXTS:
        check_text(given.get(name), f"where.{name}", MAX_NAME)
    for tag in where.tags:
        check_text(tag, "where.tags", MAX_TAG)
    if asked.of is Of.JOBS:
        return select_jobs(tenant_id, _jobs(where))
    return select_executions(tenant_id, _executions(where, dead_letters=asked.of is Of.DEAD_LETTERS))


def _named(asked: wire.NewOperation, tenant_id: int) -> Selection:
    ids = asked.ids or ()
    if not 1 <= len(ids) <= wire.MOST_IDS:
        raise Refused(f"1 to {wire.MOST_IDS:,} ids", field="ids")
    read: Any = parse_job_text if asked.of is Of.JOBS else parse_execution_text
    found = []
    for place, text in enumerate(ids):
        try:
            found.append(read(text))
        except (Refused, NotFound):
            raise Refused(f"{text[:60]!r} is no id of {asked.of}", field=f"ids[{place}]") from None
    return named_jobs(tenant_id, found) if asked.of is Of.JOBS else named_executions(tenant_id, found)


def _jobs(where: wire.OperationFilter) -> JobFilter:
    return JobFilter(
        state=_choice(where.state, _JOB_STATES),
        kind=where.kind,
        queue=where.queue,
        tags=where.tags,
        any_tag=where.tag_match == "any",
        name=where.name,
        target=where.target,
        created_from=_instant(where.created_from, "created_from"),
        created_to=_instant(where.created_to, "created_to"),
        next_fire_from=_instant(where.next_fire_from, "next_fire_from"),
        next_fire_to=_instant(where.next_fire_to, "next_fire_to"),
    )


def _executions(where: wire.OperationFilter, *, dead_letters: bool) -> ExecutionFilter:
    state = State.DEAD if dead_letters else _choice(where.state, tuple(State))
    return ExecutionFilter(
        state=None if state is None else State(state),
        queue=where.queue,
        job_id=None if where.job is None else _job(where.job),
        fire_from=_instant(where.fire_from, "fire_from"),
        fire_to=_instant(where.fire_to, "fire_to"),
        min_lag=None if where.min_lag is None else parse_span(where.min_lag, "where.min_lag"),
        error=where.error,
        fingerprint=where.fingerprint,
        kept_only=dead_letters,
    )


def _job(text: str) -> Any:
    try:
        return parse_job_text(text)
    except (Refused, NotFound):
        raise Refused("no id of a job", field="where.job") from None


def _choice(value: str | None, allowed: tuple[str, ...]) -> str | None:
    if value is not None and value not in allowed:
        raise Refused(f"{value[:40]!r} is not one of {', '.join(allowed)}", field="where.state")
    return value


def _instant(text: str | None, name: str) -> Instant | None:
    return None if text is None else parse_instant(text, f"where.{name}")
