"""What a task is given besides its payload: resources that factories make.

A factory is a function, a generator that yields once, or a context manager, plain or asynchronous. Its own
parameters may be dependencies, too. One of the scope `call` is opened for each attempt and closed after it;
within an attempt it is made once, however many ask for it. One of the scope `worker` is opened before the
first attempt of a process, shared by all of them, and closed when the process ends.
"""

import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from typing import Any, Literal, TypeVar, overload

T = TypeVar("T")
Scope = Literal["call", "worker"]


class Dependency:
    """A parameter's default that says who makes its value."""

    def __init__(self, factory: Callable[..., Any], scope: Scope) -> None:
        if not callable(factory):
            raise TypeError(f"Depends takes a function that makes something, not {factory!r}")
        if scope not in ("call", "worker"):
            raise ValueError(f"a dependency's scope is 'call' or 'worker', not {scope!r}")
        self.factory = factory
        self.scope = scope
        self.inner = dependencies_of(factory)
        for inner in self.inner.values():
            if scope == "worker" and inner.scope == "call":
                raise TypeError(
                    f"{self}: what lives as long as the worker cannot depend on what lives for a call"
                )

    def __repr__(self) -> str:
        return f"Depends({getattr(self.factory, '__name__', self.factory)})"

    @property
    def is_async(self) -> bool:
        """Whether it, or what it needs, can only be made on an event loop."""
        own = inspect.iscoroutinefunction(self.factory) or inspect.isasyncgenfunction(
            inspect.unwrap(self.factory)
        )
        return own or any(inner.is_async for inner in self.inner.values())


@overload
def Depends(factory: Callable[..., AbstractAsyncContextManager[T]], *, scope: Scope = "call") -> T: ...
@overload
def Depends(factory: Callable[..., AbstractContextManager[T]], *, scope: Scope = "call") -> T: ...
@overload
def Depends(factory: Callable[..., AsyncIterator[T]], *, scope: Scope = "call") -> T: ...
@overload
def Depends(factory: Callable[..., Iterator[T]], *, scope: Scope = "call") -> T: ...
@overload
def Depends(factory: Callable[..., Awaitable[T]], *, scope: Scope = "call") -> T: ...
@overload
def Depends(factory: Callable[..., T], *, scope: Scope = "call") -> T: ...
def Depends(factory: Callable[..., Any], *, scope: Scope = "call") -> Any:  # noqa: N802 - reads like a type
    """The default of a parameter that is no part of the payload: what `factory` makes."""
    return Dependency(factory, scope)


def dependencies_of(function: Callable[..., Any]) -> dict[str, Dependency]:
    """The parameters of a function that factories fill."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in types have no signature: they need nothing
        return {}
    return {one.name: one.default for one in parameters if isinstance(one.default, Dependency)}


class Shared:
    """What lives as long as the worker: opened once, before the first attempt."""

    def __init__(self) -> None:
        self.made: dict[Callable[..., Any], Any] = {}

    async def open(self, stack: AsyncExitStack, wanted: Iterable[Dependency]) -> None:
        """Make those of `wanted`, and of what they need, that live as long as the worker."""
        for one in wanted:
            await self.open(stack, one.inner.values())
            if one.scope == "worker":
                await _made_async(stack, one, self.made)


def opened(stack: ExitStack, wanted: Mapping[str, Dependency], shared: Shared) -> dict[str, Any]:
    """The values of a call's dependencies; `stack` closes them."""
    made = dict(shared.made)
    return {name: _made(stack, one, made) for name, one in wanted.items()}


async def opened_async(
    stack: AsyncExitStack, wanted: Mapping[str, Dependency], shared: Shared
) -> dict[str, Any]:
    """The same on the event loop, where factories may be asynchronous."""
    made = dict(shared.made)
    return {name: await _made_async(stack, one, made) for name, one in wanted.items()}


def _made(stack: ExitStack, wanted: Dependency, made: dict[Callable[..., Any], Any]) -> Any:
    if wanted.factory not in made:
        inner = {name: _made(stack, one, made) for name, one in wanted.inner.items()}
        value = _entered(wanted.factory)(**inner)
        made[wanted.factory] = stack.enter_context(value) if hasattr(value, "__enter__") else value
    return made[wanted.factory]


async def _made_async(stack: AsyncExitStack, wanted: Dependency, made: dict[Callable[..., Any], Any]) -> Any:
    if wanted.factory not in made:
        inner = {name: await _made_async(stack, one, made) for name, one in wanted.inner.items()}
        value = _entered(wanted.factory)(**inner)
        if inspect.isawaitable(value):
            value = await value
        if hasattr(value, "__aenter__"):
            value = await stack.enter_async_context(value)
        elif hasattr(value, "__enter__"):
            value = stack.enter_context(value)
        made[wanted.factory] = value
    return made[wanted.factory]


def _entered(factory: Callable[..., Any]) -> Callable[..., Any]:
    """A generator as the context manager that it is meant to be; anything else as it is."""
    if inspect.isasyncgenfunction(factory):
        return contextlib.asynccontextmanager(factory)
    if inspect.isgeneratorfunction(factory):
        return contextlib.contextmanager(factory)
    return factory
