"""How many shards there are, and how many of them a node should hold. Pure arithmetic; the database settles
who gets which."""

from typing import Final

import msgspec

DEFAULT_SHARDS: Final = 256
"""Of an installation whose maker names no other number. At most this many schedulers share the planning."""
MOST_SHARDS: Final = 4096


class ShareChange(msgspec.Struct, frozen=True):
    """What a node should do about its share: take up to `take` free shards, or give `give` back."""

    take: int
    give: int


def share(*, held: int, shards: int, nodes: int) -> ShareChange:
    """Aim for an even share. A node above the ceiling gives back, one below it may take free shards.

    The ceiling lets the shares differ by one without moving shards to and fro: a node holds on to what lies
    within it, and takes only shards that no node holds.
    """
    ceiling = -(-shards // max(nodes, 1))
    return ShareChange(take=max(0, ceiling - held), give=max(0, held - ceiling))
