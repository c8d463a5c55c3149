"""Alerts: channels, rules, and what rules have found."""

from typing import Annotated, Any

import msgspec

from tocsin.api.wire.pages import Listing
from tocsin.api.wire.scalars import Time
from tocsin.domain.alert_channel import AlertChannel
from tocsin.domain.alert_rule import AlertRule
from tocsin.domain.written import described


class AlertChannelView(AlertChannel, frozen=True, kw_only=True):
    """A channel. Of its credentials the names of secrets are shown."""

    name: str
    version: int
    created_at: Time
    updated_at: Time


class AlertChannels(Listing, frozen=True, kw_only=True):
    """All channels of a tenant."""

    items: list[AlertChannelView]


class AlertChannelTest(msgspec.Struct, frozen=True):
    """The job that sends a test message."""

    job: str


class AlertRuleView(AlertRule, frozen=True, kw_only=True):
    """A rule. `beat_at` is the minute of a dead man's switch's latest beat, `withheld` why there is none
    now."""

    name: str
    version: int
    created_at: Time
    updated_at: Time
    beat_at: Time | None = None
    withheld: str | None = None


class AlertRules(Listing, frozen=True, kw_only=True):
    """All rules of a tenant."""

    items: list[AlertRuleView]


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """One group of what a rule found."""

    rule: str
    group: str
    state: Annotated[str, described(enum=["pending", "firing", "resolved"])]
    since: Time
    seen_at: Time
    resolved_at: Time | None
    told: str | None
    """What the channels were told last."""
    told_at: Time | None
    summary: str
    detail: dict[str, Any]


class Alerts(Listing, frozen=True, kw_only=True):
    """Alerts: those that fire first, then the latest."""

    items: list[AlertView]
