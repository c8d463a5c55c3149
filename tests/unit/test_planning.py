"""However planning is cut into steps, each fire time is decided once: as a fire or inside one run of
skips."""

from bisect import bisect_left, bisect_right

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.blackout import Blackouts, ExcludePolicy
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, Instant, format_instant
from tocsin.domain.planning import Fire, Plan, Skip, Terms, plan
from tocsin.domain.policy import Misfire, MisfirePolicy
from tocsin.domain.schedule import Rule, Schedule, rule_of

BEGIN = 1_900_000_800 * SECOND  # a full hour


class Listed:
    """A rule that fires at given instants."""

    def __init__(self, times: list[Instant]) -> None:
        self.times = times

    def next_fire(self, after: Instant) -> Instant | None:
        place = bisect_right(self.times, after)
        return self.times[place] if place < len(self.times) else None


def every(interval: int, ends_at: str | None = None) -> Rule:
    return rule_of(Schedule(every=interval / SECOND, ends_at=ends_at))


spans = st.integers(1, 4000).map(lambda seconds: seconds * SECOND)


@st.composite
def rules(draw: st.DrawFn) -> tuple[Rule, list[Instant]]:
    """A rule, and its fire times over a while by arithmetic of our own."""
    if draw(st.booleans()):
        interval = draw(spans)
        first = BEGIN - BEGIN % interval + interval
        times = [first + n * interval for n in range(draw(st.integers(1, 80)))]
        return every(interval, ends_at=format_instant(times[-1])), times
    gaps = draw(st.lists(spans, min_size=1, max_size=80))
    times = [BEGIN + sum(gaps[: n + 1]) for n in range(len(gaps))]
    return Listed(times), times


@st.composite
def terms(draw: st.DrawFn) -> Terms:
    policy = draw(st.sampled_from(MisfirePolicy))
    misfire = Misfire(policy, draw(st.sampled_from((0, 60, 3600, 86400))), draw(st.integers(1, 20)))
    ranges = [
        (BEGIN + start, BEGIN + start + length)
        for start, length in draw(st.lists(st.tuples(spans, spans), max_size=3))
    ]
    blackouts = Blackouts(ranges, draw(st.sampled_from(ExcludePolicy)))
    return Terms(misfire, offset=draw(st.sampled_from((0, SECOND, MINUTE))), blackouts=blackouts)


def decided(plans: list[Plan], times: list[Instant]) -> list[Instant]:
    """Every fire time that the plans decide, in order of the plans."""
    found: list[Instant] = []
    for step in plans:
        parts = [(fire.at, [fire.at]) for fire in step.fires]
        for skip in step.skips:
            inside = times[bisect_left(times, skip.first) : bisect_right(times, skip.last)]
            assert len(inside) == skip.count
            assert (inside[0], inside[-1]) == (skip.first, skip.last)
            parts.append((skip.first, inside))
        found += [time for _, inside in sorted(parts) for time in inside]
    return found


def walk(
    rule: Rule, first: Instant, given_terms: Terms, moments: list[tuple[int, int]], *, last: Instant
) -> list[Plan]:
    """Plan again and again as time goes on, in steps of any length and with any limit."""
    plans: list[Plan] = []
    cursor: Instant | None = first
    now = first
    for length, limit in moments:
        now += length
        until = min(now + 30 * SECOND, last)
        if cursor is None or cursor > until:
            continue
        plans.append(plan(rule, cursor, given_terms, now=now, until=until, limit=limit))
        cursor = plans[-1].cursor
    while cursor is not None and cursor <= last:
        plans.append(plan(rule, cursor, given_terms, now=last + 2 * DAY, until=last, limit=50))
        cursor = plans[-1].cursor
    return plans


@given(rules(), terms(), st.lists(st.tuples(st.integers(0, 2 * HOUR), st.integers(1, 40)), max_size=40))
def test_no_fire_time_is_lost_or_decided_twice_however_planning_is_cut_into_steps(
    rule_and_times: tuple[Rule, list[Instant]], given_terms: Terms, moments: list[tuple[int, int]]
) -> None:
    rule, times = rule_and_times
    plans = walk(rule, times[0], given_terms, moments, last=times[-1])
    assert decided(plans, times) == times


@given(rules(), st.integers(0, 3000), st.integers(1, 100))
def test_fire_times_that_are_still_to_come_all_fire(
    rule_and_times: tuple[Rule, list[Instant]], horizon: int, limit: int
) -> None:
    rule, times = rule_and_times
    until = times[0] + horizon * SECOND
    step = plan(rule, times[0], Terms(), now=times[0], until=until, limit=limit)
    expected = [time for time in times if time <= until][:limit]
    following = times[len(expected)] if len(expected) < len(times) else None
    assert step == Plan([Fire(time, time) for time in expected], [], following)


