"""Requests drawn from the OpenAPI document by schemathesis, against a server over a database that holds
things.

Every operation gets boundary values, random values that fit the document, random values that do not, and
sequences in which one answer leads to the next request. What they meet there is told in `openapi_cases`. The
same seed draws the same requests.

An answer is a violation when it is a defect (5xx), has a status, media type, header or body that the document
does not promise, comes without a key, accepts what the document forbids, or refuses what it allows. The last
rule has exceptions, because not everything can be said in a schema: see `BEYOND_A_SCHEMA`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import schemathesis
from schemathesis import engine
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.engine import events
from schemathesis.openapi.checks import RejectedPositiveData

from tests.support.api import ADMIN_KEY, CONTRACT, RealApi
from tests.support.openapi_cases import Known, choosing, meeting, teach_formats

NOT_DRAWN: Final = {
    "events_events": "a stream does not end by itself: see `test_events`, and `test_stats` for whom it tells what",
    "session_create": "a login needs a ticket that was issued, or a key, and says so with 401: see `test_session`",
}
OPERATIONS: Final = {
    f"{method.upper()} {path}"
    for path, verbs in CONTRACT.document["paths"].items()
    for method, operation in verbs.items()
    if operation["operationId"] not in NOT_DRAWN
}
# What a schema cannot say, by the field that a 422 names. Each is a rule between values, or about the world.
BEYOND_A_SCHEMA: Final = {
    r"schedule(\.any_of)*(\.(at|cron|starts_at|ends_at|max_fires|dst|exclude.*))?": "exactly one kind; what goes with"
    " which; that it fires at all",
    r"schedule\.time_zone": "which zones there are",
    r"retry\.initial_backoff": "not longer than the longest",
    r"target\.(url|auth\.token_url)": "what a URL is, and which addresses may be called",
    r"target\.(headers.*|auth.*)": "header names that are Tocsin's own; Authorization in one way only",
    r"target\.tls": "a certificate goes with https",
    r"target": "which secrets there are, where a server is asked for the types of its messages",
    r"target\.kind": "what this installation can call, and what can be tried",
    r"target\.body": "nesting and size",
    r"target\.limits\.(time|memory|output|disk)": "bounds of what is written as text",
    r"target\.(address|method|descriptors|metadata.*)": "which hosts, methods and messages there are",
    r"target\.(env.*|stdin|source|args.*)": "variables that are Tocsin's own; nesting; bytes, not characters",
    r"target\.connection": "that there is one of this kind",
    r"target\.(topic|key|subject|stream|fields.*|exchange|routing_key|queue_url|group|attributes.*|to.*)": "what is the broker's own, or Tocsin's",
    r"addresses\[\d+\]|tls\.server_name": "what an address is, and which may be called",
    r"username|password|token|mechanism|virtual_host|region|sender|creates_streams|replicas": "which kind of broker has it; what goes with which",
    r"limit(\.key)?": "max_parallel, rate or both; printable in Unicode's sense",
    r"ranges\[\d+\]\.(from|to)|from|to|until|after|expires_(at|in)": "order of instants, leap seconds, one or the other",
    r"created_(from|to)|next_fire_(from|to)|fire_(from|to)": "leap seconds, which RFC 3339 allows and we do not have",
    r"cursor": "that it was given out",
    r"idempotency_key": "that it was not used for another request",
    r"name": "the name in the body and the one in the address are the same",
    r"tenant": "the tenant in the body and the one in the header are the same",
    r"unique|debounce|max_wait": "unique or debounce; only for one-offs; what goes with which",
    r"job_id": "only recurring jobs can be backfilled",
    r"do|where(\.\w+)?|ids(\[\d+\])?": "which actions and filters go with which things; one way to name them",
    r"stop_at\.share": "above 0",
    r"(settle|held)\.logs\.at": "leap seconds, again",
    r"app|revision|sdk": "printable in Unicode's sense",
    r"scope|channels|watch\.within|quiet\.\w+": "what only the fleet has; which channels, bounds and zones there are",
    r"url|path_secret|headers.*|method|connection|to(\[\d+\])?|body(\..*|\[.*)?": "of alert channels, as of targets; which kind has which",
    r"limits\.history_days": "for how many days the installation keeps history",
    r"hour": "that history reaches back that far",
}  # fmt: skip
_DEADLY: Final = ["keys_rotate", "keys_revoke", "tenants_suspend", "tenants_change", "tenants_delete"]
_BEYOND: Final = re.compile("|".join(f"(?:{field})" for field in BEYOND_A_SCHEMA))
# The bounds of durations are in the document for numbers, but cannot be for text such as 1h30m.
_DURATIONS: Final = re.compile(
    r"schedule(\.any_of)*\.(in|every|jitter)|(target\.)?timeout|start_within|retry\.(initial|max)_backoff|limit\.per"
    r"|misfire\.(lookback|pace|grace)|pace|overlap|where\.min_lag|expires_in|limits\.min_interval|min_lag|step|wait|lease"
    r"|lasting|repeat|watch\.(window|grace|waiting|longer_than)"
)


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
    """One run over the whole document: `examples` requests per operation in each random phase, and one in so
    many of all boundary values in the phase `coverage`."""
    teach_formats()
    schema = schemathesis.openapi.from_dict(
        CONTRACT.document, config=_config(api, known, seed, examples, phases)
    )
    schema.hook(choosing(one_in))
    schema.hook(meeting(known))
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
            "request-timeout": 40,  # a trial of a target may take 25 s
            "continue-on-failure": True,
            "cache": {"enabled": False},
            "suppress-health-check": ["all"],
            "headers": {"Authorization": f"Bearer {known.key}"},
            "operations": [
                {"include-operation-id": admin, "headers": {"Authorization": f"Bearer {ADMIN_KEY}"}},
                {"include-operation-id": list(NOT_DRAWN), "enabled": False},
                # In sequences these would find, in a listing, the key and the tenant that the run itself
                # lives on.
                {"include-operation-id": _DEADLY, "phases": {"stateful": {"enabled": False}}},
            ],
            "generation": {
                "max-examples": examples,
                "no-shrink": True,
                "database": "none",
                # Keys are taken away and falsified by the check `ignored_auth`; elsewhere they would only
                # hide the rest.
                "with-security-parameters": False,
            },
            "phases": {
                "examples": {"enabled": "examples" in phases},
                "coverage": {"enabled": "coverage" in phases},
                # Nor do random requests take ids from answers: they have `Known`.
                "fuzzing": {"enabled": "fuzzing" in phases, "extra-data-sources": {"responses": False}},
                "stateful": {"enabled": "stateful" in phases},
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


def _excusing(report: Report) -> Any:
    """Excuse refusals of what the document allows, if they are for a reason that no schema can give."""

    def filter_failure(
        _: schemathesis.HookContext, failure: Any, case: schemathesis.Case, response: schemathesis.Response
    ) -> bool:
        if isinstance(failure, AcceptedNegativeData) and case.path.endswith(":batch"):
            return not response.json()["refused"]  # each item has its own answer
        if isinstance(failure, AcceptedNegativeData) and case.path.startswith("/v1/declarations/"):
            told = response.json()  # each job has its own answer; an older revision is not looked at
            return not (told.get("counts", {}).get("refused") or told.get("superseded"))
        if not isinstance(failure, RejectedPositiveData):
            return True
        reason = None
        if response.status_code == 422:
            document = response.json()
            fields = _fields(document)
            if "NUL character" in document.get("detail", ""):
                reason = "422 NUL, which no text has; to say so of every string would bury the rest"
            elif all(_BEYOND.fullmatch(field) or _is_long_text(case, field) for field in fields):
                reason = f"422 {re.sub(r'[0-9]+', 'n', fields[0])}"
        elif response.status_code == 403 and "Tocsin-Tenant" in case.headers:
            reason = "403 to act for another tenant"
        elif response.status_code == 403 and (case.query or {}).get("of") == "fleet":
            reason = "403 to see what is of all tenants"
        elif response.status_code == 429 and case.path == "/v1/targets/test":
            reason = "429 one trial per second"
        elif response.status_code == 412 and "If-Match" in case.headers:
            reason = "412 another version"
        if reason:
            report.excused[reason] += 1
        return reason is None

    return filter_failure


def _is_long_text(case: schemathesis.Case, field: str) -> bool:
    """Whether a field is a duration, and not given as a number: bounds of numbers are in the document."""
    value: Any = case.body
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return bool(_DURATIONS.fullmatch(field)) and not isinstance(value, int | float)


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
