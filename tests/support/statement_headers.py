"""What the comment at the top of a statement's file says, and who in the code really uses the file.

A header is prose, then four paragraphs that begin with ``Caller:``, ``Locks:``, ``Index:`` and ``Zero
rows:``. A file that holds no statement, only columns that several have in common, says so in its first words
and names its callers.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "tocsin"
FRAGMENT = "Not a statement:"
_LABELS = ("Caller", "Locks", "Index", "Zero rows")
_LABEL = re.compile(rf"^({'|'.join(_LABELS)}): ", re.MULTILINE)
_LOOKUPS = {"sql", "statement", "named"}
_INCLUDE = re.compile(r"^\s*\\ir (\w+)\.sql$", re.MULTILINE)


class Header(NamedTuple):
    """The comment at the top of a file, in parts."""

    prose: str
    said: dict[str, str]

    @property
    def callers(self) -> set[str]:
        return _names(self.said.get("Caller", ""))

    @property
    def indexes(self) -> set[str]:
        return {
            name for name in _names(self.said.get("Index", "none")) if name.endswith("_pkey") or "_" in name
        }

    @property
    def missing(self) -> list[str]:
        """The labels that it should have and does not."""
        needed = _LABELS[:1] if self.prose.startswith(FRAGMENT) else _LABELS
        return [label for label in needed if not self.said.get(label)]


def read_header(text: str) -> Header:
    """The header of a file."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    prose, *rest = _LABEL.split("\n".join(lines))
    return Header(prose.strip(), dict(zip(rest[::2], map(str.strip, rest[1::2]), strict=True)))


def callers() -> dict[str, set[str]]:
    """By statement, as ``Class.method`` or ``module.function``: everything in the code that looks its text
    up. A fragment is used by the files that include it."""
    found: dict[str, set[str]] = {}
    statements = {file.stem for file in SOURCE.rglob("sql/*.sql")}
    for file in sorted(SOURCE.rglob("*.py")):
        for name, pattern in _lookups(ast.parse(file.read_text()), file.stem):
            for statement in statements:
                if re.fullmatch(pattern, statement):
                    found.setdefault(statement, set()).add(name)
    for file in sorted(SOURCE.rglob("sql/*.sql")):
        for fragment in _INCLUDE.findall(file.read_text()):
            found.setdefault(fragment, set()).add(file.name)
    return found


def _names(said: str) -> set[str]:
    """The list at the beginning of a paragraph: up to a full stop at a word's end, or a comma before words of
    prose."""
    listed = re.split(r"[.;](?:\s|$)", said, maxsplit=1)[0]
    return {item for item in re.split(r",\s+", listed) if re.fullmatch(r"[\w.]+", item)}


def _lookups(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Functions with the names of statements that they look up, themselves or by a constant of their
    module."""
    constants = {
        target.id: list(_asked(node))
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for name, function in _functions(tree.body, module):
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                yield from ((name, pattern) for pattern in constants.get(node.id, ()))
        yield from ((name, pattern) for pattern in _asked(function))


def _functions(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{owner}.{node.name}", node


def _asked(tree: ast.AST) -> Iterator[str]:
    """The names in ``sql("…")``, ``named("tocsin.…", "…")`` and ``statement(…)``, as patterns: a name may
    have a gap."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _LOOKUPS
            and node.args
        ):
            match node.args[-1]:
                case ast.Constant(value=str(name)):
                    yield re.escape(name)
                case ast.JoinedStr(values=parts):
                    yield "".join(
                        re.escape(p.value) if isinstance(p, ast.Constant) else r"\w+" for p in parts
                    )
