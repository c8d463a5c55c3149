"""``/v1/webhook-secret``: what a tenant's requests are signed with, for those who verify them."""

from collections.abc import Sequence

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.wire import webhook_secret as wire
from tocsin.api.wire.actions import Rotation
from tocsin.api.wire.scalars import time_of
from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, format_instant, parse_span
from tocsin.domain.keys import Scope
from tocsin.domain.signature import signing_secret_text
from tocsin.store.webhook_secrets import SigningSecret

_LONGEST = 30 * DAY


async def show(call: ApiCall) -> wire.WebhookSecrets:
    """The live secrets, newest first; the first one is made if there is none."""
    return _view(await call.context.webhook_secrets.live(call.asker.tenant_id))


async def rotate(call: ApiCall) -> wire.WebhookSecrets:
    """Make a new secret; requests are signed with both while the one before lasts."""
    rotation = call.body or Rotation()
    overlap = parse_span(rotation.overlap, "overlap")
    if overlap > _LONGEST:
        raise Refused("overlap is at most 30 days", field="overlap")
    call.note("webhook-secret", after={"overlap": rotation.overlap})
    return _view(await call.context.webhook_secrets.rotate(call.asker.tenant_id, overlap))


def _view(secrets: Sequence[SigningSecret]) -> wire.WebhookSecrets:
    return wire.WebhookSecrets(
        [
            wire.WebhookSecret(
                signing_secret_text(one.secret), format_instant(one.created_at), time_of(one.expires_at)
            )
            for one in secrets
        ]
    )


_PATH = "/v1/webhook-secret"
ENDPOINTS = (
    Endpoint(
        method="GET", path=_PATH, handler=show, summary="The secrets that requests are signed with, newest first",
        answer=wire.WebhookSecrets, scope=Scope.WRITE, refusals=(409,),
    ),
    Endpoint(
        method="POST", path=_PATH + "/rotate", handler=rotate, body=Rotation, body_required=False,
        answer=wire.WebhookSecrets, scope=Scope.WRITE, shown_once=True, refusals=(409,),
        summary="Make a new secret; the one before stays live for a chosen overlap",
    ),
)  # fmt: skip
