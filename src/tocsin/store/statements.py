"""Where the text of the store's statements is."""

from tocsin.db.statements import statement


def sql(name: str) -> str:
    """The text of ``store/sql/<name>.sql``."""
    return statement("tocsin.store", name)
