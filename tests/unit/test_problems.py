"""Problem documents: what msgspec says about a request, in the words and field names of the API."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tocsin.api.problems import CODES, MORE_CODES, OUTCOME_UNKNOWN, problem, problem_of, refused_by_decoder
from tocsin.api.wire.jobs import NewJob
from tocsin.domain.errors import Conflict, NotFound, OutcomeUnknown, Refused, Unauthorized, Unavailable
from tocsin.domain.schedule import read_schedule

GOOD: dict[str, Any] = {"schedule": "@daily", "target": {"kind": "noop"}}


def _refused(body: Any) -> Refused:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(json.dumps(body).encode(), type=NewJob)
    return refused_by_decoder(error.value, NewJob)


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ({}, "schedule", "'schedule' is required"),
        ({"schedule": "@daily"}, "target", "'target' is required"),
        (GOOD | {"colour": 1}, "colour", "unknown field 'colour'"),
        (GOOD | {"target": {"kind": "http"}}, "target.url", "'url' is required"),
        (GOOD | {"target": {"kind": "noop", "url": 1}}, "target.url", "unknown field 'url'"),
        (GOOD | {"retry": {"colour": 1}}, "retry.colour", "unknown field 'colour'"),
        (GOOD | {"name": 5}, "name", "expected text or null, got a whole number"),
        (GOOD | {"tags": [5]}, "tags[0]", "expected text, got a whole number"),
        (GOOD | {"tags": {}}, "tags", "expected a list, got an object"),
        (GOOD | {"timeout": True}, "timeout", "expected a number or text or null, got true or false"),
        (GOOD | {"priority": 10}, "priority", "expected a whole number of at most 9"),
        (GOOD | {"overlap": "x"}, "overlap", "'x' is not one of the values that are possible here"),
        (
            GOOD | {"target": {"kind": "fax"}},
            "target.kind",
            "'fax' is not one of the values that are possible here",
        ),
        ([], None, "expected an object, got a list"),
    ],
)
def test_a_decoding_error_names_the_field_and_what_is_wrong_with_it(
    body: Any, field: str | None, detail: str
) -> None:
    refused = _refused(body)
    assert (refused.field, refused.detail) == (field, detail)


@pytest.mark.parametrize("name", ["x" * 100_000, "a` - at `$.b", "`", "", "unknown field `x`"])
def test_a_hostile_field_name_makes_a_short_refusal(name: str) -> None:
    refused = _refused(GOOD | {name: 1})
    assert "unknown field" in refused.detail
    assert len(refused.detail) <= 200
    assert len(refused.field or "") <= 200


def test_a_value_that_quotes_the_decoder_is_not_taken_for_its_words() -> None:
    refused = _refused(GOOD | {"overlap": "Object contains unknown field `x`"})
    assert refused.field == "overlap"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("no", field="name", hint="try"), 422),
        (NotFound("no"), 404),
        (Conflict("no"), 409),
        (Unauthorized("no"), 401),
        (Unauthorized("no", status=403), 403),
        (Unavailable("later", retry_after=3), 503),
    ],
)
def test_every_family_of_error_has_its_status_and_media_type(
    error: Refused | Unavailable, status: int
) -> None:
    response = problem_of(error)
    document = json.loads(bytes(response.body))
    assert (response.status_code, document["status"]) == (status, status)
    assert response.media_type == "application/problem+json"
    assert document["detail"] == error.detail
    assert document["title"] != "Error"


def test_a_refusal_tells_what_to_do_and_an_absence_when_to_come_back() -> None:
    document = json.loads(bytes(problem_of(Refused("no", field="name", hint="try another")).body))
    assert (document["field"], document["hint"]) == ("name", "try another")
    assert problem_of(Unavailable("later", retry_after=3)).headers["retry-after"] == "3"
    assert problem_of(Unauthorized("no")).headers["www-authenticate"] == "Bearer"
    assert "www-authenticate" not in problem_of(Unauthorized("no", status=403)).headers


def test_a_detail_of_any_length_makes_a_short_document() -> None:
    assert len(problem(422, "x" * 1_000_000).body) < 1000


def test_an_unknown_outcome_has_a_type_of_its_own_and_is_only_to_be_repeated_with_a_key() -> None:
    error = OutcomeUnknown("the database did not answer in time", why="connection to 10.0.0.7 lost")
    careful, repeatable = problem_of(error), problem_of(error, repeatable=True)
    for answer in (careful, repeatable):
        document = json.loads(bytes(answer.body))
        assert (answer.status_code, document["type"]) == (503, OUTCOME_UNKNOWN)
        assert "not known" in document["detail"]
        assert "10.0.0.7" not in json.dumps(document)
    assert "retry-after" not in careful.headers
    assert repeatable.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (GOOD | {"run_at": "x"}, 'schedule: {"at": …}'),
        (GOOD | {"cron_expr": "x"}, 'schedule: {"cron": …}'),
        (GOOD | {"cronExpression": "x"}, 'schedule: {"cron": …}'),
        (GOOD | {"timezone": "x"}, "schedule.time_zone"),
        (GOOD | {"max_retries": 3}, "retry.max_attempts"),
        (GOOD | {"retryPolicy": {}}, "retry is the retry policy"),
        (GOOD | {"url": "x"}, '"kind": "http"'),
        (GOOD | {"prioriti": 1}, "did you mean priority?"),
        (GOOD | {"schedule": {"timezone": "UTC"}}, "did you mean time_zone?"),
        (GOOD | {"schedule": [{"cron": "@daily", "tz": "UTC"}]}, "did you mean time_zone?"),
        (GOOD | {"retry": {"maxRetries": 1}}, "did you mean max_attempts?"),
        (GOOD | {"retry": {"maxbackoff": 1}}, "did you mean max_backoff?"),
        (GOOD | {"target": {"kind": "noop", "url": 1}}, "only a target of kind http has it"),
        (GOOD | {"target": {"kind": "htpp"}}, "did you mean http?"),
        (GOOD | {"target": {"kind": "http", "ulr": "x"}}, "did you mean url?"),
        (GOOD | {"overlap": "Skip"}, "did you mean skip?"),
        (GOOD | {"overlap": "forbid"}, "possible are allow, skip, queue, collapse, replace"),
        (GOOD | {"colour": 1}, None),
    ],
)
def test_a_refusal_says_what_may_have_been_meant(body: Any, hint: str | None) -> None:
    found = _refused(body).hint
    assert found == hint if hint is None else hint in (found or "")


def test_every_problem_has_a_code_that_is_documented() -> None:
    api = (Path(__file__).parents[2] / "docs" / "api.md").read_text().split("### Codes")[1].split("\n### ")[0]
    assert set(re.findall(r"^\| `(\w+)`", api, re.MULTILINE)) == {*CODES.values(), *MORE_CODES}
    assert json.loads(problem(404, "x").body) | {"detail": ""} == {
        "title": "Not found",
        "status": 404,
        "detail": "",
        "type": "urn:tocsin:problem:not-found",
        "code": "not_found",
    }
    assert (
        json.loads(problem_of(Conflict("x", code="name_taken")).body)["type"]
        == "urn:tocsin:problem:name-taken"
    )
    assert (_refused({}).code, _refused(GOOD | {"x": 1}).code) == ("missing_field", "unknown_field")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("now", '{"now": true}'),
        ("every 5m", '{"every": "5m"}'),
        ("90s", '{"every": "90s"}'),
        ("in 2h", '{"in": "2h"}'),
    ],
)
def test_a_bare_word_of_other_schedulers_is_explained(text: str, hint: str) -> None:
    with pytest.raises(Refused) as refused:
        read_schedule(text, 0)
    assert hint in (refused.value.hint or "")
