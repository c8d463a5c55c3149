"""One outage makes a few lines in the log, whoever speaks of it."""

import logging

import structlog
from structlog.testing import capture_logs

from tocsin.outage_log import DriverLines, OutageLines


def lines(events: list[tuple[float, str]]) -> list[tuple[float, str, int]]:
    """Which of these events pass, and how many each says were left out before it."""
    now = 0.0
    processor = OutageLines(lambda: now)
    passed = []
    for at, event in events:
        now = at
        try:
            line = processor(None, "warning", {"event": event})
        except structlog.DropEvent:
            continue
        passed.append((at, event, line.get("unsaid", 0)))
    return passed


def test_an_outage_of_a_minute_is_told_in_a_handful_of_lines() -> None:
    passed = lines([(100 + tick / 10, "service.unavailable") for tick in range(600)])
    assert [round(at - 100) for at, _, _ in passed] == [0, 1, 3, 7, 15, 31]
    assert [unsaid for _, _, unsaid in passed[:3]] == [0, 9, 19]


def test_all_that_speak_of_the_outage_share_its_lines_and_others_do_not() -> None:
    events = [(1.0, "database.unavailable"), (1.1, "notices.unavailable"), (1.2, "node.joined")]
    assert [event for _, event, _ in lines(events)] == ["database.unavailable", "node.joined"]


def test_the_next_outage_is_told_at_once() -> None:
    outage = [(at / 10, "service.unavailable") for at in range(100)]
    again = [(10.0, "database.back"), (10.1, "database.unavailable")]
    assert [event for _, event, _ in lines(outage + again)][-2:] == ["database.back", "database.unavailable"]


def test_what_the_driver_says_is_a_line_of_ours_without_a_traceback() -> None:
    record = logging.LogRecord("asyncpg.pool", logging.WARNING, "pool.py", 1, "retrying", None, None)
    with capture_logs() as logs:
        DriverLines().emit(record)
        try:
            raise ConnectionRefusedError("nobody there")
        except ConnectionRefusedError as error:
            record.exc_info = (type(error), error, error.__traceback__)
            DriverLines().emit(record)
    assert [(line["event"], line["error"]) for line in logs] == [
        ("database.unavailable", "retrying"),
        ("database.unavailable", "nobody there"),
    ]
