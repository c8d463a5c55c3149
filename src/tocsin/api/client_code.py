"""Writes the part of the client that follows from the OpenAPI document: the types of what travels, and a
method for each operation. `python -m tocsin.api.client_code`; a test fails where the files differ.

Types are `TypedDict`s: an answer is the dictionary that came, so a field that a newer server adds is there.
"""

import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tocsin.api import jobs_file_schema
from tocsin.api.app import ENDPOINTS
from tocsin.api.openapi import openapi_document

_CLIENT: Final = Path(__file__).parents[1] / "sdk" / "client"
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_LEFT_OUT: Final = ("session_", "events_")
_PROTOCOL: Final = frozenset(
    f"workers_{word}" for word in ("register", "leave", "claim", "settle", "heartbeat", "release")
)
_NAMES: Final = {
    "batch_create_batch": None, "executions_show": None, "executions_cancel": None, "jobs_create": None,  # by hand
    "executions_explain_execution": None,
    "control": "jobs", "schedules_preview_schedule": "schedules.preview", "schedules_upcoming": "jobs.upcoming",
    "jobs_show_by_name": "jobs.get_by_name", "calendar_calendar": "jobs.calendar",
    "timeline_timeline": "stats.timeline",
    "backfills_of_job": "backfills.list",
}  # fmt: skip
_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MADE: Final = (
    "Made from the OpenAPI document by `python -m tocsin.api.client_code`: change that, not this file."
)
_REF: Final = "#/components/schemas/"


def types_text(document: Mapping[str, Any]) -> str:
    """The module of types."""
    names = _reachable(document)
    lines = [
        f'"""What the API takes and answers. {_MADE}"""\n',
        "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict\n",
    ]
    lines += [_definition(name, document["components"]["schemas"][name]) for name in sorted(names)]
    return "\n".join(lines)


def resources_text(document: Mapping[str, Any]) -> str:
    """The module of the client's resources."""
    resources: dict[str, list[str]] = {}
    for path, method, operation in _operations(document):
        resource, name = _place_of(operation["operationId"])
        resources.setdefault(resource, []).append(_method(path, method, name, operation, document))
    classes = [_class(name, methods) for name, methods in sorted(resources.items())]
    made = "\n".join(f"        self.{name} = Async{_class_name(name)}(client)" for name in sorted(resources))
    return (
        _HEAD
        + "\n\n".join(classes)
        + f'\n\n\nclass AsyncResources:\n    """All of them."""\n\n    def __init__(self, client: "AsyncSender") -> None:\n{made}\n'
    )


_HEAD: Final = f'''"""The operations of the API, asynchronous. {_MADE}
The synchronous face (`resources_sync`) is made from this file: `python -m tocsin.sdk.client.faces`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Unpack

from tocsin.sdk.client.core import request_of
from tocsin.sdk.client.sending import AsyncSender, pages

if TYPE_CHECKING:
    from tocsin.sdk.client import types


'''


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if (operation := methods.get(method)) is not None and path.startswith("/v1/"):
                identity = operation["operationId"]
                if not _is_left_out(identity) and _NAMES.get(identity, "") is not None:
                    yield path, method, operation


def _is_left_out(identity: str) -> bool:
    """What browsers and workers call, and no client."""
    return identity in _PROTOCOL or identity.startswith(_LEFT_OUT)


def _place_of(identity: str) -> tuple[str, str]:
    """The resource and the method of an operation."""
    if (given := _NAMES.get(identity)) is not None:
        resource, _, name = given.partition(".")
        return resource, name
    tag = next(one for one in sorted(_MODULES, key=len, reverse=True) if identity.startswith(one + "_"))
    name = identity.removeprefix(tag + "_")
    short = {"show": "get", "change": "update"}.get(name, name)
    return _NAMES.get(tag) or tag, "list" if name.startswith("list_") else "count" if name.startswith(
        "count_"
    ) else short


_MODULES: Final = frozenset(endpoint.handler.__module__.rpartition(".")[2] for endpoint in ENDPOINTS)


