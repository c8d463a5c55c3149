"""SQL lives in files, one statement each, beside the module that runs it."""

from functools import lru_cache
from importlib.resources import files


@lru_cache
def statement(package: str, name: str) -> str:
    """The text of ``<package>/sql/<name>.sql``."""
    return (files(package) / "sql" / f"{name}.sql").read_text()
