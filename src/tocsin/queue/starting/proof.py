"""What a statement needs that starts claims on slots of limit keys."""

from collections.abc import Sequence
from typing import Any

from tocsin.queue.claims import Claim, why_late
from tocsin.queue.slots.slots import Slots


def proof(slots: Slots, claims: Sequence[Claim]) -> dict[str, Any]:
    """Whose the slots are and under which epoch, if one of the claims needs a slot; and why the claims are
    late."""
    on_slots = any(claim.slot is not None for claim in claims)
    holder = slots.holder
    return {
        "node_id": holder.node_id,
        "slots_epoch": (holder.epoch or 0) if on_slots else None,
        "late_for": why_late(claims),
    }
