"""The pure parts of the benchmarks: what is made of figures, and how a run goes on."""

from pathlib import Path

import pytest
from bench.full import all_steps, in_order, left_over
from bench.held_vacuum import slope_per_minute
from bench.herd import lag_of, thinned
from bench.peer_steps import ABLE
from bench.peers import PEERS
from bench.report import SECTIONS, Done, Measured, Run, Spread, keep, kept, page, ratio, readme_table
from bench.sections import QUICK, Sizes

OURS = Measured(
    "b", "drain", "Tocsin", {"per second": [400, 500, 600]}, "python -m bench.drain", ours=True, headline=True
)
POLICIES = Measured("b", "drain", "Tocsin, keys", {"per second": [250]}, "python -m bench.drain", ours=True)
LIMIT = Measured("b", "drain", "bare statements", {"per second": [1000]}, "python -m bench.drain")
PEER = Measured("b", "drain", "peer 1.0", {"per second": [200]}, "python -m bench.peers peer")
FAILED = Measured("b", "drain", "other 2.0", {}, "python -m bench.peers other", note="failed: a | of reasons")


def test_a_spread_shows_its_median_and_its_ends() -> None:
    assert str(Spread.of([52_000.0, 47_700.0, 49_500.0])) == "49,500 (47,700–52,000)"
    assert str(Spread.of([0.25])) == "0.250"


def test_a_ratio_is_ours_to_theirs_and_of_ours_to_the_first() -> None:
    assert ratio(OURS, OURS) is None
    assert ratio(LIMIT, OURS) == 0.5
    assert ratio(PEER, OURS) == 2.5
    assert ratio(POLICIES, OURS) == 0.5
    assert ratio(FAILED, OURS) is None


def test_ratios_of_lags_are_taken_of_the_99th_percentile() -> None:
    ours = Measured("c", "herd", "Tocsin", {"p50, ms": [1], "p99, ms": [10]}, "", ours=True)
    theirs = Measured("c", "herd", "peer", {"p50, ms": [2], "p99, ms": [100]}, "")
    assert ratio(theirs, ours) == 0.1


def test_the_page_has_ours_first_each_command_once_and_says_what_failed() -> None:
    run = Run("2026-01-01", "a machine", {"Python": "3"}, "Settings.", 3)
    text = page(run, 120.0, [PEER, OURS, FAILED, LIMIT], {"b": ["results/b1.svg"]})
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == [
        "| Tocsin",
        "| peer 1.0",
        r"| other 2.0: failed: a \| of reasons",
        "| bare statements",
    ]
    assert text.count("python -m bench.drain") == 1
    assert "![Drain](results/b1.svg)" in text


def test_the_short_table_names_the_anchor_and_the_best_peer() -> None:
    better = Measured("b", "drain", "better 3.0", {"per second": [300]}, "python -m bench.peers better")
    last = readme_table([OURS, POLICIES, LIMIT, PEER, better, FAILED]).splitlines()[-1]
    assert last == "| drain: per second | 500 (400–600) | bare statements 1,000 | better 3.0 300 |"


def test_a_run_that_was_cut_goes_on_after_what_was_kept(tmp_path: Path) -> None:
    steps, path = all_steps(QUICK, ["PgQueuer"], "ab"), tmp_path / "steps.jsonl"
    assert left_over(steps, kept(path)) == steps
    keep(path, Done(steps[0].name, 1.5, [OURS]))
    keep(path, Done(steps[2].name, 2.5, [PEER]))
    path.write_bytes(path.read_bytes() + b'{"name":"cut of')
    assert [done.measured for done in kept(path)] == [[OURS], [PEER]]
    assert left_over(steps, kept(path)) == [steps[1], *steps[3:]]


def test_what_was_measured_again_takes_its_old_place() -> None:
    done = [Done(name, 1.0, []) for name in ("b", "gone", "c", "a")]
    assert [one.name for one in in_order(done, ["a", "b", "c", "d"])] == ["a", "b", "c", "gone"]


def test_each_section_has_a_step_and_each_step_a_name_of_its_own() -> None:
    steps = all_steps(Sizes(), list(PEERS), "".join(SECTIONS))
    assert {step.section for step in steps} == set(SECTIONS)
    assert len({step.name for step in steps}) == len(steps)
    assert set(ABLE) == set(PEERS)


def test_peers_follow_what_they_stand_beside() -> None:
    steps = all_steps(Sizes(), list(PEERS), "c")
    whats = [step.what for step in steps]
    assert whats == sorted(whats, key=whats.index)
    assert steps[0].name == "herd of 10,000 over HTTP"


def test_the_slope_is_the_change_per_minute_as_a_part_of_the_mean() -> None:
    assert slope_per_minute([100.0] * 12, 10) == 0
    assert slope_per_minute([120, 110, 100, 90, 80], 60) == pytest.approx(-0.1)
    assert slope_per_minute([50.0], 10) == 0


def test_thinned_values_keep_their_ends_and_their_middle() -> None:
    curve = thinned(range(1000), points=4)
    assert (curve[0], curve[2], curve[-1]) == (0, 500, 999)
    assert thinned([7.0], points=4) == [7.0] * 5


def test_percentiles_are_lags_that_were_measured() -> None:
    lag = lag_of([float(number) for number in range(100, 0, -1)])
    assert (lag.first, lag.p50, lag.p99, lag.max) == (1, 51, 100, 100)
