"""Hostile input: each is refused with a problem document that names the field, and nothing is written."""

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.ids import ExecutionKey, execution_text, job_text

NOW: dict[str, Any] = {"schedule": {"now": True}, "target": {"kind": "noop"}}
HTTP: dict[str, Any] = {"kind": "http", "url": "http://127.0.0.1:9/"}
NO_ID = UUID("01900000-0000-7000-8000-000000000000")
NO_JOB = job_text(NO_ID)
NO_EXECUTION = execution_text(ExecutionKey(NO_ID, 0))


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def untouched(api: InProcessApi) -> Iterator[InProcessApi]:
    """The API; the tables must hold afterwards what they held before."""
    before = api.tables()
    yield api
    assert api.tables() == before


def _target(**fields: Any) -> dict[str, Any]:
    return {"target": HTTP | fields}


def _header(name: str, value: Any) -> dict[str, Any]:
    return _target(headers={name: value})


BAD_FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("unknown field", {"colour": "red"}, "colour"),
    ("unknown field in the schedule", {"schedule": {"now": True, "then": 1}}, "schedule.then"),
    ("unknown field in the target", {"target": {"kind": "noop", "x": 1}}, "target.x"),
    ("unknown field in retry", {"retry": {"attempts": 3}}, "retry.attempts"),
    ("unknown field with a huge name", {"x" * 900_000: 1}, "x" * 200),
    ("no schedule", {"schedule": {}}, "schedule"),
    ("schedule null", {"schedule": None}, "schedule"),
    ("schedule a number", {"schedule": 5}, "schedule"),
    ("schedule empty text", {"schedule": ""}, "schedule.cron"),
    ("two schedules", {"schedule": {"now": True, "in": "1s"}}, "schedule"),
    ("now false", {"schedule": {"now": False}}, "schedule"),
    ("now as text", {"schedule": {"now": "true"}}, "schedule.now"),
    ("at without an offset", {"schedule": {"at": "2030-01-01T00:00:00"}}, "schedule.at"),
    ("at infinity", {"schedule": {"at": "infinity"}}, "schedule.at"),
    ("at a leap second", {"schedule": {"at": "2016-12-31T23:59:60Z"}}, "schedule.at"),
    ("at no such day", {"schedule": {"at": "2030-02-30T00:00:00Z"}}, "schedule.at"),
    ("at year 0", {"schedule": {"at": "0000-01-01T00:00:00Z"}}, "schedule.at"),
    ("at year 10000", {"schedule": {"at": "10000-01-01T00:00:00Z"}}, "schedule.at"),
    ("at an offset of a day", {"schedule": {"at": "2030-01-01T00:00:00+24:00"}}, "schedule.at"),
    ("at a number", {"schedule": {"at": 1_900_000_000}}, "schedule.at"),
    ("at with another letter for T", {"schedule": {"at": "2030-01-01x00:00:00Z"}}, "schedule.at"),
    ("at in the basic format", {"schedule": {"at": "20300101T000000Z"}}, "schedule.at"),
    ("at as a day of a week", {"schedule": {"at": "2030-W01-1T00:00:00Z"}}, "schedule.at"),
    ("at an offset without minutes", {"schedule": {"at": "2030-01-01T00:00:00+01"}}, "schedule.at"),
    ("at an offset with seconds", {"schedule": {"at": "2030-01-01T00:00:00+01:00:30"}}, "schedule.at"),
    ("at without seconds", {"schedule": {"at": "2030-01-01T00:00Z"}}, "schedule.at"),
    ("at in Arabic digits", {"schedule": {"at": "٢٠٣٠-01-01T00:00:00Z"}}, "schedule.at"),
    ("at a million digits", {"schedule": {"at": "9" * 900_000}}, "schedule.at"),
    ("in negative", {"schedule": {"in": -1}}, "schedule.in"),
    ("in a negative trifle", {"schedule": {"in": -1e-7}}, "schedule.in"),
    ("in negative text", {"schedule": {"in": "-1s"}}, "schedule.in"),
    ("in without a unit", {"schedule": {"in": "90"}}, "schedule.in"),
    ("in a bool", {"schedule": {"in": True}}, "schedule.in"),
    ("in a thousand years", {"schedule": {"in": "366000d"}}, "schedule.in"),
    ("in NaN as text", {"schedule": {"in": "nan"}}, "schedule.in"),
    ("in Arabic digits", {"schedule": {"in": "٣s"}}, "schedule.in"),
    ("in with a space inside a number", {"schedule": {"in": "1 0s"}}, "schedule.in"),
    ("in a long text of little", {"schedule": {"in": "0." + "0" * 60 + "ms "}}, "schedule.in"),
    ("in a million spaces", {"schedule": {"in": " " * 900_000 + "x"}}, "schedule.in"),
    ("every half a second", {"schedule": {"every": "500ms"}}, "schedule.every"),
    ("every century", {"schedule": {"every": "36600d"}}, "schedule.every"),
    ("cron with a bad field", {"schedule": {"cron": "99 * * * *"}}, "schedule.cron"),
    ("cron that never fires", {"schedule": {"cron": "0 0 30 2 *"}}, "schedule.cron"),
    ("cron of a million letters", {"schedule": {"cron": "*," * 400_000}}, "schedule.cron"),
    ("cron with a control character", {"schedule": {"cron": "0 0 * * \x1b[31m"}}, "schedule.cron"),
    ("an excluded date in the basic format", {"schedule": {"every": "1d", "exclude": {"dates": ["20301225"]}}}, "schedule.exclude.dates[0]"),
    ("an excluded day of a week", {"schedule": {"every": "1d", "exclude": {"dates": ["2030-W01-1"]}}}, "schedule.exclude.dates[0]"),
    ("no such zone", {"schedule": {"cron": "* * * * *", "time_zone": "Mars/Base"}}, "schedule.time_zone"),
    ("zone as a path", {"schedule": {"cron": "* * * * *", "time_zone": "../../etc/passwd"}}, "schedule.time_zone"),
    ("zone as a directory", {"schedule": {"cron": "* * * * *", "time_zone": "America"}}, "schedule.time_zone"),
    ("zone on an instant", {"schedule": {"now": True, "time_zone": "UTC"}}, "schedule.time_zone"),
    ("ends before it starts", {"schedule": {"every": "1d", "starts_at": "2031-01-01T00:00:00Z", "ends_at": "2030-01-01T00:00:00Z"}}, "schedule.ends_at"),
    ("ended in the past", {"schedule": {"every": "1d", "ends_at": "2000-01-01T00:00:00Z"}}, "schedule"),
    ("max_fires 0", {"schedule": {"every": "1d", "max_fires": 0}}, "schedule.max_fires"),
    ("max_fires huge", {"schedule": {"every": "1d", "max_fires": 10**400}}, "schedule.max_fires"),
    ("no target", {"target": None}, "target"),
    ("unknown kind of target", {"target": {"kind": "fax"}}, "target.kind"),
    ("kind of target a number", {"target": {"kind": 3}}, "target.kind"),
    ("HTTP without a URL", {"target": {"kind": "http"}}, "target.url"),
    ("name empty", {"name": ""}, "name"),
    ("name of a million letters", {"name": "n" * 900_000}, "name"),
    ("name with a line break", {"name": "a\nb"}, "name"),
    ("name with an escape", {"name": "a\x1b[2J"}, "name"),
    ("name with a C1 control", {"name": "a\x9b2J"}, "name"),
    ("name with a line separator", {"name": "a\u2028b"}, "name"),
    ("name a number", {"name": 7}, "name"),
    ("description too long", {"description": "d" * 2001}, "description"),
    ("description with a bell", {"description": "d\x07"}, "description"),
    ("queue empty", {"queue": ""}, "queue"),
    ("queue in capitals", {"queue": "URGENT"}, "queue"),
    ("queue with a space", {"queue": "a b"}, "queue"),
    ("queue with a line break at the end", {"queue": "a\n"}, "queue"),
    ("queue too long", {"queue": "q" * 64}, "queue"),
    ("priority below", {"priority": -1}, "priority"),
    ("priority above", {"priority": 10}, "priority"),
    ("priority a bool", {"priority": True}, "priority"),
    ("priority a fraction", {"priority": 1.5}, "priority"),
    ("priority huge", {"priority": 10**400}, "priority"),
    ("priority as text", {"priority": "5"}, "priority"),
    ("tags as text", {"tags": "a"}, "tags"),
    ("a tag empty", {"tags": [""]}, "tags"),
    ("a tag twice", {"tags": ["a", "a"]}, "tags"),
    ("a tag with the separator", {"tags": ["a\x1fb"]}, "tags"),
    ("a tag too long", {"tags": ["t" * 65]}, "tags"),
    ("too many tags", {"tags": [str(n) for n in range(33)]}, "tags"),
    ("a hundred thousand tags", {"tags": [str(n) for n in range(100_000)]}, "tags"),
    ("a tag a number", {"tags": [1]}, "tags[0]"),
    ("timeout 0", {"timeout": 0}, "timeout"),
    ("timeout negative", {"timeout": -5}, "timeout"),
    ("timeout of two days", {"timeout": "48h"}, "timeout"),
    ("timeout a huge integer", {"timeout": 10**400}, "timeout"),
    ("start_within 0", {"start_within": 0}, "start_within"),
    ("max_attempts 0", {"retry": {"max_attempts": 0}}, "retry.max_attempts"),
    ("max_attempts huge", {"retry": {"max_attempts": 10**30}}, "retry.max_attempts"),
    ("max_attempts a bool", {"retry": {"max_attempts": True}}, "retry.max_attempts"),
    ("initial beyond max backoff", {"retry": {"initial_backoff": "1h", "max_backoff": "1m"}}, "retry.initial_backoff"),
    ("max_backoff of a year", {"retry": {"max_backoff": "365d"}}, "retry.max_backoff"),
    ("multiplier below 1", {"retry": {"multiplier": 0.5}}, "retry.multiplier"),
    ("multiplier huge", {"retry": {"multiplier": 1e300}}, "retry.multiplier"),
    ("jitter above 1", {"retry": {"jitter": 1.01}}, "retry.jitter"),
    ("jitter negative", {"retry": {"jitter": -0.01}}, "retry.jitter"),
    ("misfire unknown", {"misfire": "whatever"}, "misfire"),
    ("misfire policy unknown", {"misfire": {"policy": "whatever"}}, "misfire.policy"),
    ("misfire lookback of a century", {"misfire": {"lookback": "36500d"}}, "misfire.lookback"),
    ("overlap unknown", {"overlap": "whatever"}, "overlap"),
    ("URL of another scheme", _target(url="ftp://example.com/"), "target.url"),
    ("URL of a file", _target(url="file:///etc/passwd"), "target.url"),
    ("URL with a password", _target(url="http://u:p@example.com/"), "target.url"),
    ("URL with a line break", _target(url="http://example.com/\r\nX: 1"), "target.url"),
    ("URL with a space", _target(url="http://example.com/a b"), "target.url"),
    ("URL to metadata", _target(url="http://169.254.169.254/latest"), "target.url"),
    ("URL to a private network", _target(url="http://10.0.0.1/"), "target.url"),
    ("URL to loopback in disguise", _target(url="http://0x7f.1/"), "target.url"),
    ("URL to a mapped address", _target(url="http://[::ffff:10.0.0.1]/"), "target.url"),
    ("URL without a host", _target(url="http:///"), "target.url"),
    ("URL with port 0", _target(url="http://example.com:0/"), "target.url"),
    ("URL with port 65536", _target(url="http://example.com:65536/"), "target.url"),
    ("URL of a million letters", _target(url="http://example.com/" + "x" * 900_000), "target.url"),
    ("method unknown", _target(method="BREW"), "target.method"),
    ("method injection", _target(method="GET / HTTP/1.1\r\nX: 1\r\n\r\nPOST"), "target.method"),
    ("header value with a line break", _header("X-A", "1\r\nX-B: 2"), "target.headers.X-A"),
    ("header value beyond Latin-1", _header("X-A", "日本"), "target.headers.X-A"),
    ("header value too long", _header("X-A", "a" * 4097), "target.headers.X-A"),
    ("header value a number", _header("X-A", 1), "target.headers[...]"),
    ("header name with a line break", _header("X\r\nY", "1"), "target.headers.X\r\nY"),
    ("header name with a colon", _header("X:Y", "1"), "target.headers.X:Y"),
    ("header name empty", _header("", "1"), "target.headers."),
    ("header name of a million letters", _header("x" * 900_000, "1"), "target.headers." + "x" * 64),
    ("header that frames the message", _header("Content-Length", "3"), "target.headers.Content-Length"),
    ("header that chunks the message", _header("transfer-encoding", "chunked"), "target.headers.transfer-encoding"),
    ("header that makes the target wait", _header("Expect", "100-continue"), "target.headers.Expect"),
    ("header that is the idempotency key", _header("Idempotency-Key", "1"), "target.headers.Idempotency-Key"),
    ("header that plays Tocsin", _header("Tocsin-Attempt", "1"), "target.headers.Tocsin-Attempt"),
    ("header twice", _target(headers={"X-A": "1", "x-a": "2"}), "target.headers"),
    ("too many headers", _target(headers={f"X-{n}": "1" for n in range(65)}), "target.headers"),
    ("body too large", _target(body="b" * (256 * 1024 + 1)), "target.body"),
    ("target timeout 0", _target(timeout=0), "target.timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "field"), [pytest.param(f, n, id=i) for i, f, n in BAD_FIELDS])
def test_a_job_with_a_bad_field_is_refused_by_its_name(
    untouched: InProcessApi, fields: dict[str, Any], field: str
) -> None:
    answer = untouched.post("/v1/jobs", NOW | fields)
    assert answer.status == 422, answer
    assert answer.problem()["field"] == field


OUT_OF_RANGE: list[tuple[str, dict[str, Any], str]] = [
    ("before the year 1", {"at": "0001-01-01T00:00:00+23:59"}, "schedule.at"),
    ("after the year 9999", {"at": "9999-12-31T23:59:59-23:59"}, "schedule.at"),
    ("every from after 9999", {"every": "1d", "starts_at": "9999-12-31T23:59:59-23:59"}, "schedule.starts_at"),
    ("a delay beyond floats", {"in": 1e308}, "schedule.in"),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "field"), [pytest.param(s, n, id=i) for i, s, n in OUT_OF_RANGE])
