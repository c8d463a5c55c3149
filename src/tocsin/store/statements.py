"""What the store's statements have in common: where their text is, and the cell that they name.

A single PostgreSQL is one cell. Its number leads the keys all the same, so that tables which are spread over machines
by it need no other statements.
"""

from typing import Final

from tocsin.db.statements import statement

CELL: Final = 0


def sql(name: str) -> str:
    """The text of ``store/sql/<name>.sql``."""
    return statement("tocsin.store", name)
