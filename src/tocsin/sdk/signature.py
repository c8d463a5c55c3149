"""A function's signature as the shape of its payload.

The payload is a JSON object with the parameters' names, so it is the same whether arguments were given by
position or by name, and other languages can write it. It is checked against the annotations when a task is
enqueued, and read by them when it runs. What a newer version of the function added is dropped by an older
one. Parameters that factories fill (`Depends`) are no part of it.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

import msgspec

from tocsin.sdk.depends import Dependency, dependencies_of

_PLAIN: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class PayloadError(TypeError):
    """A payload does not fit the function."""


class Signature:
    """The parameters and the result of one function."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name
        self._signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
        self.returns: Any = hints.get("return", Any)
        self.dependencies = dependencies_of(function)
        fields = []
        for parameter in self._signature.parameters.values():
            if parameter.kind not in _PLAIN:
                raise TypeError(
                    f"task {name}: the parameter {parameter} has no name of its own; a payload names each"
                )
            if parameter.name in self.dependencies:
                continue
            kind = hints.get(parameter.name, Any)
            if parameter.default is inspect.Parameter.empty:
                fields.append((parameter.name, kind))
            else:
                fields.append((parameter.name, kind | msgspec.UnsetType, msgspec.UNSET))  # type: ignore[arg-type]
        self._payload = msgspec.defstruct("Payload", fields, kw_only=True)

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The payload of a call. Raises `PayloadError` if the function could not be called like that."""
        try:
            given = dict(self._signature.bind(*args, **kwargs).arguments)
            if made := given.keys() & self.dependencies.keys():
                raise TypeError(f"{', '.join(sorted(made))} is made where the task runs, and cannot be sent")
            payload: dict[str, Any] = to_plain(given)
            msgspec.convert(payload, self._payload, dec_hook=_read_model)
        except (TypeError, ValueError, NotImplementedError, msgspec.MsgspecError) as error:
            raise PayloadError(f"{self.name}: {error}") from None
        return payload

    def missing(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Dependency]:
        """The dependencies that a plain call does not give."""
        given = self._signature.bind_partial(*args, **kwargs).arguments
        return {name: one for name, one in self.dependencies.items() if name not in given}

    def arguments(self, payload: Any) -> dict[str, Any]:
        """The arguments of a payload, of the types that the function asks for."""
        try:
            read = msgspec.convert({} if payload is None else payload, self._payload, dec_hook=_read_model)
        except (ValueError, NotImplementedError, msgspec.MsgspecError) as error:
            raise PayloadError(f"{self.name}: {error}") from None
        given = msgspec.structs.asdict(read)
        return {name: value for name, value in given.items() if value is not msgspec.UNSET}

    def result(self, value: Any) -> Any:
        """What a call returned, of the type that the function promises."""
        if self.returns is None or self.returns is Any:
            return value
        return msgspec.convert(value, self.returns, dec_hook=_read_model)


def to_plain(value: Any) -> Any:
    """A value as JSON has it. Models of pydantic write themselves."""
    return msgspec.to_builtins(value, enc_hook=_write_model)


def _write_model(value: Any) -> Any:
    if not hasattr(value, "model_dump"):
        raise NotImplementedError(f"a value of the type {type(value).__name__} is no JSON")
    return value.model_dump(mode="json")


def _read_model(kind: Any, value: Any) -> Any:
    if not hasattr(kind, "model_validate"):
        raise NotImplementedError(f"a {kind.__name__} is not read from JSON")
    return kind.model_validate(value)
