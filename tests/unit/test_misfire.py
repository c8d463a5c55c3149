"""Which missed fire times still run, whatever was missed and however the deciding is cut into steps."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.misfire import Missed, decide
from tocsin.domain.policy import Misfire, MisfirePolicy

NOW: Instant = 1_900_000_000 * SECOND
policies = st.builds(
    Misfire, st.sampled_from(MisfirePolicy), lookback=st.integers(1, 600), max=st.integers(1, 5), pace=st.integers(0, 9)
)  # fmt: skip
ages = st.lists(st.integers(1, 900), unique=True, max_size=30)


def missed(seconds: list[int]) -> list[Missed]:
    """Earliest first."""
    return [Missed(NOW - age * SECOND, NOW - age * SECOND) for age in sorted(seconds, reverse=True)]


@given(policies, ages)
def test_the_latest_few_within_the_lookback_run_and_each_other_has_its_reason(
    misfire: Misfire, seconds: list[int]
) -> None:
    late, dropped = decide(missed(seconds), misfire, NOW)
    young = sorted(age for age in seconds if age * SECOND <= int(misfire.lookback) * SECOND)
    assert [(NOW - one.at) // SECOND for one in late] == young[: misfire.kept][::-1]
    assert [one.wait for one in late] == [place * int(misfire.pace) * SECOND for place in range(len(late))]
    assert len(late) + len(dropped) == len(seconds)
    for one in dropped:
        old = (NOW - one.at) // SECOND > int(misfire.lookback)
        assert (one.reason == "misfire_too_old") == old


@given(policies, ages, st.integers(5, 8))
def test_deciding_in_steps_comes_to_the_same(misfire: Misfire, seconds: list[int], step: int) -> None:
    """As many as any policy keeps, or more, at a time."""
    whole = decide(missed(seconds), misfire, NOW)
    left, dropped = missed(seconds), []
    while len(left) > step:
        _, some = decide(left[:step], misfire, NOW, more=True)
        if not some:
            break  # as many are kept as one step holds: the store looks at more than that
        dropped += some
        gone = {one.at for one in some}
        left = [one for one in left if one.at not in gone]
    late, rest = decide(left, misfire, NOW)
    assert (late, sorted(dropped + rest, key=lambda one: one.at)) == whole


@given(policies, ages)
def test_what_waits_for_its_pace_is_not_too_old_but_gives_way_to_what_came_later(
    misfire: Misfire, seconds: list[int]
) -> None:
    waiting = Missed(NOW - 5000 * SECOND, NOW - 5000 * SECOND, pending=True)
    late, dropped = decide([waiting, *missed(seconds)], misfire, NOW)
    assert waiting.at not in {one.at for one in late}, "it has its place already"
    reasons = {one.reason for one in dropped if one.at == waiting.at}
    assert reasons <= {"misfire_skipped", "misfire_superseded", "misfire_over_max"}
    assert bool(reasons) == (len(late) >= misfire.kept)