def test_an_instant_that_cannot_be_written_down_is_refused_before_anything_is_stored(
    url: str, schedule: dict[str, Any], field: str
) -> None:
    with in_process_api(url) as api:
        before = api.tables()
        answer = api.post("/v1/jobs", NOW | {"schedule": schedule})
        assert api.tables() == before
        assert answer.status == 422
        assert answer.problem()["field"] == field


def test_an_interval_of_nothing_is_refused_by_its_name(untouched: InProcessApi) -> None:
    answer = untouched.post("/v1/jobs", NOW | {"schedule": {"every": 0}})
    assert (answer.status, answer.problem()["field"]) == (422, "schedule.every")


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("name", NOW | {"name": "a\0b"}),
        ("description", NOW | {"description": "\0"}),
        ("queue", NOW | {"queue": "a\0"}),
        ("tags[1]", NOW | {"tags": ["fine", "\0"]}),
        ("schedule", NOW | {"schedule": "\0"}),
        ("schedule.cron", NOW | {"schedule": {"cron": "* * * * \0"}}),
        ("target.url", NOW | _target(url="http://127.0.0.1/\0")),
        ("target.headers.X", NOW | _header("X", "a\0b")),
        ("target.headers.X\0", NOW | _header("X\0", "a")),
        ("target.body", NOW | _target(body="\0")),
        ("target.body.deep[0].text", NOW | _target(body={"deep": [{"text": "\0"}]})),
    ],
)
def test_a_nul_character_anywhere_is_refused_by_the_name_of_its_place(
    untouched: InProcessApi, where: str, body: dict[str, Any]
) -> None:
    answer = untouched.post("/v1/jobs", body)
    assert answer.status == 422
    assert answer.problem()["field"] == where


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        pytest.param(422, b"", id="nothing"),
        pytest.param(422, b"null", id="null"),
        pytest.param(422, b"[]", id="a list"),
        pytest.param(422, b'"text"', id="text"),
        pytest.param(400, b"{", id="cut off"),
        pytest.param(422, b"{}}", id="too much"),
        pytest.param(400, b"{'name': 1}", id="python"),
        pytest.param(400, b'{"schedule": {"in": NaN}, "target": {"kind": "noop"}}', id="NaN"),
        pytest.param(400, b'{"schedule": {"in": Infinity}, "target": {"kind": "noop"}}', id="Infinity"),
        pytest.param(422, b'{"schedule": {"in": 1e999}, "target": {"kind": "noop"}}', id="beyond floats"),
        pytest.param(400, b'{"schedule": "\xff\xfe", "target": {"kind": "noop"}}', id="not UTF-8"),
        pytest.param(400, b'{"schedule": {"now": true}, "name": "\\ud800"}', id="half a surrogate pair"),
        pytest.param(400, b'{"schedule": {"now": true}, "name": "\x00"}', id="a raw NUL"),
        pytest.param(422, b'{"schedule": {"now": true}, "target": ' + b"[" * 100_000, id="deep, open"),
        pytest.param(413, b'{"name": "' + b"n" * (1 << 20) + b'"}', id="over a megabyte"),
    ],
)
def test_a_body_that_is_no_job_at_all_is_refused(untouched: InProcessApi, status: int, raw: bytes) -> None:
    answer = untouched.call("POST", "/v1/jobs", raw)
    assert answer.status == status, answer
    answer.problem()


