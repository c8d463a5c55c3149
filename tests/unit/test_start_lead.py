"""The lead follows what starts take: no shorter than a commit on a slow disk, no longer than a second."""

from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.worker.start_lead import LONGEST_LEAD, SHORTEST_LEAD, StartLead, lead_for

MS = MILLISECOND


def after(starts: list[tuple[float, int, int]]) -> int:
    """The lead after starts given as (asked for at, took, waited)."""
    now = 0.0
    lead = StartLead(lambda: now)
    for at, took, waited in starts:
        now = at
        began = lead.begin()
        now = at + took / SECOND
        lead.note(began, waited)
    return lead.span()


def test_without_starts_and_with_quick_ones_it_is_the_shortest() -> None:
    assert lead_for([]) == SHORTEST_LEAD
    assert lead_for([2 * MS] * 500) == SHORTEST_LEAD
    assert after([(at, 2 * MS, 0) for at in range(1, 50)]) == SHORTEST_LEAD


def test_one_slow_start_among_a_hundred_does_not_count_and_two_do() -> None:
    assert lead_for([80 * MS] * 99 + [900 * MS]) == 90 * MS
    assert lead_for([80 * MS] * 98 + [300 * MS] * 2) == 310 * MS


def test_it_is_never_longer_than_a_second() -> None:
    assert lead_for([5 * SECOND] * 100) == LONGEST_LEAD


def test_a_start_that_waited_for_the_one_before_it_counts_with_that_wait_and_not_with_any_other() -> None:
    in_a_row = [(at / 10, 80 * MS, 80 * MS) for at in range(1, 100)]
    behind_places = [(at / 10, 80 * MS, 30 * SECOND) for at in range(1, 100)]
    assert after(in_a_row) == after(behind_places) == 170 * MS
    assert after([(at, 80 * MS, 0) for at in range(1, 50)]) == 90 * MS


def test_what_was_slow_more_than_a_minute_ago_is_forgotten() -> None:
    slow = [(at, 500 * MS, 0) for at in range(1, 10)]
    assert after(slow) == 510 * MS
    assert after([*slow, (100.0, 2 * MS, 0)]) == SHORTEST_LEAD
