"""What can be known of a clock that is set: that it was, and whether an error was put right."""

import pytest

from tocsin.domain.clock_jumps import ClockJumps, Jump
from tocsin.domain.instant import DAY, HOUR, SECOND


@pytest.mark.parametrize(
    ("distances", "jumps"),
    [
        ([0, SECOND, -SECOND, 3 * SECOND], []),
        ([0, 10 * DAY, 10 * DAY, SECOND], [Jump(10 * DAY), Jump(SECOND - 10 * DAY, put_right=True)]),
        ([0, HOUR, 10 * DAY, 0], [Jump(HOUR), Jump(10 * DAY - HOUR), Jump(-10 * DAY, put_right=True)]),
        ([0, 10 * DAY, DAY, 0], [Jump(10 * DAY), Jump(-9 * DAY), Jump(-DAY, put_right=True)]),
        ([0, -DAY, 0], [Jump(-DAY), Jump(DAY)]),
        ([0, HOUR, -HOUR, 0], [Jump(HOUR), Jump(-2 * HOUR), Jump(HOUR)]),
    ],
    ids=["drift", "ahead and back", "ahead twice", "back in steps", "only back", "back too far"],
)
def test_a_jump_is_told_and_an_error_that_was_put_right_is_known(
    distances: list[int], jumps: list[Jump]
) -> None:
    seen = ClockJumps()
    assert [jump for jump in map(seen.observe, distances) if jump is not None] == jumps
