"""A real gRPC server whose messages are described here, without generated code.

`shop.Orders/Place` answers by what the order says: a status by its name, a wait, an answer of some size,
bytes that are no message. It remembers what it was sent.
"""

import base64
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from grpc_reflection.v1alpha import reflection

SERVICE = "shop.Orders"
METHOD = f"{SERVICE}/Place"
_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "text": _FIELD.TYPE_STRING,
    "int64": _FIELD.TYPE_INT64,
    "int32": _FIELD.TYPE_INT32,
    "bool": _FIELD.TYPE_BOOL,
}


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    _message(
        file,
        "Order",
        number="int64",
        status="text",
        wait_ms="int32",
        size="int32",
        garbage="bool",
        echo="text",
    )
    order = file.message_type[0].field.add(
        name="at", number=7, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_OPTIONAL
    )
    order.type_name = ".google.protobuf.Timestamp"
    _message(file, "Receipt", number="int64", text="text")
    service = file.service.add(name="Orders")
    service.method.add(name="Place", input_type=".shop.Order", output_type=".shop.Receipt")
    service.method.add(
        name="Watch", input_type=".shop.Order", output_type=".shop.Receipt", server_streaming=True
    )
    return file


def _message(file: Any, name: str, **fields: str) -> None:
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        message.field.add(name=field, number=number, type=_KINDS[kind], label=_FIELD.LABEL_OPTIONAL)


FILE = _file()


def descriptors() -> str:
    """What a user would have from protoc, in base64; types of protobuf's own are left out."""
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()).decode()


class GrpcServer:
    """A server on a free port."""

    def __init__(self, credentials: Any = None, *, reflects: bool = True) -> None:
        self.calls: list[tuple[dict[str, str], Any]] = []
        self.seconds_left: list[float] = []
        """When each call came."""
        self.given_up: list[int] = []
        """Numbers of orders whose callers went before the answer."""
        pool = descriptor_pool.DescriptorPool()
        known = descriptor_pb2.FileDescriptorProto()
        timestamp_pb2.DESCRIPTOR.CopyToProto(known)
        pool.Add(known)
        pool.Add(FILE)
        self._order, self._receipt = (
            message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
            for name in ("Order", "Receipt")
        )
        self._server = grpc.server(ThreadPoolExecutor(32), options=[("grpc.so_reuseport", 0)])
        handler = grpc.unary_unary_rpc_method_handler(self._place, self._order.FromString, lambda data: data)
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(SERVICE, {"Place": handler})]
        )
        if reflects:
            reflection.enable_server_reflection([SERVICE, reflection.SERVICE_NAME], self._server, pool=pool)
        port = (
            self._server.add_insecure_port("127.0.0.1:0")
            if credentials is None
            else self._server.add_secure_port("127.0.0.1:0", credentials)
        )
        self.address = f"127.0.0.1:{port}"
        self.port = port

    def _place(self, order: Any, context: grpc.ServicerContext) -> bytes:
        self.calls.append((dict(context.invocation_metadata()), order))
        self.seconds_left.append(context.time_remaining())
        over = threading.Event()
        context.add_callback(over.set)
        if order.wait_ms and over.wait(order.wait_ms / 1000):
            self.given_up.append(order.number)
        if order.status:
            name, _, pushback = order.status.partition(" ")
            if pushback:
                context.set_trailing_metadata([("grpc-retry-pushback-ms", pushback)])
            context.abort(grpc.StatusCode[name], f"as asked: {order.echo}")
        if order.garbage:
            return b"\xff\xff\xff"
        answer: bytes = self._receipt(
            number=order.number, text="x" * order.size + order.echo
        ).SerializeToString()
        return answer

    @contextlib.contextmanager
    def running(self) -> Iterator["GrpcServer"]:
        self._server.start()
        try:
            yield self
        finally:
            self._server.stop(0).wait()
