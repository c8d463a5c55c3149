"""One call of a task's function with everything around it: its dependencies, and the app's middleware.

A task without either is called as it is: most are.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

from tocsin.sdk.context import Context
from tocsin.sdk.depends import Dependency, Shared, opened, opened_async

if TYPE_CHECKING:
    from tocsin.sdk.task import Task


def call(task: "Task[..., Any]", arguments: dict[str, Any], context: Context, shared: Shared) -> Any:
    """Call a plain function."""
    wanted, arounds = task.signature.dependencies, task.app.arounds
    if not wanted and not arounds:
        return task.function(**arguments)
    result = None  # that of a task whose exception was swallowed by what is around it
    with ExitStack() as stack:
        for around in arounds:
            stack.enter_context(around(context))
        made = opened(stack, wanted, shared)
        result = task.function(**arguments, **made)
    return result  # noqa: RET504 - also where an exception was swallowed


async def call_async(
    task: "Task[..., Any]", arguments: dict[str, Any], context: Context, shared: Shared
) -> Any:
    """Call a coroutine function."""
    wanted, arounds = task.signature.dependencies, task.app.arounds
    if not wanted and not arounds:
        return await task.function(**arguments)
    result = None
    async with AsyncExitStack() as stack:
        for around in arounds:
            stack.enter_context(around(context))
        made = await opened_async(stack, wanted, shared)
        result = await task.function(**arguments, **made)
    return result  # noqa: RET504 - also where an exception was swallowed


def plain_call(
    function: Callable[..., Any],
    missing: Mapping[str, Dependency],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """A call outside of a worker: what it lacks is made for it alone."""
    if inspect.iscoroutinefunction(function):
        return _plain_call_async(function, missing, args, kwargs)
    with ExitStack() as stack:
        return function(*args, **kwargs, **opened(stack, missing, Shared()))


async def _plain_call_async(
    function: Callable[..., Any],
    missing: Mapping[str, Dependency],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    async with AsyncExitStack() as stack:
        return await function(*args, **kwargs, **await opened_async(stack, missing, Shared()))
