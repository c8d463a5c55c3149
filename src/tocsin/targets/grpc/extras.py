"""Whether this process can call gRPC: its library is an extra, installed or not."""

from functools import lru_cache
from importlib.util import find_spec

MISSING = "this installation cannot call gRPC: install tocsin[grpc]"


@lru_cache(maxsize=1)
def grpc_is_installed() -> bool:
    """Whether the library is here."""
    return all(find_spec(name) is not None for name in ("grpc", "google.protobuf", "grpc_reflection"))
