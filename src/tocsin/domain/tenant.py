"""Tenants: who owns what, and may use how much of it."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.limits import TenantLimits
from tocsin.domain.written import PLAIN_NAME

DEFAULT_TENANT: Final = "default"
MAX_WEIGHT: Final = 1000
_NAME: Final = re.compile(PLAIN_NAME)


class TenantState(StrEnum):
    """A suspended tenant's keys are refused and its fires wait; nothing of it is lost."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class Tenant(msgspec.Struct, frozen=True):
    """A tenant as stored. `limits` holds only its own, not the defaults."""

    id: int
    name: str
    state: TenantState
    weight: int
    limits: TenantLimits


def check_tenant_name(name: str, field: str = "name") -> None:
    """Refuse what cannot be a tenant's name."""
    if not _NAME.fullmatch(name):
        raise Refused(
            "a tenant's name has 1 to 63 of a-z 0-9 . _ - and begins with a letter or digit", field=field
        )


def check_weight(weight: int) -> None:
    """Refuse a weight outside its range."""
    if not 1 <= weight <= MAX_WEIGHT:
        raise Refused(f"weight lies between 1 and {MAX_WEIGHT}", field="weight")
