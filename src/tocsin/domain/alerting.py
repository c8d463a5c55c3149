"""What becomes of alerts: pure decisions over what a look found, what was known, and what was told.

An alert is one group of what a rule found, such as one kind of error. It is *pending* until it has lasted as
long as its rule asks for, *firing* while it is found, *resolved* once it has not been found for a minute.
Messages are apart from states: in quiet times states change and nothing is told; afterwards the difference
is.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from tocsin.domain.alert_rule import AlertRule, is_quiet, kind_of
from tocsin.domain.instant import MINUTE, Instant, Span, format_instant, parse_span

QUEUE: Final = "tocsin.alerts"
"""Where jobs that tell of alerts wait. Their failures raise no alert."""
MOST_GROUPS: Final = 100
"""Groups that a rule keeps for a tenant."""
MOST_SUMMARY: Final = 300
_MOST_LISTED: Final = 20
_CALM: Final[Span] = MINUTE
State = Literal["pending", "firing", "resolved"]


class Finding(msgspec.Struct, frozen=True):
    """Trouble of one group."""

    group: str
    summary: str
    detail: dict[str, Any] = {}


class Alert(msgspec.Struct, frozen=True):
    """One group of what a rule found, and what was told of it."""

    group: str
    state: State
    since: Instant
    seen_at: Instant
    summary: str
    detail: dict[str, Any] = {}
    resolved_at: Instant | None = None
    told: Literal["firing", "resolved"] | None = None
    told_at: Instant | None = None


class Course(msgspec.Struct, frozen=True):
    """What a look makes of a rule's alerts."""

    kept: list[Alert]
    """Those that are new or have changed."""
    gone: list[str]
    """Groups to forget: they came to nothing."""
    told: list[Alert]
    """Those to tell of now. They are among the kept."""


class MessageAlert(msgspec.Struct, frozen=True, omit_defaults=True):
    """One alert of a message."""

    group: str
    state: str
    since: str
    summary: str
    detail: dict[str, Any] = {}
    resolved_at: str | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a channel is told: of one rule, everything that changed at a look."""

    rule: str
    kind: str
    scope: str
    tenant: str
    state: str
    """``firing`` if one of the alerts is, else ``resolved``; ``alive`` of a dead man's switch, ``test`` of a
    test."""
    at: str
    title: str
    text: str
    alerts: list[MessageAlert] = []
    more: int = 0
    """How many alerts are not listed."""


def follow(rule: AlertRule, known: Mapping[str, Alert], findings: Sequence[Finding], now: Instant) -> Course:
    """What a look at `now` changes."""
    found = {finding.group: finding for finding in findings[:MOST_GROUPS]}
    lasting = parse_span(rule.lasting, "lasting")
    after = {group: _seen(known.get(group), finding, lasting, now) for group, finding in found.items()}
    gone = []
    for group, alert in known.items():
        if group in found:
            continue
        if alert.state == "pending" or (alert.state == "resolved" and alert.told is None):
            gone.append(group)
        elif alert.state == "firing" and now - alert.seen_at >= _CALM:
            after[group] = msgspec.structs.replace(alert, state="resolved", resolved_at=now)
        else:
            after[group] = alert
    told = [] if is_quiet(rule.quiet, now) else [one for one in after.values() if _to_tell(rule, one, now)]
    for alert in told:
        after[alert.group] = msgspec.structs.replace(alert, told=_word(alert), told_at=now)
    kept = [alert for group, alert in after.items() if alert != known.get(group)]
    return Course(kept, gone, [after[alert.group] for alert in told])


def _seen(alert: Alert | None, finding: Finding, lasting: Span, now: Instant) -> Alert:
    fresh = alert is None or alert.state == "resolved"
    since = now if alert is None or fresh else alert.since
    state: State = "firing" if now - since >= lasting or (alert and alert.state == "firing") else "pending"
    return Alert(
        finding.group,
        state,
        since,
        now,
        shown(finding.summary),
        finding.detail,
        told=None if alert is None else alert.told,
        told_at=None if alert is None else alert.told_at,
    )


def _to_tell(rule: AlertRule, alert: Alert, now: Instant) -> bool:
    if alert.state == "resolved":
        return alert.told == "firing"
    if alert.state == "pending":
        return False
    if alert.told != "firing" or alert.told_at is None:
        return True
    repeat = parse_span(rule.repeat, "repeat")
    return bool(repeat) and now - alert.told_at >= repeat


def _word(alert: Alert) -> Literal["firing", "resolved"]:
    return "resolved" if alert.state == "resolved" else "firing"


def message_of(name: str, rule: AlertRule, tenant: str, told: Sequence[Alert], now: Instant) -> Message:
    """What is told of alerts that changed at one look."""
    firing = sum(alert.state == "firing" for alert in told)
    state = "firing" if firing else "resolved"
    ordered = sorted(told, key=lambda alert: (alert.state != "firing", alert.since, alert.group))
    listed = ordered[:_MOST_LISTED]
    lines = [f"{alert.state}: {alert.summary}" for alert in listed]
    more = len(ordered) - len(listed)
    if more:
        lines.append(f"and {more} more")
    return Message(
        rule=name,
        kind=kind_of(rule.watch),
        scope=rule.scope,
        tenant=tenant,
        state=state,
        at=format_instant(now),
        title=f"[{state.upper()}] {name}" + (f" ({len(told)})" if len(told) > 1 else ""),
        text="\n".join(lines),
        alerts=[_listed(alert) for alert in listed],
        more=more,
    )


def beat_of(name: str, rule: AlertRule, tenant: str, now: Instant) -> Message:
    """What a dead man's switch tells."""
    return Message(
        rule=name,
        kind=kind_of(rule.watch),
        scope=rule.scope,
        tenant=tenant,
        state="alive",
        at=format_instant(now),
        title=f"[ALIVE] {name}",
        text="what should fire fires",
    )


def shown(text: str) -> str:
    """Words on one line that do nothing to whatever shows them, and are not endless."""
    plain = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in text)
    short = " ".join(plain.split())
    return short if len(short) <= MOST_SUMMARY else short[: MOST_SUMMARY - 1] + "…"


def _listed(alert: Alert) -> MessageAlert:
    return MessageAlert(
        alert.group,
        alert.state,
        format_instant(alert.since),
        alert.summary,
        alert.detail,
        None if alert.resolved_at is None else format_instant(alert.resolved_at),
    )
