"""The SQL of an enqueue, or of a task's end, in the caller's own transaction, the same for every driver.

Values travel as text and are cast in the statement. So it does not matter how a connection was taught to
write JSON, times, UUIDs or large numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import parse_instant, parse_span
from tocsin.sdk.options import Options

_SHARED: Final = (
    "run_at => coalesce(CAST(CAST({at} AS text) AS timestamptz),"
    " tocsin.tocsin_now() + CAST(CAST({delay} AS text) AS bigint) * interval '1 microsecond'),"
    " queue => CAST({queue} AS text), priority => CAST(CAST({priority} AS text) AS integer),"
    " policies => CAST(CAST({policies} AS text) AS jsonb),"
    " tags => ARRAY(SELECT jsonb_array_elements_text(CAST(CAST({tags} AS text) AS jsonb)))"
)
_ONE: Final = (
    "SELECT CAST(tocsin.enqueue(CAST({task} AS text), payload => CAST(CAST({payload} AS text) AS jsonb),"
    " job_id => CAST(CAST({id} AS text) AS uuid), {shared}{unique}{trace_of}) AS text)"
).replace("{shared}", _SHARED)
_TRACE: Final = ", trace => CAST({trace} AS text)"
_UNIQUE: Final = ", unique_key => CAST({unique} AS text)"
_MANY: Final = (
    "SELECT CAST(to_jsonb(tocsin.enqueue_many(CAST({task} AS text),"
    " payloads => ARRAY(SELECT p.one FROM jsonb_array_elements(CAST(CAST({payload} AS text) AS jsonb))"
    " WITH ORDINALITY AS p (one, place) ORDER BY p.place),"
    " job_ids => ARRAY(SELECT CAST(i.one AS uuid) FROM jsonb_array_elements_text(CAST(CAST({id} AS text) AS jsonb))"
    " WITH ORDINALITY AS i (one, place) ORDER BY i.place), {shared}{trace_of})) AS text)"
).replace("{shared}", _SHARED)
_SUCCEED: Final = (
    "SELECT CAST(tocsin.succeed(CAST(CAST({job} AS text) AS uuid),"
    " CAST(CAST({fire_at} AS text) AS timestamptz), CAST(CAST({token} AS text) AS bigint),"
    " CAST(CAST({result} AS text) AS jsonb)) AS text)"
)
_POLICIES: Final = ("retry", "timeout", "start_within", "limit")


class Statement(NamedTuple):
    """A statement with places by name, and what goes there."""

    text: str
    values: dict[str, str | None]

    def written(self, place: Callable[[str, int], str]) -> str:
        """The statement with a driver's places: `place` is given a name and its number from 1 on."""
        numbers = {name: place(name, number) for number, name in enumerate(self.values, 1)}
        return self.text.format(**numbers)

    def in_order(self) -> tuple[str, list[str | None]]:
        """The statement with ``%s``, and a value for each in the order of the text."""
        order: list[str] = []

        def place(name: str) -> str:
            order.append(name)
            return "%s"

        text = self.text.format_map(_Places(place))
        return text, [self.values[name] for name in order]


class _Places(dict[str, str]):
    def __init__(self, place: Callable[[str], str]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, name: str) -> str:
        return self._place(name)


def one(task: str, options: Options, payload: Any, job_id: UUID) -> Statement:
    """The statement that enqueues one call; it returns the job's id as text."""
    key = options.key_for(payload if isinstance(payload, dict) else {})
    text = _ONE.replace(
        "{unique}", "" if key is None else _UNIQUE
    )  # a schema without keys takes those without
    made = _statement(text, task, options, payload, _encoded(payload), str(job_id))
    return made if key is None else Statement(made.text, made.values | {"unique": key})


def many(task: str, options: Options, payloads: Sequence[Any], job_ids: Sequence[UUID]) -> Statement:
    """The statement that enqueues many; it returns their ids as a list in JSON."""
    if options.unique is not None:
        raise Refused("a unique key needs a call of its own", field="unique")
    if options.limit is not None and "{" in options.limit.key:
        raise Refused("a limit's key that names parameters needs a call of its own", field="limit")
    return _statement(_MANY, task, options, {}, _encoded(payloads), _encoded([str(one) for one in job_ids]))


def succeed(job_id: UUID, fire_at: str, token: str, result: Any) -> Statement:
    """The statement that settles an attempt as succeeded, once the transaction commits."""
    encoded = None if result is None else _encoded(result)
    return Statement(_SUCCEED, {"job": str(job_id), "fire_at": fire_at, "token": token, "result": encoded})


def _statement(text: str, task: str, options: Options, payload: Any, encoded: str, ids: str) -> Statement:
    if options.idempotency_key is not None:
        raise Refused("a transaction happens once: it needs no key", field="idempotency_key")
    if options.debounce is not None:
        raise Refused("a transaction does not push back what others enqueued: give unique", field="debounce")
    body = options.job({}, payload if isinstance(payload, dict) else {})
    if options.at is not None:
        parse_instant(options.at, "at")
    delay = None if options.delay is None else str(parse_span(options.delay, "delay"))
    policies = {name: body[name] for name in _POLICIES if body.get(name)}
    values = {
        "task": task,
        "payload": encoded,
        "id": ids,
        "at": options.at,
        "delay": delay,
        "queue": options.queue,
        "priority": str(options.priority),
        "policies": _encoded(policies),
        "tags": _encoded(list(options.tags)),
    }
    if (trace := options.asked_by) is None:
        return Statement(text.replace("{trace_of}", ""), values)
    return Statement(text.replace("{trace_of}", _TRACE), values | {"trace": trace})


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()
