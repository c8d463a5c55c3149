"""Messages of a method without generated code: descriptors in, JSON to bytes and bytes to JSON.

The descriptors come from users and from servers, so they are read into a pool of their own, which knows
nothing of this program's types and leaves nothing behind.
"""

from collections.abc import Iterable
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, Message

from tocsin.domain.errors import Refused

_REMEMBERED: Final = 256
_KNOWN: Final = "google/protobuf/"
"""Where the types live that every set may leave out."""
_DESCRIPTORS: Final = "target.descriptors"


class Malformed(Exception):
    """An answer that is not the message it should be."""


class Method(msgspec.Struct, frozen=True):
    """A unary method, with the types of its messages."""

    path: str
    pool: Any
    request: type[Message]
    answer: type[Message]

    def encode(self, body: dict[str, Any]) -> bytes:
        """The message that a body describes."""
        try:
            message = json_format.ParseDict(body, self.request(), descriptor_pool=self.pool)
            data: bytes = message.SerializeToString()
        except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise Refused(
                f"not a {self.request.DESCRIPTOR.full_name}: {_words(error)}", field="target.body"
            ) from None
        return data

    def decode(self, data: bytes) -> dict[str, Any]:
        """An answer as JSON; 64-bit numbers are text."""
        try:
            message = self.answer.FromString(data)
            found: dict[str, Any] = json_format.MessageToDict(message, descriptor_pool=self.pool)
        except (
            DecodeError,
            json_format.SerializeToJsonError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:
            raise Malformed(
                f"the answer is not a {self.answer.DESCRIPTOR.full_name}: {_words(error)}"
            ) from None
        return found


@lru_cache(maxsize=_REMEMBERED)
def method_of(descriptors: bytes, name: str) -> Method:
    """The method that a target names, from a FileDescriptorSet."""
    pool = descriptor_pool.DescriptorPool()
    for file in _in_order(_files(descriptors)):
        try:
            pool.Add(file)
        except (TypeError, ValueError) as error:
            raise Refused(
                f"descriptors that do not fit together: {_words(error)}", field=_DESCRIPTORS
            ) from None
    service_name, _, method_name = name.partition("/")
    try:
        service = pool.FindServiceByName(service_name)
        method = service.FindMethodByName(method_name)
    except (KeyError, TypeError) as error:
        raise _no_method(service_name, method_name, str(error)) from None
    if method is None:
        raise _no_method(service_name, method_name, "")
    if method.client_streaming or method.server_streaming:
        raise Refused("only unary methods can be called, and this one streams", field="target.method")
    request, answer = (
        message_factory.GetMessageClass(one) for one in (method.input_type, method.output_type)
    )
    return Method(f"/{service_name}/{method_name}", pool, request, answer)


def pruned(descriptors: bytes, name: str) -> bytes:
    """The part of a set that a method needs: the file of its service, and what that imports."""
    files = {file.name: file for file in _files(descriptors)}
    service = name.partition("/")[0]
    kept: dict[str, Any] = {}
    waiting = [file.name for file in files.values() if service in _services(file)]
    while waiting:
        one = waiting.pop()
        if one in files and one not in kept:
            kept[one] = files[one]
            waiting += files[one].dependency
    smaller = descriptor_pb2.FileDescriptorSet()
    for file in kept.values():
        copy = smaller.file.add()
        copy.CopyFrom(file)
        copy.ClearField("source_code_info")
    data: bytes = smaller.SerializeToString()
    return data


def missing_files(files: Iterable[bytes]) -> tuple[bytes, list[str]]:
    """A set of these files, and which others they import."""
    whole = descriptor_pb2.FileDescriptorSet()
    for data in files:
        try:
            whole.file.add().MergeFromString(data)
        except DecodeError:
            raise Refused("the server's reflection sent no descriptors", field="target.method") from None
    there = {file.name for file in whole.file}
    wanted = {name for file in whole.file for name in file.dependency}
    return whole.SerializeToString(), sorted(name for name in wanted - there if not name.startswith(_KNOWN))


def _files(descriptors: bytes) -> list[Any]:
    found = descriptor_pb2.FileDescriptorSet()
    try:
        found.MergeFromString(descriptors)
    except DecodeError:
        raise Refused("not a FileDescriptorSet", field=_DESCRIPTORS) from None
    return list(found.file)


def _in_order(files: list[Any]) -> Iterable[Any]:
    """Each file after those that it imports. Types of protobuf's own are added where they are missing."""
    by_name = {file.name: file for file in files}
    waiting = list(by_name)
    while waiting:
        missing = [name for name in by_name[waiting.pop()].dependency if name not in by_name]
        by_name |= {name: _well_known(name) for name in missing}
        waiting += missing
    try:
        order = list(
            TopologicalSorter({name: file.dependency for name, file in by_name.items()}).static_order()
        )
    except CycleError:
        raise Refused("descriptors that import each other", field=_DESCRIPTORS) from None
    return [by_name[name] for name in order]


def _well_known(name: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto()
    try:
        if not name.startswith(_KNOWN):
            raise KeyError(name)
        _import_well_known()
        descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    except KeyError:
        raise Refused(
            f"the descriptors lack {name[:200]!r}, which they import",
            field=_DESCRIPTORS,
            hint="protoc --include_imports --descriptor_set_out=FILE",
        ) from None
    return file


def _import_well_known() -> None:
    """Let the library know its own types: it does once they are imported."""
    from google.protobuf import (  # noqa: PLC0415 - only for descriptors that leave them out
        any_pb2,  # noqa: F401
        duration_pb2,  # noqa: F401
        empty_pb2,  # noqa: F401
        field_mask_pb2,  # noqa: F401
        struct_pb2,  # noqa: F401
        timestamp_pb2,  # noqa: F401
        wrappers_pb2,  # noqa: F401
    )


def _services(file: Any) -> list[str]:
    package = f"{file.package}." if file.package else ""
    return [package + service.name for service in file.service]


def _no_method(service: str, method: str, why: str) -> Refused:
    words = f"no method {method} in a service {service}" + (
        f": {why[:200]}" if "Couldn't" not in why and why else ""
    )
    return Refused(words, field="target.method")


def _words(error: Exception) -> str:
    return str(error).replace("\n", " ")[:300]
