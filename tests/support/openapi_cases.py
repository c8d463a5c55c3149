"""What drawn requests meet: things in the database, and how their ids and names come into the requests.

Drawn ids exist as good as never, drawn schedules contradict themselves. Most requests that fit the document
therefore get ids and names that exist, and schedules of one kind; one in sixteen is sent as it was drawn, and
those that do not fit the document keep what does not. Which value is taken depends on nothing but what was
drawn.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import schemathesis
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

from tests.support.api import RealApi
from tocsin.domain.connection import BROKERS

OWN_TENANT: Final = "fuzzed"
_FRAMING: Final = ("Content-Length", "Transfer-Encoding", "Connection", "Host", "Expect", "Upgrade")
_KINDS: Final = ("cron", "every", "in", "at", "now", "any_of")
_ONLY_RECURRING: Final = ("starts_at", "ends_at", "max_fires", "jitter", "exclude")
_CRONS: Final = (
    "*/5 * * * *",
    "0 9 * * MON-FRI",
    "@daily",
    "0 0 L * *",
    "30 4 1,15 * 5",
    "0 0 12 ? * 2#1",
    "@yearly",
)
_ZONES: Final = ("Europe/Berlin", "UTC", "America/New_York", "Australia/Lord_Howe")
_SENSIBLE: Final = {"timeout": "30s", "start_within": "1h"}
_NEEDED: Final[Mapping[str, Any]] = {
    "smtp": {"sender": "tocsin@example.com"},
    "sqs": {"region": "eu-central-1", "username": "me", "password": {"secret": "token-0"}},
}
"""What connections of a kind cannot do without."""
_DRAWN_BITS: Final = 16
_NOBODY: Final = "http://127.0.0.1:9/"  # refuses connections at once


class Known(msgspec.Struct, frozen=True):
    """What is there: values of parameters by name, and the key of a tenant that may ask as often as it
    likes."""

    key: str
    values: Mapping[str, Sequence[str]]


def furnish(api: RealApi, number: int = 0) -> Known:
    """Put one of everything into the database. With another `number` there will be more of it."""
    if not number:
        limits = {"requests_per_second": 1_000_000}
        assert api.post("/v1/tenants", {"name": OWN_TENANT, "limits": limits}).status == 201
    made = api.post(
        "/v1/keys", {"name": "fuzz", "scopes": ["read", "write", "worker"], "tenant": OWN_TENANT}
    ).json()
    own = RealApi(api.port, made["text"])
    later, hourly = (
        own.create(schedule={"in": "1d"}),
        own.create(schedule={"every": "1h"}, name=f"h-{number}"),
    )
    doomed = [own.create(schedule={"every": "1h"})["id"] for _ in range(8)]
    done = own.create(schedule={"now": True}, tags=["a"])
    dead = own.create(
        schedule={"now": True},
        target={"kind": "http", "url": f"http://127.0.0.{number + 2}:9/"},  # a host that no breaker knows yet
        retry={"max_attempts": 1},
    )
    executions = [own.wait_for(done, "succeeded"), own.wait_for(dead, "dead"), own.execution(later)]
    calendar = {"ranges": [{"from": "2030-12-24T00:00:00Z", "to": "2030-12-27T00:00:00Z"}]}
    assert own.call("PUT", "/v1/calendars/holidays", msgspec.json.encode(calendar)).status == 200
    declared = {
        "jobs": [{"name": f"declared-{number}", "schedule": {"every": "1h"}, "target": {"kind": "noop"}}]
    }
    assert own.call("PUT", f"/v1/declarations/program-{number}", msgspec.json.encode(declared)).status == 200
    assert own.call("PUT", f"/v1/secrets/token-{number}", b'{"value":"hush"}').status == 200
    for broker in BROKERS:
        settings = msgspec.json.encode(
            {"kind": broker, "addresses": ["127.0.0.1:9"], **_NEEDED.get(broker, {})}
        )
        assert own.call("PUT", f"/v1/connections/{broker}", settings).status == 200
    channel = msgspec.json.encode({"kind": "slack", "url": _NOBODY})
    assert own.call("PUT", "/v1/alert-channels/ops", channel).status == 200
    rule = msgspec.json.encode({"watch": {"kind": "dead_letters"}, "channels": ["ops"]})
    assert own.call("PUT", "/v1/alert-rules/letters", rule).status == 200
    past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    backfill = own.post(f"/v1/jobs/{hourly['id']}/backfills", past).json()["backfill"]
    nothing = {"do": "pause", "of": "jobs", "where": {"queue": "nobody"}}
    operation = own.post("/v1/operations", nothing).json()["operation"]
    workers = [_register(own) for _ in range(9)]
    other = f"other-{number}"
    assert api.post("/v1/tenants", {"name": other}).status == 201
    spare = api.post("/v1/keys", {"name": "spare", "scopes": ["read"], "tenant": other}).json()["key"]
    values = {
        "job_id": [job["id"] for job in (hourly, later, hourly, done, hourly, dead)],
        "doomed job_id": doomed,
        "job": [done["id"], dead["id"]],
        "execution_id": [execution["id"] for execution in executions],
        "backfill_id": [str(backfill["id"])],
        "operation_id": [str(operation["id"])],
        "worker_id": workers[:1],
        "doomed worker_id": workers[1:],
        "key_id": [spare["id"]],
        "tenant": [other],
        "login": ["tocsin_api", "nobody"],
        "queue": ["held", "mail"],  # not one whose executions are waited for
        "owner": [f"program-{number}"],
        "jobs.name": [hourly["name"]],
        "calendars.name": ["holidays"],
        "connections.name": BROKERS,
        "doomed connections.name": ["nobodys"],
        "alert-channels.name": ["ops"],
        "doomed alert-channels.name": ["nobodys"],
        "alert-rules.name": ["letters"],
        "secrets.name": [f"token-{number}"],
    }
    for path in ("/v1/jobs", "/v1/executions", "/v1/audit", "/v1/secrets"):
        values[f"{path}?cursor"] = [own.get(path, limit=1).json()["next_cursor"]]
    for path in ("/v1/keys", "/v1/tenants"):
        values[f"{path}?cursor"] = [api.get(path, limit=1).json()["next_cursor"]]
    return Known(own.key, values)


def _register(api: RealApi) -> str:
    """A remote worker that is not thought to be gone before the run is over."""
    answer = api.post("/v1/workers", {"name": "fuzz", "tasks": [{"name": "nothing"}], "lease": "10m"})
    assert answer.status == 201, answer
    worker: str = answer.json()["worker"]
    return worker


def teach_formats() -> None:
    """How to draw what the document calls a cron expression, a time zone, a URL."""
    crons = st.sampled_from(_CRONS)
    schemathesis.openapi.format("cron", crons)
    schemathesis.openapi.format("schedule", crons | st.just("2030-01-31T09:00:00Z"))
    schemathesis.openapi.format("time-zone", st.sampled_from(_ZONES))
    schemathesis.openapi.format(
        "url", st.just(_NOBODY) | st.from_regex(r"\Ahttp://127\.0\.0\.1:9/[a-z]{0,8}\Z")
    )


def choosing(one_in: int) -> Any:
    """Draw lots in the phase that has thousands; and leave the tenants alone that the run itself lives on."""

    def filter_case(_: schemathesis.HookContext, case: schemathesis.Case) -> bool:
        in_coverage = case.meta is not None and case.meta.phase.name == TestPhase.COVERAGE
        if in_coverage and (_lot(case) >> _DRAWN_BITS) % one_in:  # other bits than those that `meeting` reads
            return False
        return case.method.upper() == "GET" or case.path_parameters.get("tenant") not in (
            OWN_TENANT,
            "default",
        )

    return filter_case


def meeting(known: Known) -> Any:
    """Put what is there into most of the requests that fit the document."""

    def map_case(_: schemathesis.HookContext, case: schemathesis.Case) -> schemathesis.Case:
        meta, pick = case.meta, _lot(case)
        if meta is None:
            return case
        _speak_http(case)
        fits = {place: not meta.is_negative_at(place) for place in ParameterLocation}
        fits[ParameterLocation.BODY] &= isinstance(case.body, dict | list)
        if fits[ParameterLocation.BODY]:
            case.body = _whole(case.body)
        if meta.phase.name == TestPhase.STATEFUL:
            return _following(case)
        if pick % 16 == 0:
            return case
        if case.path_parameters and fits[ParameterLocation.PATH]:
            case.path_parameters = {name: _in_path(case, name, known, pick) for name in case.path_parameters}
        if case.query and fits[ParameterLocation.QUERY]:
            case.query = _known_query(case, known, pick)
        if fits[ParameterLocation.HEADER]:
            _set(case, "Tocsin-Tenant", OWN_TENANT)
            _set(case, "Idempotency-Key", f"key-{pick}")
            _set(case, "If-Match", "*" if pick % 16 < 12 else '"1"')
        if fits[ParameterLocation.BODY]:
            case.body = _with_own_name(case, _settled(case.body, pick), pick)
        return case

    return map_case


def _speak_http(case: schemathesis.Case) -> None:
    """What is not HTTP is answered by the connection, before there is an operation: see
    `test_api_connection`."""
    for name in _FRAMING:
        case.headers.pop(name, None)


def _following(case: schemathesis.Case) -> schemathesis.Case:
    """In a sequence ids come from earlier answers, and must mean the same: no other tenant, no key used
    before."""
    case.headers.pop("Tocsin-Tenant", None)
    case.headers.pop("Idempotency-Key", None)
    if isinstance(case.body, dict):
        case.body = _settled(case.body, _lot(case))
        case.body.pop("idempotency_key", None)
    return case


def _in_path(case: schemathesis.Case, name: str, known: Known, pick: int) -> str:
    if name == "name":
        name = f"{case.path.split('/')[2]}.name"
    ends_it = case.method.upper() == "DELETE" or case.path.endswith("/cancel")
    values = known.values.get(f"doomed {name}") if ends_it else None
    return str(_pick(values or known.values[name], pick))


def _with_own_name(case: schemathesis.Case, body: Any, pick: int) -> Any:
    """Names that must be unique are; where the name stands in the address it is not given twice."""
    if isinstance(body, dict) and isinstance(body.get("name"), str):
        if "{name}" in case.path:
            del body["name"]
        elif "keys" not in case.path:
            body["name"] = f"n-{pick}"
    return body


def _set(case: schemathesis.Case, name: str, value: str) -> None:
    """Another value for a header that is there."""
    if name in case.headers:
        case.headers[name] = value


def _known_query(case: schemathesis.Case, known: Known, pick: int) -> dict[str, Any]:
    query = dict(case.query)
    if "cursor" in query:
        del query["cursor"]
        if found := known.values.get(f"{case.path}?cursor"):
            query["cursor"] = _pick(found, pick)
    if "job" in query:
        query["job"] = _pick(known.values["job"], pick)
    return query


def _whole(value: Any) -> Any:
    """Whole numbers as such: to JSON Schema 9.0 is an integer, to the API it is a number like 9.5."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {name: _whole(item) for name, item in value.items()}
    return value


