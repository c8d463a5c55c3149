"""The table of states: what follows what, and that nothing else does."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.lifecycle import FINAL, LIVE, TRANSITIONS, Event, State, after, live_state


def test_live_and_final_states_split_all_states() -> None:
    assert frozenset(State) == LIVE | FINAL
    assert not LIVE & FINAL


def test_every_state_is_reached_from_queued_and_leads_to_an_end() -> None:
    assert reachable(State.QUEUED) == set(State)
    assert all(reachable(state) & FINAL for state in LIVE)


def test_every_event_is_legal_somewhere() -> None:
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_a_final_state_is_left_only_by_reviving_and_a_success_or_skip_never() -> None:
    left = {(state, event) for state, event in TRANSITIONS if state in FINAL}
    assert {event for _, event in left} == {Event.REVIVE}
    assert FINAL - {state for state, _ in left} == {State.SUCCEEDED, State.SKIPPED}


def test_only_what_runs_can_succeed_or_die_and_only_a_claim_can_run() -> None:
    for (state, event), following in TRANSITIONS.items():
        if following in (State.SUCCEEDED, State.DEAD):
            assert state is State.RUNNING
        if following is State.RUNNING:
            assert (state, event) == (State.CLAIMED, Event.START)


def test_what_runs_is_not_cancelled_but_asked_to_stop() -> None:
    assert after(State.RUNNING, Event.CANCEL) is None
    assert after(State.RUNNING, Event.STOP) is State.CANCELLED


@given(st.lists(st.sampled_from(Event), max_size=60))
def test_any_sequence_of_events_stays_inside_the_table(events: list[Event]) -> None:
    state = State.QUEUED
    for event in events:
        following = after(state, event)
        assert following is TRANSITIONS.get((state, event))
        state = following or state
    assert state in State


@given(st.booleans(), st.booleans())
def test_the_state_of_a_live_row_follows_from_its_claim_and_its_start(claimed: bool, started: bool) -> None:
    state = live_state(claimed=claimed, started=started)
    assert state in LIVE
    assert (state is State.QUEUED) == (not claimed)
    assert (state is State.RUNNING) == (claimed and started)


def reachable(begin: State) -> set[State]:
    seen, todo = {begin}, deque([begin])
    while todo:
        state = todo.popleft()
        for (source, _), following in TRANSITIONS.items():
            if source is state and following not in seen:
                seen.add(following)
                todo.append(following)
    return seen
