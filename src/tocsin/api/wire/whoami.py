"""Who asks: a key as its holder sees it."""

import msgspec

from tocsin.api.wire.tenants import Limits
from tocsin.domain.keys import Scope


class Identity(msgspec.Struct, frozen=True):
    """A key, the tenant that it acts for, and the limits in force there; of these null is none."""

    key_id: str
    scopes: list[Scope]
    tenant: str
    limits_in_force: Limits