@given(rules(), st.data())
def test_one_step_over_missed_fire_times_keeps_the_latest_and_says_why_the_others_go(
    rule_and_times: tuple[Rule, list[Instant]], data: st.DataObject
) -> None:
    rule, times = rule_and_times
    live_from = data.draw(st.sampled_from(times)) + 1
    grace = data.draw(st.integers(1, 300))
    now = live_from + grace * SECOND
    lookback = data.draw(st.integers(1, 5000))
    policy = data.draw(st.sampled_from(MisfirePolicy))
    most = data.draw(st.integers(1, 10))
    misfire = Misfire(policy, float(lookback), most, grace=grace)
    step = plan(rule, times[0], Terms(misfire), now=now, until=live_from - 1)
    missed = [time for time in times if time < live_from]
    able = [time for time in missed if time >= now - lookback * SECOND]
    keep = {MisfirePolicy.SKIP: 0, MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.FIRE_ALL: most}[policy]
    assert [fire.at for fire in step.fires] == (able[-keep:] if keep else [])
    assert all(fire.late for fire in step.fires)
    reasons = {
        MisfirePolicy.SKIP: "misfire_skipped",
        MisfirePolicy.FIRE_ONCE: "misfire_superseded",
        MisfirePolicy.FIRE_ALL: "misfire_over_max",
    }
    for skip in step.skips:
        too_old = skip.last < now - lookback * SECOND
        assert skip.reason == ("misfire_too_old" if too_old else reasons[policy])


@given(
    rules(),
    terms(),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, HOUR), st.integers(1, 9)), max_size=30),
)
def test_max_fires_is_never_exceeded_and_ends_the_schedule_when_reached(
    rule_and_times: tuple[Rule, list[Instant]], given_terms: Terms, most: int, moments: list[tuple[int, int]]
) -> None:
    rule, times = rule_and_times
    fired, cursor, now = 0, times[0], times[0]
    for length, limit in moments:
        now += length
        left = Terms(given_terms.misfire, most - fired, given_terms.offset, given_terms.blackouts)
        step = plan(rule, cursor, left, now=now, until=min(now, times[-1]), limit=limit)
        fired += len(step.fires)
        assert fired <= most
        if fired == most:
            assert step.cursor is None
        if step.cursor is None:
            break
        cursor = step.cursor


@given(rules(), st.data())
def test_what_was_decided_before_the_cursor_moved_back_is_left_alone(
    rule_and_times: tuple[Rule, list[Instant]], data: st.DataObject
) -> None:
    rule, times = rule_and_times
    done = set(data.draw(st.lists(st.sampled_from(times), max_size=20)))
    now = data.draw(st.sampled_from(times))
    misfire = Misfire(data.draw(st.sampled_from(MisfirePolicy)), "1h")
    before = Terms(misfire, decided=Blackouts((time, time + 1) for time in done))
    step = plan(rule, times[0], before, now=now, until=times[-1])
    assert decided([step], [time for time in times if time not in done]) == [
        t for t in times if t not in done
    ]
    for skip in step.skips:
        assert not any(skip.first <= time <= skip.last for time in done)


def test_fire_times_late_by_less_than_their_jitter_still_fire_on_time() -> None:
    step = plan(every(MINUTE), BEGIN, Terms(offset=30 * SECOND), now=BEGIN + 80 * SECOND, until=BEGIN)
    assert step.fires == [Fire(BEGIN, BEGIN + 30 * SECOND)]


def test_a_blackout_drops_fire_times_or_holds_the_last_of_them_until_it_ends() -> None:
    ranges = [(BEGIN, BEGIN + 10 * MINUTE)]
    ahead = {"now": BEGIN, "until": BEGIN + 9 * MINUTE}
    dropped = plan(every(MINUTE), BEGIN, Terms(blackouts=Blackouts(ranges)), **ahead)
    assert dropped == Plan([], [Skip(BEGIN, BEGIN + 9 * MINUTE, 10, "blackout")], BEGIN + 10 * MINUTE)
    held = plan(every(MINUTE), BEGIN, Terms(blackouts=Blackouts(ranges, ExcludePolicy.HOLD)), **ahead)
    assert held.fires == [Fire(BEGIN + 9 * MINUTE, BEGIN + 10 * MINUTE)]
    assert held.skips == [Skip(BEGIN, BEGIN + 8 * MINUTE, 9, "blackout")]


def test_runs_of_skips_end_where_something_fires_between_them() -> None:
    ranges = [(BEGIN, BEGIN + MINUTE), (BEGIN + 2 * MINUTE, BEGIN + 3 * MINUTE)]
    step = plan(every(MINUTE), BEGIN, Terms(blackouts=Blackouts(ranges)), now=BEGIN, until=BEGIN + 3 * MINUTE)
    assert [(skip.first, skip.last, skip.count) for skip in step.skips] == [
        (BEGIN, BEGIN, 1),
        (BEGIN + 2 * MINUTE, BEGIN + 2 * MINUTE, 1),
    ]


def test_catching_up_is_paced() -> None:
    misfire = Misfire(MisfirePolicy.FIRE_ALL, "1h", 100, "2s")
    step = plan(every(MINUTE), BEGIN, Terms(misfire), now=BEGIN + 4 * MINUTE, until=BEGIN + 3 * MINUTE)
    assert [fire.wait for fire in step.fires] == [0, 2 * SECOND, 4 * SECOND, 0]


def test_a_month_of_missed_seconds_is_left_out_in_one_run() -> None:
    step = plan(
        every(SECOND),
        BEGIN,
        Terms(Misfire(grace=1)),
        now=BEGIN + 30 * DAY,
        until=BEGIN + 30 * DAY - 2 * SECOND,
    )
    assert step.skips[0] == Skip(
        BEGIN, BEGIN + 30 * DAY - HOUR - SECOND, 30 * 86400 - 3600, "misfire_too_old"
    )
    assert [fire.at for fire in step.fires] == [BEGIN + 30 * DAY - 2 * SECOND]
