"""What users write as a schedule: one meaning each, settled when written, and refusals that name the
field."""

from itertools import islice, pairwise
from uuid import UUID

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, HOUR, LATEST, MINUTE, SECOND, Instant, format_instant, parse_instant
from tocsin.domain.schedule import Schedule, fire_times, offset_of, read_schedule, rule_of

NOW = parse_instant("2030-06-15T12:00:00Z", "now")
instants = st.integers(NOW - 400 * DAY, NOW + 400 * DAY)
intervals = st.integers(1, 10_000)


@given(intervals, st.integers(0, 20_000))
def test_an_interval_names_no_instant_that_cannot_be_written(seconds: int, before: int) -> None:
    rule = rule_of(Schedule(every=f"{seconds}s"))
    for fire in fire_times(rule, rule.next_fire(LATEST - before * SECOND) or LATEST):
        assert fire <= LATEST
    assert rule.next_fire(LATEST) is None


@given(intervals, instants)
def test_an_interval_counts_from_the_epoch_so_that_nothing_makes_it_drift(
    seconds: int, after: Instant
) -> None:
    fire = rule_of(Schedule(every=f"{seconds}s")).next_fire(after)
    assert fire is not None
    assert fire % (seconds * SECOND) == 0
    assert 0 < fire - after <= seconds * SECOND


@given(intervals, instants, instants)
def test_an_interval_with_a_start_counts_from_there(seconds: int, start: Instant, after: Instant) -> None:
    rule = rule_of(Schedule(every=seconds, starts_at=format_instant(start)))
    fire = rule.next_fire(after)
    assert fire is not None
    assert fire >= start
    assert (fire - start) % (seconds * SECOND) == 0
    assert rule.next_fire(start - 1) == start


written = st.one_of(
    intervals.map(lambda seconds: Schedule(every=f"{seconds}s")),
    st.sampled_from(("* * * * *", "*/7 * * * *", "0 9 * * MON-FRI", "30 2 * * *")).map(
        lambda text: Schedule(cron=text)
    ),
)


@given(written, instants)
def test_fire_times_go_forward_and_the_next_one_is_the_same_from_anywhere_before_it(
    schedule: Schedule, at: Instant
) -> None:
    rule = rule_of(schedule)
    first = rule.next_fire(at)
    assert first is not None
    times = list(islice(fire_times(rule, first), 6))
    assert times[0] == first > at
    for before, after in pairwise(times):
        assert before < after
        assert rule.next_fire((before + after) // 2) == rule.next_fire(after - 1) == after


@given(written, instants, st.integers(0, 30 * DAY))
def test_a_window_keeps_exactly_the_fire_times_inside_it(
    schedule: Schedule, start: Instant, length: int
) -> None:
    assume(schedule.cron is not None)  # an interval moves with its start
    inside = msgspec.structs.replace(
        schedule, starts_at=format_instant(start), ends_at=format_instant(start + length)
    )
    bare, rule = rule_of(schedule), rule_of(inside)
    for after in (start - DAY, start - 1, start, start + length // 2, start + length, start + length + DAY):
        expected = bare.next_fire(max(after, start - 1))
        assert rule.next_fire(after) == (
            expected if expected is not None and expected <= start + length else None
        )


@given(st.lists(written, min_size=1, max_size=4), instants)
def test_a_list_fires_whenever_one_of_its_parts_does_and_once(parts: list[Schedule], after: Instant) -> None:
    rule = rule_of(read_schedule(list(parts), NOW))
    fire = rule.next_fire(after)
    assert fire == min(rule_of(part).next_fire(after) for part in parts)


@given(instants)
def test_now_and_in_become_instants_when_they_are_read(now: Instant) -> None:
    assert read_schedule(Schedule(now=True), now) == Schedule(at=format_instant(now))
    assert read_schedule(Schedule(in_="90s"), now) == Schedule(at=format_instant(now + 90 * SECOND))
    assert rule_of(Schedule(at=format_instant(now))).next_fire(now - 1) == now
    assert rule_of(Schedule(at=format_instant(now))).next_fire(now) is None


def test_a_bare_string_is_an_instant_or_a_cron_expression() -> None:
    assert read_schedule("2030-12-24T18:00:00Z", NOW) == Schedule(at="2030-12-24T18:00:00Z")
    assert read_schedule("0 9 * * MON", NOW) == Schedule(cron="0 9 * * MON")


@given(written)
def test_a_schedule_survives_storage(schedule: Schedule) -> None:
    read = read_schedule(schedule, NOW)
    assert msgspec.json.decode(msgspec.json.encode(read), type=Schedule) == read
    assert read_schedule(read, NOW) == read


@given(st.uuids(), st.integers(1, 86400))
def test_a_jobs_place_in_the_jitter_is_always_the_same_and_inside_the_window(
    job_id: UUID, window: int
) -> None:
    schedule = Schedule(every="1d", jitter=float(window))
    assert offset_of(schedule, job_id) == offset_of(schedule, job_id)
    assert 0 <= offset_of(schedule, job_id) < window * SECOND
    assert offset_of(Schedule(every="1d"), job_id) == 0


def test_jobs_are_spread_over_the_jitter() -> None:
    schedule = Schedule(every="1h", jitter="10m")
    slots = [
        offset_of(schedule, UUID(int=n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)))
        for n in range(1000)
    ]
    tenths = {slot * 10 // (10 * MINUTE) for slot in slots}
    assert tenths == set(range(10))


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        (Schedule(), "schedule"),
        (Schedule(now=False), "schedule"),
        (Schedule(at="2031-01-01T00:00:00Z", every="1m"), "schedule"),
        (Schedule(every="1m", cron="* * * * *"), "schedule"),
        (Schedule(at="2031-01-01T00:00:00"), "schedule.at"),
        (Schedule(in_="-5s"), "schedule.in"),
        (Schedule(in_="later"), "schedule.in"),
        (Schedule(every="999ms"), "schedule.every"),
        (Schedule(every="11000d"), "schedule.every"),
        (Schedule(cron="61 * * * *"), "schedule.cron"),
        (Schedule(cron="* * * * *", time_zone="Mars/Olympus"), "schedule.time_zone"),
        (Schedule(every="1m", time_zone="Europe/Berlin"), "schedule.time_zone"),
        (Schedule(at="2031-01-01T00:00:00Z", starts_at="2031-01-01T00:00:00Z"), "schedule.starts_at"),
        (Schedule(now=True, max_fires=3), "schedule.max_fires"),
        (Schedule(every="1m", max_fires=0), "schedule.max_fires"),
        (Schedule(every="1m", starts_at="noon"), "schedule.starts_at"),
        (
            Schedule(every="1m", starts_at="2031-01-02T00:00:00Z", ends_at="2031-01-01T00:00:00Z"),
            "schedule.ends_at",
        ),
        (Schedule(every="1m", ends_at="2030-01-01T00:00:00Z"), "schedule"),
        (Schedule(every="1m", jitter="25h"), "schedule.jitter"),
    ],
)
def test_a_schedule_without_sense_is_refused_by_the_name_of_its_field(schedule: Schedule, field: str) -> None:
    with pytest.raises(Refused) as refusal:
        read_schedule(schedule, NOW)
    assert refusal.value.field == field


def test_a_schedule_that_never_fires_again_is_refused() -> None:
    with pytest.raises(Refused, match="never fire"):
        read_schedule(Schedule(cron="0 0 30 2 *"), NOW)


def test_an_hour_is_an_hour() -> None:
    assert rule_of(Schedule(every="1h")).next_fire(NOW) == NOW + HOUR
