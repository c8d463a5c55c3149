"""The secrets that a call needs, as a target asks for them. The worker's vault answers."""

from collections.abc import Sequence
from typing import Protocol

from tocsin.domain.errors import Unavailable


class SecretUnavailable(Unavailable):
    """A secret cannot be had now; another attempt may fare better."""


class SecretOfOthers(Unavailable):
    """A secret was sealed with a key that this worker does not have; others may have it."""


class Secrets(Protocol):
    """Opens secrets by tenant and name."""

    async def signing_secrets(self, tenant_id: int) -> tuple[bytes, ...]:
        """The secrets to sign a tenant's request with, newest first; none if they cannot be had."""

    async def values(self, tenant_id: int, names: Sequence[str]) -> dict[str, str]:
        """The values of secrets. One that does not exist is refused by its name."""


class NoSecrets:
    """Signs nothing and opens nothing."""

    async def signing_secrets(self, tenant_id: int) -> tuple[bytes, ...]:  # noqa: ARG002 - of any tenant
        """None."""
        return ()

    async def values(self, tenant_id: int, names: Sequence[str]) -> dict[str, str]:  # noqa: ARG002
        """Refused, whatever is asked for."""
        raise SecretUnavailable("this worker has no secrets")
