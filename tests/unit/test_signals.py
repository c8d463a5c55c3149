"""Parts of a process tell each other by signals that are connected where the parts are put together, and by
nothing that one assigns into another."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tocsin
from tocsin.signals import Signal

SOURCE = Path(tocsin.__file__).parent


def test_a_signal_calls_what_is_connected_in_order_each_time_it_is_sent() -> None:
    signal, called = Signal("tested"), list[str]()
    signal.send()
    signal.connect(lambda: called.append("first"), lambda: called.append("second"))
    signal.connect(lambda: called.append("third"))
    assert called == [], "nothing is kept for those that connect later"
    signal.send()
    signal.send()
    assert called == ["first", "second", "third"] * 2


def test_a_signal_that_has_no_listener_is_of_no_account() -> None:
    Signal("unheard").send()


def test_no_part_assigns_a_function_into_another() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in assigned_callbacks(ast.parse(path.read_text()))
    ]
    assert found == []


def test_an_assigned_callback_is_noticed() -> None:
    text = """
def told(): ...
class Part:
    def __init__(self, other):
        self.kept = self.heard
        other.on_end = self.heard
        other.part.on_end = lambda: None
        other.on_start = told
        other.count = self.count
        other.count, other.on_end = 1, told
    def heard(self): ...
"""
    assert list(assigned_callbacks(ast.parse(text))) == [6, 7, 8, 10]


def assigned_callbacks(module: ast.Module) -> Iterator[int]:
    """The lines on which a function becomes an attribute of something that is not the class's own self."""
    functions = {
        node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for node in ast.walk(module):
        if not isinstance(node, ast.Assign):
            continue
        targets = [one for target in node.targets for one in _each(target)]
        if any(map(_is_elsewhere, targets)) and any(
            _is_function(one, functions) for one in _each(node.value)
        ):
            yield node.lineno


def _each(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _is_elsewhere(target: ast.expr) -> bool:
    if not isinstance(target, ast.Attribute):
        return False
    return not (isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"))


def _is_function(value: ast.expr, functions: set[str]) -> bool:
    match value:
        case ast.Lambda():
            return True
        case ast.Name(id=name):
            return name in functions
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in functions
        case ast.Call(func=ast.Name(id="partial")):
            return True
    return False
