"""Alerts from what looks find: when they fire, what is told, and how often."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tocsin.domain.alert_channel import TRIAL, AlertChannel, check_channel, target_of
from tocsin.domain.alert_rule import (
    AlertRule,
    ClockTrouble,
    DeadLetters,
    DeadMansSwitch,
    LateFires,
    QuietTimes,
    check_rule,
    is_quiet,
)
from tocsin.domain.alerting import Alert, Finding, Message, beat_of, follow, message_of, shown
from tocsin.domain.errors import Refused
from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant, parse_instant
from tocsin.domain.secrets import SecretRef

NOON = parse_instant("2031-05-05T12:00:00Z", "")
LETTERS = AlertRule(watch=DeadLetters(), channels=("ops",))
HTTP_500 = Finding("a", "3 executions failed for good", {"number": 3})
TIMEOUT = Finding("b", "1 execution failed for good")
STEP = 10 * SECOND


def story(
    rule: AlertRule, looks: Sequence[tuple[Instant, Sequence[Finding]]], known: dict[str, Alert] | None = None
) -> list[tuple[Instant, list[tuple[str, str]]]]:
    """What is told at which look, as (time since noon, [(group, state)])."""
    known = dict(known or {})
    told: list[tuple[Instant, list[tuple[str, str]]]] = []
    for at, findings in looks:
        course = follow(rule, known, findings, NOON + at)
        known |= {alert.group: alert for alert in course.kept}
        for group in course.gone:
            del known[group]
        if course.told:
            told.append((at, [(alert.group, alert.state) for alert in course.told]))
    return told


def every(step: Instant, until: Instant, findings: Sequence[Finding], since: Instant = 0) -> list[Any]:
    return [(at, findings) for at in range(since, until, step)]


def test_a_group_is_told_once_however_often_it_is_found() -> None:
    assert story(LETTERS, every(STEP, HOUR, [HTTP_500])) == [(0, [("a", "firing")])]


def test_what_is_found_together_is_told_together() -> None:
    assert story(LETTERS, [(0, [HTTP_500, TIMEOUT])]) == [(0, [("a", "firing"), ("b", "firing")])]


def test_it_is_resolved_a_minute_after_it_was_found_last() -> None:
    looks = every(STEP, MINUTE, [HTTP_500]) + every(STEP, 10 * MINUTE, [], since=MINUTE)
    assert story(LETTERS, looks) == [(0, [("a", "firing")]), (110 * SECOND, [("a", "resolved")])]


def test_what_comes_and_goes_within_a_minute_is_told_once() -> None:
    looks = [(at, [HTTP_500] if at // STEP % 3 == 0 else []) for at in range(0, HOUR, STEP)]
    assert story(LETTERS, looks) == [(0, [("a", "firing")])]


def test_it_is_told_anew_when_it_comes_back_after_it_was_resolved() -> None:
    looks = [(0, [HTTP_500]), (MINUTE, []), (2 * MINUTE, [HTTP_500]), (4 * MINUTE, [])]
    assert [states for _, states in story(LETTERS, looks)] == [
        [("a", "firing")],
        [("a", "resolved")],
        [("a", "firing")],
        [("a", "resolved")],
    ]


def test_it_is_told_again_each_repeat_interval_while_it_lasts() -> None:
    rule = msgspec.structs.replace(LETTERS, repeat="1h")
    told = story(rule, every(MINUTE, 3 * HOUR, [HTTP_500]))
    assert [at for at, _ in told] == [0, HOUR, 2 * HOUR]
    never = msgspec.structs.replace(LETTERS, repeat=0)
    assert len(story(never, every(HOUR, 1000 * HOUR, [HTTP_500]))) == 1


def test_what_must_last_is_told_when_it_has_and_forgotten_when_it_has_not() -> None:
    rule = msgspec.structs.replace(LETTERS, lasting="5m")
    assert story(rule, every(MINUTE, HOUR, [HTTP_500])) == [(5 * MINUTE, [("a", "firing")])]
    short = [
        *every(MINUTE, 5 * MINUTE, [HTTP_500]),
        (5 * MINUTE, []),
        *every(MINUTE, 10 * MINUTE, [HTTP_500], since=6 * MINUTE),
    ]
    assert story(rule, short) == []


def test_quiet_times_hold_back_and_afterwards_the_difference_is_told() -> None:
    rule = msgspec.structs.replace(LETTERS, quiet=QuietTimes("12:30", "13:30"))
    looks = every(MINUTE, 40 * MINUTE, [HTTP_500]) + every(MINUTE, 2 * HOUR, [TIMEOUT], since=40 * MINUTE)
    assert story(rule, looks) == [(0, [("a", "firing")]), (90 * MINUTE, [("b", "firing"), ("a", "resolved")])]


def test_what_comes_and_goes_in_quiet_times_is_never_told() -> None:
    rule = msgspec.structs.replace(LETTERS, quiet=QuietTimes("12:00", "13:00"))
    assert (
        story(rule, every(MINUTE, 10 * MINUTE, [HTTP_500]) + every(MINUTE, 3 * HOUR, [], since=10 * MINUTE))
        == []
    )


@pytest.mark.parametrize(
    ("at", "quiet"), [("21:59", False), ("22:00", True), ("23:59", True), ("06:59", True), ("07:00", False)]
)
def test_quiet_times_go_over_midnight_in_their_own_zone(at: str, quiet: bool) -> None:
    berlin = parse_instant(f"2031-01-05T{at}:00+01:00", "")
    assert is_quiet(QuietTimes("22:00", "07:00", "Europe/Berlin"), berlin) is quiet


def test_a_message_lists_what_fires_first_and_says_how_many_more_there_are() -> None:
    told = [
        Alert(f"g{n:02}", "firing" if n else "resolved", NOON + n, NOON, f"trouble {n}") for n in range(30)
    ]
    message = message_of("letters", LETTERS, "default", told, NOON)
    assert (message.state, len(message.alerts), message.more) == ("firing", 20, 10)
    assert message.alerts[0].group == "g01"
    assert message.title == "[FIRING] letters (30)"
    assert message.text.splitlines()[0] == "firing: trouble 1"
    assert message.text.splitlines()[-1] == "and 10 more"
    assert message_of("letters", LETTERS, "default", told[:1], NOON).state == "resolved"


def test_words_of_targets_do_nothing_to_who_reads_them() -> None:
    assert shown("a\x1b[31m\n\u2028b") == "a [31m b"
    assert len(shown("x" * 1000)) == 300


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("channels", {"channels": ()}),
        ("channels", {"channels": ("a", "a")}),
        ("scope", {"watch": ClockTrouble()}),
        ("lasting", {"lasting": "2d"}),
        ("repeat", {"repeat": "5s"}),
        ("repeat", {"repeat": 2.6e-42}),
        ("watch.window", {"watch": DeadLetters(window="10s")}),
        ("watch.at_least", {"watch": DeadLetters(at_least=0)}),
        ("watch.queue", {"watch": DeadLetters(queue="Not A Name")}),
        ("watch.within", {"watch": LateFires(within="3s")}),
        ("watch.share", {"watch": LateFires(share=1.0)}),
        ("watch.grace", {"watch": DeadMansSwitch(grace="1s")}),
        ("quiet.begins", {"quiet": QuietTimes("24:00", "07:00")}),
        ("quiet.ends", {"quiet": QuietTimes("07:00", "07:00")}),
        ("quiet.time_zone", {"quiet": QuietTimes("22:00", "07:00", "Mars/Olympus")}),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_its_field(field: str, rule: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        check_rule(msgspec.structs.replace(LETTERS, **rule))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "channel"),
    [
        ("body", {"kind": "json"}),
        ("body", {"body": {"a": 1}}),
        ("body.a", {"kind": "json", "body": {"a": "{nothing}"}}),
        ("method", {"method": "TRACE"}),
        ("path_secret", {"path_secret": SecretRef("no name")}),
        ("url", {"url": "https://x.example/?a=b", "path_secret": SecretRef("a")}),
        ("headers.Host", {"headers": {"Host": SecretRef("a")}}),
    ],
)
def test_a_channel_that_could_not_be_called_is_refused_by_its_field(
    field: str, channel: dict[str, Any]
) -> None:
    with pytest.raises(Refused) as refused:
        check_channel(AlertChannel(**({"kind": "webhook", "url": "https://x.example/"} | channel)))
    assert refused.value.field == field


def test_each_kind_of_channel_says_it_in_its_own_way() -> None:
    alerts = [Alert("a", "firing", NOON, NOON, 'it said "no"')]
    message: Message = message_of("letters", LETTERS, "shop", alerts, NOON)
    url = "https://x.example/"
    webhook = target_of(AlertChannel(kind="webhook", url=url), message)
    assert webhook.body["alerts"][0]["summary"] == 'it said "no"'
    assert webhook.body["tenant"] == "shop"
    slack = target_of(AlertChannel(kind="slack", url=url), message)
    assert slack.body == {"text": '[FIRING] letters\nfiring: it said "no"'}
    body = {"routing_key": "{rule}", "payload": {"summary": "{title}: {text}", "at": "{at}", "n": 1}}
    own = target_of(AlertChannel(kind="json", url=url, body=body), message)
    assert own.body == {
        "routing_key": "letters",
        "payload": {
            "summary": '[FIRING] letters: firing: it said "no"',
            "at": "2031-05-05T12:00:00Z",
            "n": 1,
        },
    }
    assert target_of(AlertChannel(kind="webhook", url=url, method="GET"), TRIAL).body is None


def test_a_beat_says_that_it_is_alive() -> None:
    rule = AlertRule(watch=DeadMansSwitch(), channels=("outside",))
    assert beat_of("switch", rule, "default", NOON).state == "alive"
