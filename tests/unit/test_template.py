"""Places of targets: refused when unknown, escaped by where they stand, left alone unless asked for."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.errors import Refused
from tocsin.domain.job import Definition, check_definition
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import HttpTarget, check_target, template_parts
from tocsin.domain.template import (
    MAX_PLACES,
    PLACES,
    fill,
    fill_value,
    in_header,
    in_json,
    in_text,
    in_url,
    places_of,
)
from tocsin.targets.assignment import Assignment
from tocsin.targets.filling import values_for

URL = "https://example.com/hook"
ASSIGNMENT = Assignment(UUID(int=7), 1_800_000_000_000_000, 1, 3, 9, 0, 0, 0, name="a name")
HOSTILE = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60)


class _Nameless:
    """Fails when it is asked."""

    async def name(self, tenant_id: int, job_id: UUID) -> str:
        raise AssertionError((tenant_id, job_id))


def _refused(**fields: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        check_target(HttpTarget(**({"url": URL, "template": True} | fields)))
    return refused.value


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    refused = _refused(body={"deep": ["{fire_at}", {"er": "{fired_at}"}]})
    assert refused.field == "target.body.deep[1].er"
    assert all(f"{{{place}}}" in refused.detail for place in PLACES)


@pytest.mark.parametrize(
    "text", ["{", "}", "{fire_at", "{}", "{ fire_at }", "{{{", "{fire_at!r}", "{0}", "{a.b}"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    assert _refused(body=text).field == "target.body"
    assert _refused(url=f"{URL}?a={text.replace(' ', '')}x{{").field == "target.url"


def test_the_host_is_never_filled_in() -> None:
    for url in ("https://{name}/", "https://{name}.example.com", "https://a:{attempt}/x", "http://h{job}?x"):
        assert _refused(url=url).field == "target.url"


def test_braces_mean_nothing_unless_a_target_asks_for_it() -> None:
    plain = HttpTarget(URL + "/{what}", body={"a": "{{}"})
    check_target(plain)
    assert template_parts(plain) == {}


@pytest.mark.parametrize("key", ["{job}", "{name}/{fire_at}", "order 7", "{{literal}}"])
def test_an_idempotency_key_is_made_of_what_all_attempts_share(key: str) -> None:
    target = HttpTarget(URL, idempotency_key=key)
    check_target(target)
    assert template_parts(target) == {"target.idempotency_key": key}


@pytest.mark.parametrize("key", ["{attempt}", "{execution}", "{what}", "{", "", "x" * 256, "日本", "a\nb"])
def test_another_idempotency_key_is_refused(key: str) -> None:
    assert _refused(template=False, idempotency_key=key).field == "target.idempotency_key"


def test_a_name_in_a_header_stays_one_line_of_ascii() -> None:
    assert (
        fill("{name} at {job}", {"name": "tä:glich\r\nx%", "job": "j"}, in_header)
        == "t%C3%A4:glich%0D%0Ax%25 at j"
    )


def test_a_target_has_a_bounded_number_of_places() -> None:
    check_target(HttpTarget(URL, body="{job}" * MAX_PLACES, template=True))
    assert "64" in _refused(body="{job}" * (MAX_PLACES + 1)).detail


def test_a_job_without_a_name_cannot_fill_one_in() -> None:
    target = HttpTarget(URL, body={"is": "{name}"}, template=True)
    check_definition(Definition(Schedule(every="1h"), target, name="has one"))
    with pytest.raises(Refused) as refused:
        check_definition(Definition(Schedule(every="1h"), target))
    assert refused.value.field == "name"


@given(HOSTILE, HOSTILE)
def test_a_value_stays_one_value_wherever_it_stands(name: str, other: str) -> None:
    values = {"name": name, "job": other}
    assert fill_value({"a": ["x{name}y", 1, None]}, values) == {"a": [f"x{name}y", 1, None]}
    assert json.loads(fill('{{"a": "{name}", "b": "{job}"}}', values, in_json)) == {"a": name, "b": other}
    url = urlsplit(fill("https://h/a/{name}/b?x={job}&y={name}", values, in_url))
    assert url.path.count("/") == 3
    assert parse_qs(url.query, keep_blank_values=True) == {"x": [other], "y": [name]}


@given(st.dictionaries(st.sampled_from(PLACES), HOSTILE))
def test_what_was_checked_is_filled_in_whatever_the_values_are(values: dict[str, str]) -> None:
    text = "{{" + "".join(f"{{{place}}}" for place in PLACES) + "}}"
    assert places_of({"f": text}) == list(PLACES)
    assert fill(text, values) == "{" + "".join(values.get(place, "") for place in PLACES) + "}"


def test_text_is_filled_in_as_its_type_says() -> None:
    assert fill("{name}", {"name": 'a"&'}, in_text("application/problem+json; charset=utf-8")) == 'a\\"&'
    assert fill("{name}", {"name": "a&b"}, in_text("application/x-www-form-urlencoded")) == "a%26b"
    assert fill("{name}", {"name": "a&b"}, in_text("text/plain")) == "a&b"
    assert fill("{name}", {"name": "a&b"}, in_text(None)) == "a&b"


def test_the_name_is_asked_for_only_where_it_is_used() -> None:
    values = asyncio.run(values_for(ASSIGNMENT, {"f": "{execution} {attempt}"}, _Nameless()))
    assert values["attempt"] == "3"
    assert values["execution"] == ASSIGNMENT.execution
    assert values["fire_at"] == "2027-01-15T08:00:00Z"
    assert "name" not in values
    assert asyncio.run(values_for(ASSIGNMENT, {"f": "{name}"}, _Nameless()))["name"] == "a name"
