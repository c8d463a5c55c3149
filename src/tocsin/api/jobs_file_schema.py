"""The JSON schema of files that declare jobs, for editors: `python -m tocsin.api.client_code` writes it.

It is made of the types that the API decodes, so a file that fits it is one that the API understands.
"""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from tocsin.api.wire.declarations import MAX_DECLARED, MAX_REVISION
from tocsin.api.wire.jobs import JobBody
from tocsin.domain.task_target import TASK_NAME

FILE: Final = Path(__file__).parents[1] / "cli" / "jobs_file.schema.json"


def schema() -> dict[str, Any]:
    """The schema of a whole file."""
    (body,), parts = msgspec.json.schema_components([JobBody], ref_template="#/$defs/{name}")
    listed = {"allOf": [body, {"required": ["name"]}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Jobs of Tocsin, declared by an owner",
        "type": "object",
        "required": ["owner", "jobs"],
        "additionalProperties": False,
        "properties": {
            "owner": {"type": "string", "pattern": f"^{TASK_NAME}$", "description": "Whose jobs these are"},
            "revision": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": MAX_REVISION,
                "description": "A lower one than was declared before changes nothing",
            },
            "jobs": {
                "description": "All recurring jobs of the owner: a list, or by name",
                "anyOf": [
                    {"type": "array", "items": listed, "maxItems": MAX_DECLARED},
                    {"type": "object", "additionalProperties": body, "maxProperties": MAX_DECLARED},
                ],
            },
        },
        "$defs": parts,
    }


def text() -> str:
    """The file as it is published."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
