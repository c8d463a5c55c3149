"""The holder of a claim.

A node of the fleet holds what it claims for itself. A remote worker holds what a node claimed on its behalf:
the node is the gateway through which the remote worker heartbeats and settles, and any other node may take
over that part, since every statement is fenced by the claim's token and not by its holder.

`epoch` is the epoch of the node's slots of limit keys. A node that was taken for dead finds a new epoch in
the database, and nothing is started on a slot that it had under the old one.
"""

from typing import NamedTuple


class Holder(NamedTuple):
    """A node, or a remote worker and the node that serves it."""

    node_id: int
    worker_id: int | None = None
    epoch: int | None = None
    """None while the node has no slots, or does not know which."""
