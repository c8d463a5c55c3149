"""Whether a process is well, for machines that watch it."""

import msgspec


class Health(msgspec.Struct, frozen=True):
    """Whether this process is well."""

    status: str
    detail: str | None = None
