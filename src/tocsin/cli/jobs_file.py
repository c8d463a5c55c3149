"""A file that declares jobs: `owner:`, `jobs:` in the API's own fields, and a `revision:` if there is one.

YAML, TOML or JSON. YAML is read as version 1.2 says, so that `on:` is a word and an instant is text; a key
that stands twice is refused, since one of the two would be lost.
"""

import json
import re
import tomllib
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import yaml

_KEYS: Final = ("owner", "revision", "jobs")


class Unreadable(Exception):
    """Why a file cannot be read."""


class JobsFile(NamedTuple):
    """What a file says."""

    owner: str
    revision: int | None
    jobs: list[dict[str, Any]]


def read_jobs_file(text: str, name: str) -> JobsFile:
    """Read a file; its name tells TOML from YAML, of which JSON is a part."""
    document = _parse(text, toml=name.lower().endswith(".toml"))
    if not isinstance(document, dict):
        raise Unreadable("a file of jobs has owner: and jobs: at its top")
    for key in document:
        if key not in _KEYS:
            close = get_close_matches(str(key), _KEYS, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(_KEYS)}"
            raise Unreadable(f"unknown field {key!r}{hint}")
    owner, revision = document.get("owner"), document.get("revision")
    if not isinstance(owner, str):
        raise Unreadable("owner: says whose jobs these are, for example owner: shop")
    if revision is not None and (isinstance(revision, bool) or not isinstance(revision, int)):
        raise Unreadable("revision: is a whole number")
    return JobsFile(owner, revision, _jobs(document.get("jobs")))


def written_yaml(owner: str, jobs: list[dict[str, Any]]) -> str:
    """A file that declares these jobs."""
    text: str = yaml.dump(
        {"owner": owner, "jobs": jobs}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110
    )
    return text


def written_json(owner: str, jobs: list[dict[str, Any]]) -> str:
    """The same as JSON."""
    return json.dumps({"owner": owner, "jobs": jobs}, indent=2, ensure_ascii=False)


def _jobs(written: Any) -> list[dict[str, Any]]:
    """The jobs as a list; they may be written by name, too."""
    if isinstance(written, dict):
        named = [{"name": name} | job if isinstance(job, dict) else job for name, job in written.items()]
    elif isinstance(written, list):
        named = written
    else:
        raise Unreadable("jobs: is a list of jobs, or jobs by their names")
    for place, job in enumerate(named):
        if not isinstance(job, dict):
            raise Unreadable(f"jobs[{place}] is not a job with fields")
    return named


def _parse(text: str, *, toml: bool) -> Any:
    try:
        return _plain(tomllib.loads(text)) if toml else yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe one
    except (tomllib.TOMLDecodeError, yaml.YAMLError, RecursionError) as error:
        raise Unreadable(f"not {'TOML' if toml else 'YAML'}: {' '.join(str(error).split())}") from None


def _plain(value: Any) -> Any:
    """TOML has instants and dates; JSON has text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime | date | time) else value


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # the library has no types
    """YAML by the core schema of 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the library's own form

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value]
        for place, key in enumerate(keys):
            if key in keys[:place]:
                line = node.value[place][0].start_mark.line + 1
                raise yaml.constructor.ConstructorError(
                    None, None, f"line {line}: {key!r} stands there twice"
                )
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc] # the library has no types
    """Writes what every reader of YAML reads the same."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:  # noqa: ARG002
        return super().increase_indent(flow, False)


for _tag, _pattern in (
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?(0|[1-9][0-9]*)"),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?"),
    ("null", r"~|null|Null|NULL|"),
    ("merge", "<<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), None)
