"""The reference pages name everything that the code has, and nothing that it has not."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from tests.support.commands import every_command, leaves
from tests.support.metrics import every_metric
from tocsin.api.app import ENDPOINTS
from tocsin.api.wire.executions import Execution
from tocsin.api.wire.jobs import Job
from tocsin.api.wire.keys import Key
from tocsin.api.wire.tenants import Tenant
from tocsin.domain.findings import FINDINGS
from tocsin.domain.keys import Scope
from tocsin.domain.lifecycle import FINAL, TRANSITIONS, State
from tocsin.sdk.conformance.attempts import TASKS
from tocsin.sdk.conformance.run import SCENARIOS
from tocsin.sdk.conformance.tasks import app
from tocsin.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PLAIN_ROUTES = {"GET /healthz", "GET /readyz", "GET /metrics", "GET /openapi.json", "GET /v1/echo"}


def test_every_setting_is_documented_with_its_default() -> None:
    process, command_line = page("operating/settings.md").split("## The command line")
    documented = {row[0].strip("`"): row[1].strip("`") for row in rows(process, "Variable")}
    actual = {
        f"TOCSIN_{field.name.upper()}": written(field.default) for field in msgspec.structs.fields(Settings)
    }
    assert documented == actual
    assert {row[0] for row in rows(command_line, "Variable")} == {"`TOCSIN_URL`", "`TOCSIN_API_KEY`"}


def test_every_metric_is_documented_with_its_type() -> None:
    documented = {row[0].strip("`"): row[1] for row in rows(page("operating/metrics.md"), "Name")}
    assert documented == {f.name + "_total" * (f.type == "counter"): f.type for f in every_metric()}


def test_every_finding_of_the_doctor_is_documented_in_order() -> None:
    documented = [row[0].strip("`") for row in rows(page("operating/troubleshooting.md"), "Finding")]
    assert documented == [find.__name__ for find in FINDINGS]


def test_every_route_is_documented_with_its_scope_and_status() -> None:
    sections = dict(sections_of(page("api.md"), "###"))
    documented = {heading.strip("`") for heading in sections if re.match(r"`[A-Z]+ /", heading)}
    assert documented == {f"{e.method} {e.path}" for e in ENDPOINTS} | PLAIN_ROUTES
    for endpoint in ENDPOINTS:
        text = sections[f"`{endpoint.method} {endpoint.path}`"]
        needs = "No key" if endpoint.keyless else f"Scope `{endpoint.scope}`"
        assert f"{needs}. Answers {endpoint.status}" in " ".join(text.split()), endpoint.path
        for parameter in endpoint.parameters:
            assert f"`{parameter.name}`" in text, f"{endpoint.path}: {parameter.name}"


def test_every_field_of_a_request_is_documented_with_its_route() -> None:
    sections = dict(sections_of(page("api.md"), "###"))
    like_a_new_job = {"PUT /v1/jobs/by-name/{name}", "PATCH /v1/jobs/{job_id}"}
    for endpoint in ENDPOINTS:
        route = f"{endpoint.method} {endpoint.path}"
        if (
            endpoint.body is None
            or route in like_a_new_job
            or not hasattr(endpoint.body, "__struct_fields__")
        ):
            continue
        missing = [name for name in fields_of(endpoint.body) if f"`{name}`" not in sections[f"`{route}`"]]
        assert missing == [], route


@pytest.mark.parametrize(
    ("heading", "kind"), [("A job", Job), ("An execution", Execution), ("A tenant", Tenant), ("A key", Key)]
)
def test_the_example_of_an_answer_has_every_field_in_order(heading: str, kind: type) -> None:
    example = dict(sections_of(page("api.md"), "###"))[heading].split("```json")[1].split("```")[0]
    only_where_asked_for = {f.encode_name for f in msgspec.structs.fields(kind) if f.default is msgspec.UNSET}
    expected = [name for name in fields_of(kind) if name not in only_where_asked_for]
    assert list(msgspec.json.decode(example)) == expected


def fields_of(kind: Any) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def test_every_command_for_pausing_and_running_exists() -> None:
    for _, command, _ in rows(page("guides/pause-cancel-run.md"), "You want to"):
        assert list(every_command(*command.strip("`").removeprefix("tocsin ").split()[:2]))


def test_every_conformance_scenario_and_task_is_documented() -> None:
    text = page("guides/conformance.md")
    documented = {row[0]: row[1] for row in rows(text, "Scenario")}
    assert documented == {one.name: one.expects for one in SCENARIOS}
    assert {row[0].strip("`") for row in rows(text, "Task")} == TASKS == set(app.tasks)


def test_every_scope_is_in_the_security_model() -> None:
    assert [row[0].strip("`") for row in rows(page("security.md"), "Scope")] == [
        str(scope) for scope in Scope
    ]


def test_every_command_is_documented_with_every_option() -> None:
    text = page("cli.md")
    shared = set(
        re.findall(r"`(--[a-z-]+)`", dict(sections_of(text, "##"))["Talk to the API"].split("###")[0])
    )
    sections = {heading.strip("`"): body for heading, body in sections_of(text, "###")}
    commands = dict(leaves())
    assert set(sections) == set(commands)
    for path, command in commands.items():
        options = {option for p in command.params if isinstance(p, click.Option) for option in p.opts}
        documented = set(re.findall(r"`(--[a-z-]+)[ `]", sections[path]))
        talks_to_api = "--json" in options
        missing = options - documented - (shared if talks_to_api else set())
        assert not missing, f"{path}: {missing} not documented"
        assert documented <= options, f"{path}: {documented - options} documented but not there"


def test_every_dependency_is_documented_with_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = {
        "In your program": project["project"]["dependencies"],
        "To run the server": project["project"]["optional-dependencies"]["server"],
        "To call gRPC": project["project"]["optional-dependencies"]["grpc"],
        "To send traces": project["project"]["optional-dependencies"]["otel"],
        "To archive history": project["project"]["optional-dependencies"]["archive"],
        "To publish messages": [
            entry
            for extra, entries in project["project"]["optional-dependencies"].items()
            if extra not in ("all", "server", "grpc", "otel", "archive")
            for entry in entries
        ],
        "To develop": project["dependency-groups"]["dev"],
        "To build": project["dependency-groups"]["build"],
        "To let a cluster fail over": project["dependency-groups"]["ha"],
        "To build the dashboard": project["dependency-groups"]["web"],
    }
    for heading, text in sections_of(page("dependencies.md"), "##"):
        documented = {row[0].strip("`"): row[1] for row in rows(text, "Package")}
        names = {re.split(r"[<>=~! ]", entry)[0] for entry in listed.pop(heading) if isinstance(entry, str)}
        assert set(documented) == names
        assert all(len(reason) > 10 for reason in documented.values())
    assert not listed


def test_one_extra_has_every_other_in_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"tocsin[{','.join(sorted(extras))}]"
    assert "`tocsin[all]`" in page("dependencies.md")


def test_the_table_of_transitions_equals_the_state_machine() -> None:
    documented = {(row[0], row[1]): row[2] for row in rows(page("concepts.md"), "From")}
    assert documented == {
        (f"`{state}`", f"`{event}`"): f"`{after}`" for (state, event), after in TRANSITIONS.items()
    }


def test_the_diagram_of_states_equals_the_state_machine() -> None:
    drawn = set()
    for before, after, events in re.findall(r"^ +(\w+) --> (\w+): (.+)$", page("concepts.md"), re.MULTILINE):
        drawn |= {(before, event, after) for event in events.split(", ")}
    assert drawn == {(state, event, after) for (state, event), after in TRANSITIONS.items()}


def test_every_state_is_documented_as_live_or_final() -> None:
    documented = {
        row[0].strip("`"): row[1] for row in rows(page("concepts.md"), "State") if row[1] in ("live", "final")
    }
    assert documented == {state: "final" if state in FINAL else "live" for state in State}


def test_documented_log_events_exist() -> None:
    source = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    table = rows(page("operating/troubleshooting.md").split("## Log events")[1], "Event")
    for row in table:
        for event in re.findall(r"`([a-z_.]+)`", row[0]):
            assert f'"{event}"' in source, f"no event {event}"


@pytest.mark.parametrize(
    "command", ["run", "test", "check", "fmt", "dist", "bench", "bench-full", "soak", "fuzz", "lock", "clean"]
)
def test_make_commands_are_documented(command: str) -> None:
    assert f"\n{command}:" in (ROOT / "Makefile").read_text()
    assert f"`make {command}`" in (ROOT / "CONTRIBUTING.md").read_text()


def page(name: str) -> str:
    return (DOCS / name).read_text()


def rows(text: str, first_heading: str) -> list[list[str]]:
    """The rows of all tables whose first column has this heading."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif inside and not set(cells[0]) <= {"-", ":"}:
            found.append(cells)
        elif cells[0] == first_heading:
            inside = True
    return found


def sections_of(text: str, marks: str) -> Iterator[tuple[str, str]]:
    """Headings of one level, each with the text up to the next heading of that level or a higher one."""
    parts = re.split(rf"^(#{{1,{len(marks)}}}) (.+)$", text, flags=re.MULTILINE)
    for level, heading, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if level == marks:
            yield heading, body


def written(default: Any) -> str:
    """A default as the settings page writes it."""
    if default is None or default in ("", ()):
        return "none"
    if isinstance(default, tuple):
        return ",".join(default)
    return str(default).lower() if isinstance(default, bool) else str(default)