@pytest.mark.parametrize("depth", [66, 500, 960, 1000, 100_000])
def test_a_body_of_any_depth_is_refused_and_never_a_defect(untouched: InProcessApi, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    raw = b'{"schedule": {"now": true}, "target": {"kind": "http", "url": "http://127.0.0.1/", "body": %b}}'
    answer = untouched.call("POST", "/v1/jobs", raw % nested)
    assert answer.status in (400, 422), answer
    answer.problem()


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_login_that_no_database_could_have_is_refused_by_its_name(
    untouched: InProcessApi, method: str
) -> None:
    answer = untouched.call(method, f"/v1/tenants/default/logins/{'0' * 64}")
    assert (answer.status, answer.problem()["field"]) == (422, "login")


def test_text_that_only_looks_like_an_escaped_nul_is_accepted(api: InProcessApi) -> None:
    raw = rb'{"schedule": {"in": "1h"}, "target": {"kind": "noop"}, "name": "C:\\u0000"}'
    answer = api.call("POST", "/v1/jobs", raw)
    assert answer.status == 201, answer
    assert answer.json()["name"] == r"C:\u0000"


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        ("2000-01-01T00:00:00+23:59", "1999-12-31T00:01:00Z"),
    ],
)
def test_a_past_instant_is_accepted_and_the_answer_says_that_it_is_due_now(
    api: InProcessApi, at: str, shown: str
) -> None:
    job = api.create(schedule={"at": at})
    assert job["next_fire_at"] == shown
    assert "due now" in job["note"]
    execution = api.execution(job)
    assert execution["fire_at"] == shown
    assert execution["due_at"] > "2020"


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59.999999Z", "2100-02-28T12:00:00-23:59"])
def test_a_far_future_instant_is_kept_to_the_microsecond(api: InProcessApi, at: str) -> None:
    job = api.create(schedule={"at": at})
    assert job["note"] is None
    assert api.execution(job)["fire_at"] == api.job(job)["next_fire_at"] == job["next_fire_at"]


