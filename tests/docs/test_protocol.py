"""The examples of the worker protocol, asked as they are written, in order: each answer has the fields that
the page shows."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.protocol import MAX_LOG_BYTES, MAX_LOG_LINES, TaskVerdict

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
EXAMPLE = re.compile(r"```http\n(\w+) (\S+)\n(.*?)\n\n(\d+)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as found:
        yield found
    cluster.drop(url)


def shape(value: Any) -> Any:
    """What an answer looks like: its fields, and the kinds of their values."""
    match value:
        case dict():
            return {name: shape(inner) for name, inner in value.items()}
        case list():
            return [shape(inner) for inner in value]
        case _:
            return type(value).__name__


def filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def test_every_example_of_the_protocol_is_answered_as_written(api: InProcessApi) -> None:
    key = api.new_key("worker", "write")
    target = {"kind": "task", "task": "shop.resize", "payload": {"image": 17}}
    assert api.post("/v1/jobs", {"schedule": {"in": 0}, "target": target}, key=key).status == 201
    names: dict[str, str] = {}
    examples = EXAMPLE.findall(
        PAGE.replace("DELETE /v1/workers/{worker}\n", "DELETE /v1/workers/{worker}\n\n")
    )
    assert len(examples) == 6
    for method, written_path, written_body, status, expected in examples:
        path, body = filled(written_path, names), filled(written_body, names)
        answer = api.call(method, path, body.encode(), key=key)
        assert answer.status == int(status), (path, answer)
        told, shown = answer.json(), msgspec.json.decode(expected)
        assert shape(told) == shape(shown), path
        for claim in told.get("claims", ()):
            names |= {"id": claim["id"], "token": claim["token"]}
            assert (claim["task"], claim["payload"]) == ("shop.resize", {"image": 17})
        if "worker" in told:
            names["worker"] = told["worker"]


def test_the_page_names_every_verdict_and_bound() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == {"verdict", *get_args(TaskVerdict)}
    assert f"{MAX_LOG_LINES:,} lines and {MAX_LOG_BYTES // 1024} KiB" in " ".join(PAGE.split())
