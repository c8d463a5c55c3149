"""What a server says of its own methods, asked once: when a job is written without descriptors.

Servers offer this under one of two names with the same messages. Answers are bounded in files, bytes and
time, since any stranger may run such a server.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2

from tocsin.domain.errors import Refused
from tocsin.domain.grpc_target import MAX_DESCRIPTORS
from tocsin.targets.grpc.messages import missing_files

_PATHS: Final = tuple(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")
)
_MAX_FILES: Final = 128
_HINT: Final = "give the descriptors with the target: protoc --include_imports --descriptor_set_out=FILE"


async def reflect(channel: Any, method: str, metadata: Sequence[tuple[str, str]], timeout: float) -> bytes:
    """The descriptors of a method's service and of what it imports, as a FileDescriptorSet."""
    for path in _PATHS:
        # The method streams both ways. Each question is a stream of its own with one message: the library
        # loses the status of a call that ends while it is written to.
        ask = partial(_ask, channel.unary_stream(path), metadata, timeout)
        try:
            return await _reflect(ask, method.partition("/")[0])
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                words = f"the server's reflection answered {error.code().name}"
                raise Refused(words, field="target.address", hint=_HINT) from None
    raise Refused("the server offers no reflection", field="target.descriptors", hint=_HINT)


async def _reflect(ask: Callable[[Any], Awaitable[list[bytes]]], service: str) -> bytes:
    files: dict[bytes, None] = {}
    asked: set[str] = set()
    answer = await ask(reflection_pb2.ServerReflectionRequest(file_containing_symbol=service))
    while True:
        files |= dict.fromkeys(answer)
        if len(files) > _MAX_FILES or sum(map(len, files)) > 8 * MAX_DESCRIPTORS:
            raise Refused("the server's reflection sent too much", field="target.descriptors", hint=_HINT)
        whole, missing = missing_files(files)
        wanted = next((name for name in missing if name not in asked), None)
        if wanted is None:
            return whole
        asked.add(wanted)
        answer = await ask(reflection_pb2.ServerReflectionRequest(file_by_filename=wanted))


async def _ask(method: Any, metadata: Sequence[tuple[str, str]], timeout: float, request: Any) -> list[bytes]:
    stream = method(request.SerializeToString(), metadata=metadata, timeout=timeout)
    try:
        data = await stream.read()
    finally:
        stream.cancel()
    if data is grpc.aio.EOF:
        raise Refused("the server's reflection ended early", field="target.descriptors", hint=_HINT)
    try:
        answer = reflection_pb2.ServerReflectionResponse.FromString(data)
    except DecodeError:
        raise Refused(
            "the server's reflection sent no descriptors", field="target.descriptors", hint=_HINT
        ) from None
    if answer.HasField("error_response"):
        raise Refused("the server's reflection does not know this method", field="target.method", hint=_HINT)
    return list(answer.file_descriptor_response.file_descriptor_proto)