@pytest.mark.parametrize(
    "words",
    ["emoji 🚀", "بالعربية", "combining e\u0301", "[bold]rich[/bold]", "'; DROP TABLE jobs; --", "\u202e"],
)
def test_words_of_any_language_come_back_as_they_were_written(api: InProcessApi, words: str) -> None:
    job = api.create(schedule={"in": "1h"}, name=words, tags=[words], description=f"{words}\n\t{words}")
    shown = api.job(job)
    assert (shown["name"], shown["tags"], shown["description"]) == (words, [words], f"{words}\n\t{words}")
    assert job["id"] in [item["id"] for item in api.get("/v1/jobs", name=words).json()["items"]]
    assert job["id"] in [item["id"] for item in api.get("/v1/jobs", tag=words).json()["items"]]


@pytest.mark.parametrize(
    "body", [10**400, -(10**30), 1e-30, 1.5, True, None, "", [], {}, [None, {"b": 1, "a": [2.0]}], {"": 0}]
)
def test_any_json_body_of_a_target_comes_back_as_it_was_written(api: InProcessApi, body: Any) -> None:
    job = api.create(schedule={"in": "1h"}, **_target(body=body))
    assert api.job(job)["target"].get("body") == job["target"].get("body") == body


@pytest.mark.parametrize("action", ["", "/cancel", "/pause", "/resume", "/run", "/executions"])
@pytest.mark.parametrize(
    "job_id",
    [
        NO_JOB, NO_JOB.upper(), NO_JOB[:-1], NO_JOB + "0", "job_" + "z" * 26, "job_" + "u" * 26, NO_EXECUTION, "x",
        "job_", "1", "%00", "job_%00" + "0" * 25, "%ff", "..", "..%2f..", "j" * 8000, "job_" + "é" * 26, " ",
    ],
)  # fmt: skip
def test_an_id_that_names_no_job_is_not_found_whatever_is_asked_of_it(
    untouched: InProcessApi, action: str, job_id: str
) -> None:
    method = "POST" if action in ("/cancel", "/pause", "/resume", "/run") else "GET"
    answer = untouched.call(method, f"/v1/jobs/{job_id}{action}")
    assert answer.status == 404, answer
    answer.problem()


