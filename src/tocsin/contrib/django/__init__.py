"""A back end for Django's tasks, ``tocsin.contrib.django.Backend``; ``manage.py tocsin`` runs them."""

from typing import Any


def __getattr__(name: str) -> Any:
    """The back end is loaded when it is asked for: Django imports this package before its settings are
    read."""
    if name != "Backend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tocsin.contrib.django.backend import Backend  # noqa: PLC0415 - see above

    return Backend
