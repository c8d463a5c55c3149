"""Everything that a part of the product keeps in memory: each map, set, list and queue within reach, and how
long it is."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

CONTAINERS = (dict, OrderedDict, defaultdict, set, list, deque)


def containers(*roots: object) -> dict[str, int]:
    """`Class.attribute` to the length of the longest container there. Goes from the roots through objects of
    the product."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    waiting: list[object] = list(roots)
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in _attributes(one):
            if isinstance(value, CONTAINERS):
                path = f"{type(one).__name__}.{name}"
                found[path] = max(found.get(path, 0), len(value))
            waiting += _within(value)
    return found


def _attributes(one: object) -> Iterator[tuple[str, Any]]:
    if not type(one).__module__.startswith("tocsin"):
        return
    yield from vars(one).items() if hasattr(one, "__dict__") else ()
    for name in getattr(type(one), "__struct_fields__", getattr(type(one), "__slots__", ())):
        if hasattr(one, name):
            yield name, getattr(one, name)


def _within(value: object) -> list[object]:
    """What is reached through a value: itself, what it holds, and whose method it is."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (set, list, deque, tuple, frozenset)):
        return list(value)
    return [value, getattr(value, "__self__", None)]