NOT_EXECUTIONS = [
    NO_EXECUTION, NO_EXECUTION[:-1], NO_EXECUTION + "0", "exec_" + "z" * 39, "exec_3" + "z" * 38, NO_JOB, "x", "exec_",
    "%00", "exec_" + "é" * 39, "e" * 8000,
    "exec_" + "0" * 39,
]  # fmt: skip


@pytest.mark.parametrize("action", ["", "/cancel", "/retry"])
@pytest.mark.parametrize("execution_id", NOT_EXECUTIONS)
def test_an_id_that_names_no_execution_is_not_found_whatever_is_asked_of_it(
    untouched: InProcessApi, action: str, execution_id: str
) -> None:
    answer = untouched.call("POST" if action else "GET", f"/v1/executions/{execution_id}{action}")
    assert answer.status == 404, answer
    answer.problem()


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/executions", "/v1/dead-letters"])
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"), ("limit=501", "limit"), ("limit=-1", "limit"), ("limit=1.0", "limit"), ("limit=", "limit"),
        ("limit=%D9%A3", "limit"), ("limit=000001999999", "limit"), ("limit=" + "9" * 5000, "limit"), ("limit=%00", "limit"),
        ("limit=5&limit=6", "limit"), ("cursor=", "cursor"), ("cursor=x", "cursor"), ("cursor=%00", "cursor"),
        ("cursor=%C3%A9", "cursor"), ("cursor=" + "A" * 5000, "cursor"), ("queue=%00", "queue"), ("colour=red", "colour"),
        ("%00=1", "\0"), ("limit[]=5", "limit[]"),
    ],
)  # fmt: skip
def test_a_listing_refuses_a_bad_parameter_by_its_name(
    untouched: InProcessApi, path: str, query: str, field: str
) -> None:
    answer = untouched.call("GET", f"{path}?{query}")
    assert answer.status == 422, answer
    assert answer.problem()["field"] == field