def _settled(body: Any, pick: int) -> Any:
    """The body with schedules of one kind, keys of its own, and without what does not go together."""
    if isinstance(body, list):
        return [_settled(item, pick) for item in body]
    if not isinstance(body, dict):
        return body
    if "do" in body and "of" in body:
        return _operation(body, pick)
    if "seq" in body and "want" in body:  # nothing ever comes for the worker: it need not wait for long
        return {**body, "wait_ms": body.get("wait_ms", 0) % 20}
    if isinstance(body.get("watch"), dict):
        body = {**body, "channels": ["ops"]}
    sensible = {name: value for name, value in _SENSIBLE.items() if isinstance(body.get(name), str)}
    keyed = {"idempotency_key": f"key-{pick}"} if body.get("idempotency_key") else {}
    body = {**body, **sensible, **keyed}
    if isinstance(body.get("target"), dict):
        body["target"] = {name: value for name, value in body["target"].items() if name != "tls"}
        if body["target"].get("kind") in BROKERS:
            body["target"]["connection"] = body["target"]["kind"]
    if isinstance(body.get("limit"), dict) and "key" in body["limit"]:
        body["limit"] = {"rate": 5, **{name: value for name, value in body["limit"].items() if value}}
    if isinstance(body.get("schedule"), dict):
        body = {**body, "schedule": _one_kind(body["schedule"], pick)}
    if isinstance(body.get("schedule"), list):
        parts = [
            _one_kind(part, pick, part=True) if isinstance(part, dict) else part for part in body["schedule"]
        ]
        body = {**body, "schedule": parts}
    return body


