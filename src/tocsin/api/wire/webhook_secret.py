"""The secrets that requests are signed with: shown, for those who verify signatures have to know them."""

import msgspec

from tocsin.api.wire.scalars import Time


class WebhookSecret(msgspec.Struct, frozen=True):
    """What requests are signed with. `expires_at` is null for the newest."""

    secret: str
    created_at: Time
    expires_at: Time | None


class WebhookSecrets(msgspec.Struct, frozen=True):
    """The live signing secrets, newest first."""

    items: list[WebhookSecret]