@pytest.mark.parametrize(
    ("method", "path", "hint"),
    [
        ("GET", "/v1/jobs?stat=active", "did you mean state?"),
        ("GET", "/v1/nodes?x=1", None),
        ("GET", "/v1/job", "GET /openapi.json lists every route"),
        ("DELETE", "/v1/jobs", "possible are GET, HEAD, POST"),
    ],
)
def test_a_request_that_there_is_not_is_told_with_what_there_is(
    untouched: InProcessApi, method: str, path: str, hint: str | None
) -> None:
    assert untouched.call(method, path).problem().get("hint") == hint


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/v1/jobs", "state=running", "state"), ("/v1/jobs", "kind=cron", "kind"), ("/v1/jobs", "name=%00", "name"),
        ("/v1/jobs", "tag=a%00", "tag"), ("/v1/jobs", "state=active&state=paused", "state"),
        ("/v1/executions", "state=active", "state"), ("/v1/executions", "state=", "state"),
        ("/v1/dead-letters", "state=dead", "state"), ("/v1/shards", "limit=1", "limit"), ("/v1/nodes", "x=1", "x"),
    ],
)  # fmt: skip
def test_a_filter_refuses_a_bad_value_by_its_name(
    untouched: InProcessApi, path: str, query: str, field: str
) -> None:
    answer = untouched.call("GET", f"{path}?{query}")
    assert answer.status == 422, answer
    assert answer.problem()["field"] == field