def _operation(body: dict[str, Any], pick: int) -> dict[str, Any]:
    """An operation that makes sense: an action that is possible, on things that are listed so, and on few of
    them."""
    of, where = (
        _pick((("jobs", "cancel_queued"), ("executions", "retry"), ("dead_letters", "rerun")), pick),
        {"queue": "nobody"},
    )
    kept = {name: value for name, value in body.items() if name not in ("ids", "where", "stop_at")}
    return {**kept, "of": of[0], "do": of[1], "where": where, "stop_at": {"share": 0.5, "of": 10}}


def _one_kind(schedule: dict[str, Any], pick: int, *, part: bool = False) -> dict[str, Any]:
    given = [kind for kind in _KINDS[: 5 if part else 6] if schedule.get(kind) not in (None, False)]
    kind = _pick(given, pick) if given else "cron"
    kept = {name: value for name, value in schedule.items() if name not in _KINDS and name != "ends_at"}
    if kind != "cron":
        kept = {name: value for name, value in kept.items() if name not in ("time_zone", "dst")}
    if part or kind not in ("cron", "every", "any_of"):
        kept = {name: value for name, value in kept.items() if name not in _ONLY_RECURRING}
    value = schedule.get(kind) or _CRONS[0]
    if kind == "any_of":
        value = [_one_kind(one, pick, part=True) for one in value if isinstance(one, dict)]
    return {**kept, kind: value}


def _pick(values: Sequence[Any], pick: int) -> Any:
    return values[(pick >> 4) % len(values)]


def _lot(case: schemathesis.Case) -> int:
    """A number that depends on nothing but what was drawn."""
    return zlib.crc32(repr(case).encode())
