"""Requests drawn from the OpenAPI document by schemathesis, against a server over a database that holds things.

Every operation gets boundary values, random values that fit the document, random values that do not, and sequences in
which one answer leads to the next request. Ids and names that exist are put into most of those that fit, so that they
come as far as the database. The same seed draws the same requests; what ids they meet differs.

An answer is a violation when it is a defect (5xx), has a status, media type, header or body that the document does
not promise, comes without a key, accepts what the document forbids, or refuses what it allows. The last rule has
exceptions, because not everything can be said in a schema: see `BEYOND_A_SCHEMA`.
"""

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import schemathesis
from hypothesis import strategies as st
from schemathesis import engine
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine import events
from schemathesis.generation.meta import TestPhase
from schemathesis.openapi.checks import RejectedPositiveData

from tests.support.api import ADMIN_KEY, CONTRACT, RealApi

OWN_TENANT: Final = "fuzzed"
OPERATIONS: Final = {
    f"{method.upper()} {path}" for path, verbs in CONTRACT.document["paths"].items() for method in verbs
}
# What a schema cannot say, by the field that a 422 names. Each is a rule between values, or about the world.
BEYOND_A_SCHEMA: Final = {
    r"schedule(\.any_of)*(\.(at|in|every|cron|jitter|starts_at|ends_at|max_fires|dst|exclude.*))?": "exactly one kind;"
    " what goes with which; must fire at all; bounds of durations as text",
    r"schedule\.time_zone": "which zones there are",
    r"(timeout|start_within|retry\.(initial|max)_backoff|misfire\.(lookback|pace)|limit\.per|pace|overlap|expires_in)": "bounds"
    " of durations as text; the first backoff is not longer than the longest",
    r"limits\.min_interval": "bounds of durations as text",
    r"target\.timeout": "bounds of durations as text",
    r"target\.url": "what a URL is, and which addresses may be called",
    r"target\.(headers.*|auth.*)": "header names that are Tocsin's own; Latin-1; Authorization in one way only",
    r"target\.tls": "a certificate goes with https",
    r"target\.body": "nesting and size",
    r"limit(\.key)?": "max_parallel, rate or both; printable in Unicode's sense",
    r"ranges\[\d+\]\.(from|to)|from|to|until|after|expires_at": "order of instants, and leap seconds",
    r"created_(from|to)|next_fire_(from|to)|fire_(from|to)": "leap seconds, which RFC 3339 allows and we do not have",
    r"cursor": "that it was given out",
    r"idempotency_key": "that it was not used for another request",
    r"name": "the name in the body and the one in the address are the same",
    r"tenant": "the tenant in the body and the one in the header are the same",
    r"job_id": "only recurring jobs can be backfilled",
    r"job": "which jobs there are",
    r"min_lag": "bounds of durations as text",
}  # fmt: skip
_BEYOND: Final = re.compile("|".join(f"(?:{field})" for field in BEYOND_A_SCHEMA))
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
_NOBODY: Final = "http://127.0.0.1:9/"  # refuses connections at once


class Known(msgspec.Struct, frozen=True):
    """What is there: values of parameters by name, and the key of a tenant that may ask as often as it likes."""

    key: str
    values: Mapping[str, Sequence[str]]


