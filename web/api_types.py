"""Writes src/types.ts: the types of the API's answers and bodies, from the OpenAPI document that the API
itself serves.

A test fails when the file is stale: `.venv/bin/python web/api_types.py`.
"""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from tocsin.api.app import ENDPOINTS
from tocsin.api.openapi import openapi_document

FILE: Final = Path(__file__).resolve().parent / "src" / "types.ts"
_HEAD: Final = "// Written by web/api_types.py from the OpenAPI document. Do not edit.\n/* biome-ignore-all format: written by a program */\n\n"
_PLAIN: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def types() -> str:
    """The text of the file."""
    document = json.loads(msgspec.json.encode(openapi_document(ENDPOINTS)))
    schemas = document["components"]["schemas"]
    return _HEAD + "\n".join(_declared(name, schemas[name]) for name in sorted(schemas))


def _declared(name: str, schema: dict[str, Any]) -> str:
    if schema.get("type") == "object" and schema.get("properties"):
        return f"export interface {name} {_fields(schema)}\n"
    return f"export type {name} = {_type(schema)};\n"


def _fields(schema: dict[str, Any]) -> str:
    """Every field of an answer is there unless it says otherwise; defaults are for bodies."""
    required = set(schema.get("required", ()))
    lines = [
        f"  {name}{'' if name in required or 'default' in of else '?'}: {_type(of)};"
        for name, of in schema["properties"].items()
    ]
    return "{\n" + "\n".join(lines) + "\n}"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{_type(schema.get('items', {}))}>"
    if kind == "object":
        return _fields(schema) if schema.get("properties") else "Record<string, unknown>"
    if isinstance(kind, list):
        return " | ".join(_PLAIN[one] for one in kind)
    return _PLAIN.get(kind or "", "unknown")


if __name__ == "__main__":
    FILE.write_text(types())
