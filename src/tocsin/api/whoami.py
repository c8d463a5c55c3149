"""``/v1/whoami``: what a key is and may do, for its holder.

Elsewhere only operators see limits; a client that wants to stay below them, or to say which one it met, asks
here.
"""

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.wire.tenants import limits_view
from tocsin.api.wire.whoami import Identity


async def show(call: ApiCall) -> Identity:
    """The asker, as the request was understood."""
    asker = call.asker
    return Identity(asker.key_id, sorted(asker.scopes), asker.tenant, limits_view(asker.limits))


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/whoami", handler=show, answer=Identity,
        summary="The key that asks: its scopes, the tenant it acts for, the limits in force",
    ),
)  # fmt: skip
