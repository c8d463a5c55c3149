"""A gRPC server with one method and reflection, to try a gRPC target with.

    pip install grpcio grpcio-reflection
    python3 examples/grpc/server.py            # listens on 127.0.0.1:9010
    tocsin try --target "$(cat examples/grpc/target.json)"

Its messages are described here, so that nothing has to be generated.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

SERVICE = "greeting.Greeter"
TEXT = descriptor_pb2.FieldDescriptorProto.TYPE_STRING


def describe() -> descriptor_pool.DescriptorPool:
    """`service Greeter { rpc Hello (Name) returns (Greeting); }`, each message with one text."""
    file = descriptor_pb2.FileDescriptorProto(name="greeting.proto", package="greeting", syntax="proto3")
    for message, field in (("Name", "name"), ("Greeting", "text")):
        file.message_type.add(name=message).field.add(name=field, number=1, type=TEXT, label=1)
    file.service.add(name="Greeter").method.add(name="Hello", input_type="Name", output_type="Greeting")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def main() -> None:
    """Serve until interrupted."""
    pool = describe()
    name, greeting = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"greeting.{message}"))
        for message in ("Name", "Greeting")
    )

    def hello(request: object, context: grpc.ServicerContext) -> object:
        fire_at = dict(context.invocation_metadata()).get("tocsin-fire-at")
        print("Hello", request.name, "fire_at =", fire_at, flush=True)  # type: ignore[attr-defined]
        return greeting(text=f"Hello, {request.name}!")  # type: ignore[attr-defined]

    method = grpc.unary_unary_rpc_method_handler(hello, name.FromString, greeting.SerializeToString)
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"Hello": method})])
    reflection.enable_server_reflection([SERVICE, reflection.SERVICE_NAME], server, pool=pool)
    port = sys.argv[1] if len(sys.argv) > 1 else "9010"
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
