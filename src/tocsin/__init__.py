"""Tocsin: a distributed job scheduler on PostgreSQL."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.domain.errors import Conflict as Conflict
    from tocsin.domain.errors import NotFound as NotFound
    from tocsin.domain.errors import Refused as Refused
    from tocsin.domain.errors import Unauthorized as Unauthorized
    from tocsin.domain.errors import Unavailable as Unavailable
    from tocsin.sdk.app import App as App
    from tocsin.sdk.client.aio import AsyncClient as AsyncClient
    from tocsin.sdk.client.sync import Client as Client
    from tocsin.sdk.context import Context as Context
    from tocsin.sdk.context import current as current
    from tocsin.sdk.depends import Depends as Depends
    from tocsin.sdk.handle import Handle as Handle
    from tocsin.sdk.handle import TaskFailed as TaskFailed
    from tocsin.sdk.options import Limit as Limit
    from tocsin.sdk.options import Retry as Retry
    from tocsin.sdk.outbox import Outbox as Outbox
    from tocsin.sdk.outcomes import Cancelled as Cancelled
    from tocsin.sdk.outcomes import ClaimLost as ClaimLost
    from tocsin.sdk.outcomes import Postpone as Postpone
    from tocsin.sdk.outcomes import Rejected as Rejected
    from tocsin.sdk.outcomes import RetryAfter as RetryAfter
    from tocsin.sdk.outcomes import Skip as Skip
    from tocsin.sdk.outcomes import Stopped as Stopped
    from tocsin.sdk.outcomes import TimedOut as TimedOut
    from tocsin.sdk.task import Task as Task
    from tocsin.sdk.transactions import enqueue_in as enqueue_in
    from tocsin.sdk.transactions import enqueue_in_async as enqueue_in_async
    from tocsin.sdk.transactions import enqueue_many_in as enqueue_many_in
    from tocsin.sdk.transactions import enqueue_many_in_async as enqueue_many_in_async
    from tocsin.sdk.transactions import succeed_in as succeed_in
    from tocsin.sdk.transactions import succeed_in_async as succeed_in_async

__version__ = "0.1.0"
_WHERE = {
    "tocsin.domain.errors": ("Conflict", "NotFound", "Refused", "Unauthorized", "Unavailable"),
    "tocsin.sdk.app": ("App",),
    "tocsin.sdk.client.aio": ("AsyncClient",),
    "tocsin.sdk.client.sync": ("Client",),
    "tocsin.sdk.context": ("Context", "current"),
    "tocsin.sdk.depends": ("Depends",),
    "tocsin.sdk.handle": ("Handle", "TaskFailed"),
    "tocsin.sdk.options": ("Limit", "Retry"),
    "tocsin.sdk.outbox": ("Outbox",),
    "tocsin.sdk.outcomes": (
        "Cancelled", "ClaimLost", "Postpone", "Rejected", "RetryAfter", "Skip", "Stopped", "TimedOut",
    ),
    "tocsin.sdk.task": ("Task",),
    "tocsin.sdk.transactions": (
        "enqueue_in", "enqueue_in_async", "enqueue_many_in", "enqueue_many_in_async", "succeed_in",
        "succeed_in_async",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}
__all__ = [*_MODULE_OF, "__version__"]  # noqa: PLE0604 - names of the map above


def __getattr__(name: str) -> Any:
    """What users import is loaded when it is asked for: the server does not need it, and `import tocsin`
    takes no time."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tocsin' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)