def _method(
    path: str, method: str, name: str, operation: Mapping[str, Any], document: Mapping[str, Any]
) -> str:
    parameters = operation.get("parameters", ())
    positional = [one["name"] for one in parameters if one["in"] == "path"]
    query = {one["name"]: one for one in parameters if one["in"] == "query"}
    body = _json(operation.get("requestBody"))
    answer = _json(
        next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    )
    schema = document["components"]["schemas"].get(_name_of(answer) or "", {})
    paged = (
        "next_cursor" in schema.get("properties", {}) and "cursor" in query and name == "list"
    ) or name in ("executions", "logs")
    words = [f"{one}: str" for one in positional] + (["/"] if positional else [])
    named = [f"{_argument(one)}: {_query_type(spec)} | None = None" for one, spec in query.items()]
    if "If-Match" in (one["name"] for one in parameters):
        named.append("if_match: str | None = None")
    if method in ("post", "put", "patch"):
        named.append("idempotency_key: str | None = None")
    words += (["*"] if named else []) + named
    if body is not None and (name_of := _name_of(body)) not in (None, "Nothing"):
        words.append(f"**body: Unpack[types.{name_of}]")
    given = ", ".join(
        repr(part) if not part.startswith("{") else part[1:-1]
        for part in path.removeprefix("/v1/").split("/")
    )
    asked = "{" + ", ".join(f'"{one}": {_argument(one)}' for one in query) + "}"
    item = _type(schema.get("properties", {}).get("items", {}).get("items", {}), "types.") if paged else ""
    result = f"AsyncIterator[{item}]" if paged else _type(answer or {}, "types.")
    text = (
        f"    async def {name}(self, {', '.join(words)}) -> {result}:\n"
        if words
        else f"    async def {name}(self) -> {result}:\n"
    )
    text += f'        """{operation["summary"]}."""\n'
    if paged:
        return (
            text
            + f"        async for item in pages(self._client, ({given},), {asked}):\n            yield item\n"
        )
    extra = f", query={asked}" if query else ""
    if body is not None:
        extra += ", body=dict(body)" if "**body" in text else ", body={}"
    if method in ("post", "put", "patch"):
        extra += ", idempotency_key=idempotency_key"
    if "if_match" in text:
        extra += ", if_match=if_match"
    call = f"await self._client.send(request_of({method.upper()!r}, {given}{extra}))"
    return text + (
        f"        answer: {result} = {call}\n        return answer\n"
        if result != "None"
        else f"        {call}\n"
    )


def _class(name: str, methods: list[str]) -> str:
    where = name.replace("_", "-")
    head = f'class Async{_class_name(name)}:\n    """`{where}`: what the API has of it."""\n\n    def __init__(self, client: AsyncSender) -> None:\n        self._client = client\n'
    return "\n".join([head, *methods])


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _argument(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _query_type(spec: Mapping[str, Any]) -> str:
    return _PLAIN.get(spec["schema"].get("type", "string"), "str")


def _json(content: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    media = (content or {}).get("content", {}).get("application/json")
    return None if media is None else media["schema"]


def _name_of(schema: Mapping[str, Any] | None) -> str | None:
    reference = (schema or {}).get("$ref")
    return None if reference is None else str(reference).removeprefix(_REF)


def _definition(name: str, schema: Mapping[str, Any]) -> str:
    if schema.get("type") != "object" or "properties" not in schema:
        return f'{name}: TypeAlias = "{_type(schema)}"\n'
    required = set(schema.get("required", ()))
    fields = {}
    for field, spec in schema["properties"].items():
        kind = _type(spec)
        fields[field] = kind if field in required else f"NotRequired[{kind}]"
    words = " ".join(schema.get("description", "").split())
    if all(re.fullmatch(r"[a-z_][a-z0-9_]*", field) and not keyword.iskeyword(field) for field in fields):
        lines = [f'    {field}: "{kind}"' for field, kind in fields.items()]
        return "\n".join([f"class {name}(TypedDict):", f'    """{words}"""\n', *lines]) + "\n"
    inside = ", ".join(f'{field!r}: "{kind}"' for field, kind in fields.items())
    return f"{name} = TypedDict({name!r}, {{{inside}}})\n"


def _type(schema: Mapping[str, Any], module: str = "") -> str:
    if (name := _name_of(schema)) is not None:
        return f"{module}{name}"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_type(one, module) for one in schema[key]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return (
            "Literal[" + ", ".join(f"'{one}'" if isinstance(one, str) else repr(one) for one in values) + "]"
        )
    if schema.get("type") == "array":
        return f"list[{_type(schema.get('items', {}), module)}]"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"dict[str, {_type(inner, module) if isinstance(inner, dict) else 'Any'}]"
    return _PLAIN.get(schema.get("type", ""), "Any")


def _reachable(document: Mapping[str, Any]) -> set[str]:
    """The schemas that the client's operations lead to."""
    waiting: list[Any] = [
        operation
        for methods in document["paths"].values()
        for operation in methods.values()
        if not _is_left_out(operation["operationId"])
    ]
    found: set[str] = set()
    while waiting:
        for name in re.findall(re.escape(_REF) + r"(\w+)", msgspec.json.encode(waiting.pop()).decode()):
            if name not in found:
                found.add(name)
                waiting.append(document["components"]["schemas"][name])
    return found


def files() -> dict[Path, str]:
    """What the made files must contain, formatted as the rest of the code."""
    document = msgspec.json.decode(msgspec.json.encode(openapi_document(ENDPOINTS)))
    made = {"types.py": types_text(document), "resources.py": resources_text(document)}
    return {_CLIENT / name: _formatted(text) for name, text in made.items()}


def _formatted(text: str) -> str:
    ruff = (sys.executable, "-m", "ruff", "format", "-q", "-")
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write the files, and the schema of files that declare jobs, which is made of the same types."""
    for path, text in files().items():
        path.write_text(text)
    jobs_file_schema.FILE.write_text(jobs_file_schema.text())


if __name__ == "__main__":
    main()
