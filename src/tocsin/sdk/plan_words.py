"""What came of a declaration, or would, in lines for a terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tocsin.sdk.client import types

_MARKS: Final = {
    "created": "+", "revived": "+", "changed": "~", "removed": "-", "differs": "?", "undeclared": "?", "refused": "!",
}  # fmt: skip
_ORDER: Final = ("refused", "created", "revived", "changed", "removed", "differs", "undeclared", "unchanged")


def plan_words(declared: "types.Declared") -> Iterator[str]:
    """A line for the whole and one for each job that does not stay as it is."""
    revision = "" if declared["revision"] is None else f"@{declared['revision']}"
    if declared["superseded"]:
        yield f"{declared['owner']}: superseded, {declared['owner']}{revision} is in force; nothing was changed"
        return
    counts = declared["counts"]
    said = ", ".join(f"{counts[action]} {action}" for action in _ORDER if counts.get(action))
    written = "" if declared["applied"] else " (nothing is written)"
    yield f"{declared['owner']}{revision}: {said or 'no jobs'}{written}"
    width = max((len(job["name"]) for job in declared["jobs"]), default=0)
    for job in declared["jobs"]:
        if (mark := _MARKS.get(job["action"])) is not None:
            yield f"  {mark} {job['name']:<{width}}  {_job(job)}".rstrip()


def _job(job: "types.DeclaredJob") -> str:
    problem = job.get("problem")
    if problem is not None:
        hint = problem.get("hint")
        return f"refused: {problem['detail']}" + (f" ({hint})" if hint else "")
    words = [job["action"] if job["action"] != "changed" else "changes " + _fields(job)]
    words += _fires(job)
    if job.get("paused"):
        words.append("paused, and stays so")
    return "; ".join(words)


def _fields(job: "types.DeclaredJob") -> str:
    return ", ".join(change["field"] for change in job.get("fields", []))


def _fires(job: "types.DeclaredJob") -> Iterator[str]:
    fires = job.get("fires")
    if fires is None:
        return
    if fires["gained"]:
        yield f"gains {_number(fires['gained'])}, first {fires['first_gained'][0]}"
    if fires["lost"]:
        yield f"loses {_number(fires['lost'])}, first {fires['first_lost'][0]}"
    if fires["moved"]:
        first = fires["first_moved"][0]
        yield f"moves {_number(fires['moved'])}, first {first['before']} to {first['after']}"
    yield f"until {fires['until']}"


def _number(fires: int) -> str:
    return f"{fires} fire" + ("" if fires == 1 else "s")
