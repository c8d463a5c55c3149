"""Whether this process can call gRPC: its library is an extra, installed or not."""

from functools import lru_cache
from importlib.util import find_spec

MISSING = "this installation cannot call gRPC: install tocsin[grpc]"


@lru_cache(maxsize=1)
def grpc_is_installed() -> bool:
    """Whether the library is here."""
    # To look for a part of a package that is not there raises: so the package comes first.
    return all(
        find_spec(name) is not None for name in ("grpc", "google", "google.protobuf", "grpc_reflection")
    )
