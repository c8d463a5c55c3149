"""SQL lives in files, one statement each, beside the module that runs it.

Engine connections plan each statement once, for all parameters, whatever the tables hold at that moment: perhaps
nothing yet. A statement that looks rows up by the keys it is given must not be turned around into one that walks the
table and searches the keys. So the keys come from a subquery that the planner does not open (``OFFSET 0``) and that
carries the whole key, its first column (cell, or tenant) compared as ``= ANY (ARRAY[…])``, which an index can be
searched by but not be walked for: an index scan with all columns of the key is then the only way in. Tokens are compared by ``IS NOT DISTINCT FROM``, because
equality would prove that the partial index of claimed rows may be used instead.
"""

from functools import lru_cache
from importlib.resources import files


@lru_cache
def statement(package: str, name: str) -> str:
    """The text of ``<package>/sql/<name>.sql``."""
    return (files(package) / "sql" / f"{name}.sql").read_text()
