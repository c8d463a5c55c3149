"""Tallies: counting an hour again."""

import msgspec

from tocsin.api.wire.scalars import Time


class TallyHour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hour to count again: the one that holds this instant."""

    hour: Time


class RebuiltHour(msgspec.Struct, frozen=True):
    """The hour that was counted."""

    hour: Time
