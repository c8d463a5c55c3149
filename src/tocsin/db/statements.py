r"""Statements that are files, one each, beside the module that runs them (see docs/architecture.md).

A file is a psql script: parameters have names (``:job_ids``), and ``\ir move_to_history.sql`` takes in a
fragment that several statements share, from the folder of the statement or from `db/sql`. The driver wants
numbered parameters, so a name becomes the number of its first appearance. A caller hands over values by name,
and a name that is missing or unknown is an error before anything is sent: a column that is added shifts
nothing.

Engine connections plan each statement once, for all parameters, whatever the tables hold at that moment:
perhaps nothing yet. A statement that looks rows up by the keys it is given must not be turned around into one
that walks the table and searches the keys. So the keys come from a subquery that the planner does not open
(``OFFSET 0``) and that carries the whole key. The key's first column (cell, or tenant) is compared as ``= ANY
(ARRAY[…])``, which an index can be searched by but not be walked for: an index scan with all columns of the
key is then the only way in. Tokens are compared by ``IS NOT DISTINCT FROM``, because equality would prove
that the partial index of claimed rows may be used instead.
"""

import re
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

_SHARED: Final = "tocsin.db"
_COMMENT: Final = re.compile(r"^\s*--[^\n]*\n", re.MULTILINE)
_INCLUDE: Final = re.compile(r"^[ \t]*\\ir (\w+)\.sql\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z]\w*)")


class Statement(NamedTuple):
    """One statement, and the names of its parameters in the order of their numbers."""

    name: str
    text: str
    names: tuple[str, ...]

    def given(self, **values: Any) -> tuple[Any, ...]:
        """The text and its arguments, for a session: ``fetch(*statement.given(cell=0, limit=10))``."""
        if len(values) != len(self.names):
            raise TypeError(f"the parameters are {self.names}, not {tuple(values)}")
        return (self.text, *[values[name] for name in self.names])


@lru_cache
def named(package: str, name: str) -> Statement:
    """The statement of ``<package>/sql/<name>.sql``, whose parameters have names."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${numbers.setdefault(found[1], len(numbers) + 1)}"

    text = _PARAMETER.sub(number, _COMMENT.sub("", statement(package, name)))
    return Statement(name, text, tuple(numbers))


@lru_cache
def statement(package: str, name: str) -> str:
    """The text of ``<package>/sql/<name>.sql``, fragments included."""
    text = (files(package) / "sql" / f"{name}.sql").read_text()
    return _INCLUDE.sub(lambda found: _COMMENT.sub("", _fragment(package, found[1]).read_text()), text)


def _fragment(package: str, name: str) -> Traversable:
    own = files(package) / "sql" / f"{name}.sql"
    return own if own.is_file() else files(_SHARED) / "sql" / f"{name}.sql"
