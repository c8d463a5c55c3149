"""Several nodes, virtual time, faults at every point: whatever the seed, each fire time becomes one execution
with one end, and nobody acts on what is no longer his."""

import os
import re
from pathlib import Path

import pytest

import tocsin
from tests.simulation.faults import NAMED
from tests.simulation.world import simulate
from tests.support.postgres import Cluster

SEEDS = range(1, 9)
FIRST = int(os.environ.get("TOCSIN_SIM_FIRST", "1000"))
MORE = int(os.environ.get("TOCSIN_SIM_SEEDS", "0"))


def test_every_promise_holds_whatever_breaks(cluster: Cluster) -> None:
    landed: dict[str, int] = {}
    refused = 0
    for seed in SEEDS:
        run = run_seed(cluster, seed)
        assert not run.violations, run
        landed = {point: landed.get(point, 0) + run.landed.get(point, 0) for point in landed | run.landed}
        refused += run.refused
    # A simulation in which nothing breaks proves nothing.
    assert all(landed.get(kind) for kind in ("crash", "freeze", "stall", "loss")), landed
    assert not [point for point in NAMED if not any(place.endswith(f"at {point}") for place in landed)]
    assert refused > 0, "no zombie ever tried to write"


@pytest.mark.skipif(not MORE, reason="TOCSIN_SIM_SEEDS says how many seeds a long run takes")
@pytest.mark.timeout(0)
def test_every_promise_holds_over_many_seeds(cluster: Cluster) -> None:
    failed = []
    for seed in range(FIRST, FIRST + MORE):
        run = run_seed(cluster, seed)
        if run.violations:
            failed.append(str(run))
    assert not failed, "\n".join(failed)


def test_a_fleet_without_faults_is_never_refused_anything(cluster: Cluster) -> None:
    run = run_seed(cluster, 7, faults=0.0)
    assert not run.violations, run
    assert (run.landed, run.refused) == ({}, 0)
    passed = {f"before {name}" for name in ("claim", "due_jobs", "look", "start", "succeed", "write_plan")}
    assert passed <= run.passed, "statements have lost their names, and with them the order of their rows"


def test_a_seed_repeats_itself(cluster: Cluster) -> None:
    # Of rows that are due at one instant storage decides which is first, and a vacuum of the server's own in
    # the middle of a run may change that; hence another try.
    logs = [run_seed(cluster, 5).log]
    while len(logs) < 5:
        logs.append(run_seed(cluster, 5).log)
        if logs[-1] == logs[-2]:
            return
    assert logs[-1] == logs[-2]


def test_the_simulation_knows_every_failpoint_of_the_product() -> None:
    sources = Path(tocsin.__file__).parent.rglob("*.py")
    reached = {point for file in sources for point in re.findall(r'\.reach\("([\w.]+)"\)', file.read_text())}
    example = {"planner.before_commit"}  # in a docstring
    # test_operations.py crashes at each
    of_operations = {"operations.gathered", "operations.acted", "operations.committed"}
    of_gateways = {"gateway.claimed", "gateway.begun"}  # acceptance/test_task_workers.py crashes at each
    of_archives = {
        point for point in reached if point.startswith("archive.")
    }  # store/test_archive.py, each of them
    assert reached - example - of_operations - of_gateways - of_archives == set(NAMED)


def run_seed(cluster: Cluster, seed: int, **changes: float):
    url = cluster.new_database()
    try:
        return simulate(url, seed, **changes)
    finally:
        cluster.drop(url)