@pytest.mark.parametrize(
    "path", ["/v1/jobs", "/v1/executions", "/v1/dead-letters", "/v1/jobs/{id}/executions"]
)
@pytest.mark.parametrize(
    "place",
    [
        10**30, -(10**30), 2**63 - 1, -(2**63), 1.5, None, True, "x", [], {}, [None], ["x", 1], [str(NO_ID)],
        [str(NO_ID), 2**63, None], [str(NO_ID), 0, -(2**63)], [str(NO_ID), 0, 0, 0], [[[[]]]],
    ],
)  # fmt: skip
def test_a_forged_cursor_is_refused(api: InProcessApi, path: str, place: Any) -> None:
    job = api.create(schedule={"in": "1h"})
    cursor = base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
    answer = api.get(path.format(id=job["id"]), cursor=cursor)
    assert answer.status == 422, answer
    assert answer.problem()["field"] == "cursor"


@pytest.mark.parametrize("action", ["pause", "cancel"])
@pytest.mark.parametrize("reason", ["", "r" * 501, "a\x1b[31m", "a\0", 5, ["a"]])
def test_a_reason_that_cannot_be_shown_is_refused(api: InProcessApi, action: str, reason: Any) -> None:
    job = api.create(schedule={"in": "1h"})
    before = api.tables()
    answer = api.post(f"/v1/jobs/{job['id']}/{action}", {"reason": reason})
    assert answer.status == 422, answer
    assert answer.problem()["field"] == "reason"
    assert api.tables() == before


@pytest.mark.parametrize("action", ["cancel", "pause", "resume", "run"])
def test_an_action_refuses_instructions_that_it_would_ignore(api: InProcessApi, action: str) -> None:
    job = api.create(schedule={"in": "1h"})
    before = api.tables()
    answer = api.post(f"/v1/jobs/{job['id']}/{action}", {"at": "2030-01-01T00:00:00Z"})
    assert (answer.status, answer.problem()["field"]) == (422, "at")
    assert api.call("POST", f"/v1/jobs/{job['id']}/{action}", b"nonsense").status == 400
    assert api.tables() == before


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/jobs", {"GET", "HEAD", "POST"}),
        ("DELETE", "/v1/jobs", {"GET", "HEAD", "POST"}),
        ("OPTIONS", "/v1/executions", {"GET", "HEAD"}),
        ("TRACE", "/v1/executions", {"GET", "HEAD"}),
        ("GET", f"/v1/jobs/{NO_JOB}/run", {"POST"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("POST", "/openapi.json", {"GET", "HEAD"}),
        ("FROBNICATE", "/metrics", {"GET", "HEAD"}),
    ],
)
def test_a_wrong_method_is_refused_and_told_every_right_one(
    untouched: InProcessApi, method: str, path: str, allowed: set[str]
) -> None:
    answer = untouched.call(method, path)
    assert answer.status == 405, answer
    answer.problem()
    told = set(answer.headers["allow"].split(", "))
    assert told >= allowed, told
    assert method not in told


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "//v1/jobs",
        "/v1/jobs//run",
        "/v2/jobs",
        "/V1/JOBS",
        "/healthz/",
        "/%00",
        "/x" * 4000,
    ],
)
def test_a_path_that_is_no_route_is_not_found_without_a_redirect(untouched: InProcessApi, path: str) -> None:
    for method in ("GET", "POST"):
        answer = untouched.call(method, path)
        assert answer.status == 404, answer
        answer.problem()
