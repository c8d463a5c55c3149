"""Values in the source text of a Python module, without running it.

Literals, arithmetic on numbers, names of the module and calls are read; a call stays a `Call`, for the reader
to understand. Anything else is an `Unread`.
"""

import ast
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tocsin.cli.importing.reading import Unfit

_OPERATIONS: Final = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call as it is written: the last part of the function's name, and its arguments."""

    name: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    line: int


@dataclass(frozen=True)
class Unread:
    """An expression that is more than a value."""

    text: str


def parse(text: str) -> ast.Module:
    """The tree of a module."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Unfit(f"not Python: {error}") from None


def assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr, int]]:
    """All assignments, in functions too: the last part of the name, what is assigned, the line."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            if (name := last_name(target)) is not None and isinstance(node, ast.Assign | ast.AnnAssign):
                yield name, node.value, node.lineno  # type: ignore[misc]


def last_name(node: ast.expr) -> str | None:
    """`beat_schedule` of `app.conf.beat_schedule`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """What the names of the module stand for."""
    return {name: value for name, value, _ in assignments(tree)}


def value_of(node: ast.expr, names: Mapping[str, ast.expr], depth: int = 0) -> Any:
    """The value that an expression has."""
    if depth > 50:
        return Unread(ast.unparse(node)[:80])

    def inner(part: ast.expr) -> Any:
        return value_of(part, names, depth + 1)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            return [inner(one) for one in elts]
        case ast.Dict(keys=keys, values=values):
            return {inner(key): inner(one) for key, one in zip(keys, values, strict=True) if key is not None}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            sides = inner(left), inner(right)
            if all(isinstance(side, int | float) for side in sides) and (
                sides[1] or isinstance(op, ast.Mult)
            ):
                return _OPERATIONS[type(op)](*sides)
        case ast.Call(func=func) if (name := last_name(func)) is not None:
            named = {one.arg: inner(one.value) for one in node.keywords if one.arg is not None}
            return Call(name, tuple(inner(one) for one in node.args), named, node.lineno)
        case ast.Name(id=name) if name in names:
            return value_of(names[name], names, depth + 1)
    return Unread(ast.unparse(node)[:80])


def plain(value: Any) -> bool:
    """Whether a value can be written as JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def seconds_of(value: Any) -> float | None:
    """The length of a number of seconds or of a `timedelta`; None if it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Call) and value.name == "timedelta":
        units = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
        lengths = dict(zip(units, (86_400, 1, 1e-6, 1e-3, 60, 3600, 604_800), strict=True))
        given = dict(zip(units, value.args, strict=False)) | value.named
        if all(unit in lengths and isinstance(number, int | float) for unit, number in given.items()):
            return float(sum(lengths[unit] * number for unit, number in given.items()))
    return None
