"""`tocsin top`: what keys do, and what is drawn."""

import os
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tocsin.cli.pressed_keys import Keyboard, key_of
from tocsin.cli.top_picture import Picture
from tocsin.cli.top_screen import Screen, Wish, pressed
from tocsin.cli.top_view import drawn, sparkline

NOW = "2030-01-01T00:00:10Z"
COUNT = {"count": 3, "capped": True}


def queue(name: str, paused: bool = False) -> dict[str, Any]:
    pause = {"since": NOW, "by": "key", "reason": "vendor [bold]down", "until": None} if paused else None
    return {
        "name": name,
        "paused": pause,
        "due": {**COUNT, "oldest_ms": 90_000.0},
        "running": COUNT,
        "per_minute": [0] * 8 + [7, 1],
        "workers": 2,
    }


def execution(name: str, state: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "id": f"exec_{name}",
        "job_id": "job_1",
        "job_name": name,
        "state": state,
        "queue": "mail",
        "attempt": 1,
        "started_at": "2030-01-01T00:00:00Z",
        "finished_at": None,
        "lag_ms": 2.0,
        "reason": None,
        "progress": None,
    } | more


PICTURE = Picture(
    summary={
        "now": NOW,
        "running": COUNT,
        "capacity": 2000,
        "due": {**COUNT, "oldest_ms": None},
        "late_1h": {"p50_ms": 1.0, "p99_ms": 1500.0},
        "on_time_1h": 0.5,
        "dead_24h": COUNT,
        "needs_you": [{"kind": "dead", "count": 4, "text": "the target\x1b[2J answered 500"}],
    },
    series={"step_s": 15, "total": {"fires": [0, 30], "p99_ms": [None, 4.0]}},
    queues=[queue("mail"), queue("reports", paused=True)],
    running=[execution("slow", progress={"share": 0.25})],
    ended=[execution("bad", "dead", finished_at=NOW, reason="one\ntwo"), execution("good", "succeeded")],
    nodes=[
        {
            "name": "vm", "roles": ["worker"], "shards": 0, "running": 1, "saturation": 0.5, "started_per_s": 9.0,
            "alive": False,
        }
    ],
)  # fmt: skip


def play(*keys: str, picture: Picture = PICTURE) -> tuple[Screen, list[Wish]]:
    screen, wishes = Screen(), []
    for key in keys:
        screen, wish = pressed(screen, picture, key)
        wishes += [] if wish is None else [wish]
    return screen, wishes


@pytest.mark.parametrize(
    ("keys", "wishes"),
    [
        (["p", "y"], [Wish("pause", "mail")]),
        (["down", "p", "y"], [Wish("resume", "reports")]),
        (["p", "n"], []),
        (["p", "q", "q"], [Wish("quit")]),
        (["tab", "c", "y"], [Wish("cancel", "exec_slow")]),
        (["tab", "e"], [Wish("explain", "exec_slow")]),
        (["tab", "tab", "j", "enter"], [Wish("explain", "exec_good")]),
        (["tab", "tab", "tab", "k", "p", "y"], [Wish("pause", "mail")]),
    ],
)
def test_keys_choose_and_wish_and_what_changes_something_is_asked_about_first(
    keys: list[str], wishes: list[Wish]
) -> None:
    assert play(*keys)[1] == wishes


@pytest.mark.parametrize("keys", [["c"], ["e"], ["tab", "p"], ["tab", "tab", "c"]])
def test_a_key_that_fits_no_chosen_row_says_what_to_choose(keys: list[str]) -> None:
    screen, wishes = play(*keys)
    assert wishes == []
    assert "choose" in screen.told[0]


def test_a_list_that_became_shorter_or_empty_takes_no_wrong_row() -> None:
    screen, _ = play("tab", "tab", "down")
    shorter = Picture(PICTURE.summary, PICTURE.series, [], [], PICTURE.ended[:1], None)
    assert pressed(screen, shorter, "e")[1] == Wish("explain", "exec_bad")
    nothing = Picture(PICTURE.summary, PICTURE.series, [], [], [], None)
    assert pressed(screen, nothing, "e")[1] is None
    assert pressed(screen, nothing, "down")[1] is None


def test_everything_is_drawn_and_no_text_commands_the_terminal() -> None:
    out = StringIO()
    Console(file=out, width=160, emoji=False).print(
        drawn(PICTURE, Screen(asked=Wish("pause", "mail")), "http://x")
    )
    text = out.getvalue()
    for words in (
        "running 3+ of 2,000", "late p99 1.5 s", "on time 50.00%", "! dead 4: the target\\x1b[2J answered 500",
        "90.0 s", "vendor [bold]down", "exec_slow", "10.0 s", "25%", "one two", "silent",
        "at most 2.0", "pause mail? y: yes",
    ):  # fmt: skip
        assert words in text
    assert "\x1b[2J" not in text


def test_a_sparkline_shows_what_is_not_nothing() -> None:
    assert sparkline([0, 1, 50, 100]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_keys_come_by_name_and_a_terminal_that_is_gone_quits() -> None:
    assert [key_of(raw) for raw in (b"\x1b[A", b"\x1b[B", b"\t", b"\n", b"\x1b", b"P")] == [
        "up", "down", "tab", "enter", "q", "p",
    ]  # fmt: skip
    reading, writing = os.pipe()
    keys = Keyboard(reading)
    assert keys.key(0) is None
    os.write(writing, b"c")
    assert keys.key(30) == "c"
    os.close(writing)
    assert keys.key(30) == "q"
    os.close(reading)
