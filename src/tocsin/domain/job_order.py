"""In which orders jobs can be listed."""

from typing import Final

SORTS: Final = ("created", "name", "next_fire")
