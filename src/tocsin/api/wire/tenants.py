"""Tenants and their limits. A limit that is not given stays; null lets the installation's default apply."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time
from tocsin.domain.limits import Count, Days, Rate, TenantLimits
from tocsin.domain.tenant import MAX_WEIGHT, TenantState
from tocsin.domain.written import UpToADay, WrittenName


class LimitsPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of a tenant. What is not given stays; null lets the installation's default apply."""

    pending_jobs: Count | UnsetType | None = UNSET
    payload_bytes: Count | UnsetType | None = UNSET
    min_interval: UpToADay | UnsetType | None = UNSET
    requests_per_second: Rate | UnsetType | None = UNSET
    request_burst: Count | UnsetType | None = UNSET
    in_flight: Count | UnsetType | None = UNSET
    fires_per_second: Rate | UnsetType | None = UNSET
    history_days: Days | UnsetType | None = UNSET


class Limits(TenantLimits, frozen=True, omit_defaults=False):
    """Limits with every field spelled out; null is none."""


class NewTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant to create."""

    name: WrittenName
    weight: Annotated[int, Meta(ge=1, le=MAX_WEIGHT)] = 1
    limits: LimitsPatch = LimitsPatch()


class TenantPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change of a tenant."""

    weight: Annotated[int, Meta(ge=1, le=MAX_WEIGHT)] | UnsetType = UNSET
    limits: LimitsPatch | UnsetType = UNSET


class Tenant(msgspec.Struct, frozen=True):
    """A tenant. `limits` are its own, `limits_in_force` those and the installation's defaults."""

    name: str
    state: TenantState
    state_reason: str | None
    weight: int
    limits: Limits
    limits_in_force: Limits
    created_at: Time
    updated_at: Time
    deleted_at: Time | None = None
    """Since when everything of it is being removed."""


class TenantPage(Page, frozen=True, kw_only=True):
    """Tenants, by name."""

    items: list[Tenant]


def limits_of(patch: LimitsPatch) -> TenantLimits:
    """The limits that a request gives."""
    return msgspec.convert(msgspec.to_builtins(patch), TenantLimits)


def limits_view(limits: TenantLimits) -> Limits:
    """Limits as they are shown."""
    return Limits(**msgspec.structs.asdict(limits))