class Report:
    """What came of a run."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.violations: dict[str, str] = {}
        self.excused: Counter[str] = Counter()

    @property
    def requests(self) -> int:
        return self.answers.total()

    def table(self) -> str:
        """Requests by operation and status."""
        statuses = sorted({status for _, status in self.answers})
        lines = [f"{'operation':48}" + "".join(f"{status:>7}" for status in statuses) + f"{'all':>8}"]
        for operation in sorted({operation for operation, _ in self.answers}):
            counts = [self.answers[operation, status] for status in statuses]
            lines.append(f"{operation:48}" + "".join(f"{n or '·':>7}" for n in counts) + f"{sum(counts):>8}")
        totals = [sum(n for (_, s), n in self.answers.items() if s == status) for status in statuses]
        lines.append(f"{'all':48}" + "".join(f"{n:>7}" for n in totals) + f"{self.requests:>8}")
        return "\n".join(lines)

    def words(self) -> str:
        """The violations, each with a way to see it again."""
        return "\n\n".join(f"{title}\n{sample}" for title, sample in self.violations.items())


def furnish(api: RealApi, number: int = 0) -> Known:
    """Put one of everything into the database. With another `number` there will be more of it."""
    if not number:
        limits = {"requests_per_second": 1_000_000}
        assert api.post("/v1/tenants", {"name": OWN_TENANT, "limits": limits}).status == 201
    made = api.post("/v1/keys", {"name": "fuzz", "scopes": ["read", "write"], "tenant": OWN_TENANT}).json()
    own = RealApi(api.port, made["text"])
    later, hourly = (
        own.create(schedule={"in": "1d"}),
        own.create(schedule={"every": "1h"}, name=f"hourly-{number}"),
    )
    done = own.create(schedule={"now": True}, tags=["a"])
    dead = own.create(
        schedule={"now": True},
        target={"kind": "http", "url": f"http://127.0.0.{number + 2}:9/"},  # a host that no breaker knows yet
        retry={"max_attempts": 1},
    )
    executions = [own.wait_for(done, "succeeded"), own.wait_for(dead, "dead"), own.execution(later)]
    calendar = {"ranges": [{"from": "2030-12-24T00:00:00Z", "to": "2030-12-27T00:00:00Z"}]}
    assert own.call("PUT", "/v1/calendars/holidays", msgspec.json.encode(calendar)).status == 200
    assert own.call("PUT", f"/v1/secrets/token-{number}", b'{"value":"hush"}').status == 200
    past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    backfill = own.post(f"/v1/jobs/{hourly['id']}/backfills", past).json()["backfill"]
    other = f"other-{number}"
    assert api.post("/v1/tenants", {"name": other}).status == 201
    spare = api.post("/v1/keys", {"name": "spare", "scopes": ["read"], "tenant": other}).json()["key"]
    values = {
        "job_id": [job["id"] for job in (hourly, later, done, dead, hourly)],
        "job": [done["id"], dead["id"]],
        "execution_id": [execution["id"] for execution in executions],
        "backfill_id": [str(backfill["id"])],
        "key_id": [spare["id"]],
        "tenant": [other],
        "jobs.name": [hourly["name"]],
        "calendars.name": ["holidays"],
        "secrets.name": [f"token-{number}"],
        "Tocsin-Tenant": [OWN_TENANT],
    }
    for path in ("/v1/jobs", "/v1/executions", "/v1/audit", "/v1/secrets"):
        values[f"{path}?cursor"] = [own.get(path, limit=1).json()["next_cursor"]]
    for path in ("/v1/keys", "/v1/tenants"):
        values[f"{path}?cursor"] = [api.get(path, limit=1).json()["next_cursor"]]
    return Known(own.key, values)


def fuzz(
    api: RealApi,
    known: Known,
    report: Report,
    *,
    seed: int,
    examples: int,
    phases: Sequence[str],
    one_in: int = 1,
) -> None:
    """One run over the whole document: `examples` requests per operation in each random phase, and one in so many
    of all boundary values in the phase `coverage`."""
    _teach_formats()
    schema = schemathesis.openapi.from_dict(
        CONTRACT.document, config=_config(api, known, seed, examples, phases)
    )
    schema.hook(_choosing(one_in))
    schema.hook(_meeting(known))
    schema.hook(_excusing(report))
    for event in engine.from_schema(schema).execute():
        match event:
            case events.ScenarioFinished():
                _note(event, report)
            case events.NonFatalError():
                report.violations[f"{event.label}: the run itself failed"] = str(event.value)
            case events.FatalError():
                raise event.exception


def _config(
    api: RealApi, known: Known, seed: int, examples: int, phases: Sequence[str]
) -> schemathesis.Config:
    admin = [
        operation["operationId"]
        for verbs in CONTRACT.document["paths"].values()
        for operation in verbs.values()
        if "`admin`" in operation.get("description", "")
    ]
    return schemathesis.Config.from_dict(
        {
            "base-url": api.url,
            "seed": seed,
            "continue-on-failure": True,
            "cache": {"enabled": False},
            "suppress-health-check": ["all"],
            "headers": {"Authorization": f"Bearer {known.key}"},
            "operations": [
                {"include-operation-id": admin, "headers": {"Authorization": f"Bearer {ADMIN_KEY}"}}
            ],
            "generation": {
                "max-examples": examples,
                "no-shrink": True,
                "database": "none",
                # Keys are taken away and falsified by the check `ignored_auth`; elsewhere they would only hide the rest.
                "with-security-parameters": False,
            },
            "phases": {
                name: {"enabled": name in phases} for name in ("examples", "coverage", "fuzzing", "stateful")
            },
            "checks": {
                # Nothing but these: not 401, 429 or 5xx, which the defaults would let pass.
                "positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409"]},
                "negative_data_rejection": {
                    "expected-statuses": ["400", "403", "404", "409", "412", "413", "422"]
                },
            },
        }
    )


def _teach_formats() -> None:
    """How to draw what the document calls a cron expression, a time zone, a URL."""
    crons = st.sampled_from(_CRONS)
    schemathesis.openapi.format("cron", crons)
    schemathesis.openapi.format("schedule", crons | st.just("2030-01-31T09:00:00Z"))
    schemathesis.openapi.format("time-zone", st.sampled_from(_ZONES))
    schemathesis.openapi.format(
        "url", st.just(_NOBODY) | st.from_regex(r"\Ahttp://127\.0\.0\.1:9/[a-z]{0,8}\Z")
    )


def _choosing(one_in: int) -> Any:
    """Draw lots in the phase that has thousands; and leave the tenants alone that the run itself lives on."""

    def filter_case(_: schemathesis.HookContext, case: schemathesis.Case) -> bool:
        if case.meta is not None and case.meta.phase.name == TestPhase.COVERAGE and _lot(case) % one_in:
            return False
        return case.method.upper() == "GET" or case.path_parameters.get("tenant") not in (
            OWN_TENANT,
            "default",
        )

    return filter_case


def _lot(case: schemathesis.Case) -> int:
    """A number that depends on nothing but what was drawn."""
    return zlib.crc32(repr(case).encode())


def _meeting(known: Known) -> Any:
    """Put what is there into most of the requests that fit the document."""

    def map_case(_: schemathesis.HookContext, case: schemathesis.Case) -> schemathesis.Case:
        meta, pick = case.meta, _lot(case)
        if meta is None:
            return case
        if isinstance(case.body, dict | list) and not meta.is_negative_at(ParameterLocation.BODY):
            case.body = _whole(case.body)
        if pick % 16 == 0 and meta.phase.name != TestPhase.STATEFUL:
            return case
        tag = case.path.split("/")[2] if case.path.count("/") > 1 else ""
        if case.path_parameters and not meta.is_negative_at(ParameterLocation.PATH):
            names = {name: f"{tag}.name" if name == "name" else name for name in case.path_parameters}
            found = {name: _pick(known.values[key], pick) for name, key in names.items()}
            case.path_parameters = {**case.path_parameters, **found}
        if case.query and not meta.is_negative_at(ParameterLocation.QUERY):
            case.query = _known_query(case, known, pick)
        if "Tocsin-Tenant" in case.headers and not meta.is_negative_at(ParameterLocation.HEADER):
            case.headers["Tocsin-Tenant"] = OWN_TENANT
        if pick % 16 < 12:
            case.headers.pop("If-Match", None)
        if "Idempotency-Key" in case.headers and not meta.is_negative_at(ParameterLocation.HEADER):
            case.headers["Idempotency-Key"] = f"key-{pick}"
        if meta.phase.name == TestPhase.STATEFUL:
            # A key that was used before would lead to the first job made with it, which may be gone.
            case.headers.pop("Idempotency-Key", None)
            if isinstance(case.body, dict):
                case.body = {name: value for name, value in case.body.items() if name != "idempotency_key"}
        if isinstance(case.body, dict | list) and not meta.is_negative_at(ParameterLocation.BODY):
            case.body = _settled(case.body, pick)
        return case

    return map_case


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
    sensible = {name: value for name, value in _SENSIBLE.items() if isinstance(body.get(name), str)}
    keyed = {"idempotency_key": f"key-{pick}"} if body.get("idempotency_key") else {}
    body = {**body, **sensible, **keyed}
    if isinstance(body.get("target"), dict):
        body["target"] = {name: value for name, value in body["target"].items() if name != "tls"}
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


def _excusing(report: Report) -> Any:
    """Excuse refusals of what the document allows, if they are for a reason that no schema can give."""

    def filter_failure(
        _: schemathesis.HookContext, failure: Any, case: schemathesis.Case, response: schemathesis.Response
    ) -> bool:
        if isinstance(failure, AcceptedNegativeData) and case.path.endswith(":batch"):
            return not response.json()["refused"]  # each item has its own answer
        if not isinstance(failure, RejectedPositiveData):
            return True
        reason = None
        if response.status_code == 422:
            document = response.json()
            fields = _fields(document)
            if "NUL character" in document.get("detail", ""):
                reason = "422 NUL, which no text has; to say so of every string would bury the rest"
            elif all(_BEYOND.fullmatch(field) for field in fields):
                reason = f"422 {re.sub(r'[0-9]+', 'n', fields[0])}"
        elif response.status_code == 403 and "Tocsin-Tenant" in case.headers:
            reason = "403 to act for another tenant"
        elif response.status_code == 412 and "If-Match" in case.headers:
            reason = "412 another version"
        if reason:
            report.excused[reason] += 1
        return reason is None

    return filter_failure


def _fields(document: Any) -> list[str]:
    """The fields that a refusal names: of the request, or of each refused item of a batch."""
    problems = [item["problem"] for item in document.get("items", ()) if "problem" in item] or [document]
    return [problem.get("field") or "" for problem in problems]


def _note(event: events.ScenarioFinished, report: Report) -> None:
    recorder = event.recorder
    for case_id, interaction in recorder.interactions.items():
        operation = recorder.cases[case_id].value.operation.label
        status = 0 if interaction.response is None else interaction.response.status_code
        report.answers[operation, status] += 1
        if interaction.response is not None and b"Expected `" in interaction.response.content:
            report.violations[f"{operation}: a refusal in the decoder's words"] = interaction.response.text
        for check in recorder.checks.get(case_id, ()):
            if check.failure_info is not None:
                failure = check.failure_info.failure
                answer = b"" if interaction.response is None else interaction.response.content[:500]
                sample = f"{failure.message}\n{check.failure_info.code_sample[:2000]}\n{status} {answer!r}"
                report.violations.setdefault(f"{operation}: {check.name}: {failure.title}", sample)
