"""The simulation can fail: with any of the fences taken out of the product it finds out within a few
seeds."""

import sys
from typing import Any

import pytest

from tests.simulation.faults import know
from tests.simulation.test_simulation import run_seed
from tests.support.postgres import Cluster
from tocsin.db.statements import Statement, statement

# Those that notice most come first.
ENOUGH_SEEDS = (12, 7, 8, 5, 6, 9, 10, 3, 11, *range(13, 31))

FENCES = {
    "settling without looking whose claim it is": (
        {"finish": [("AND e.claim_token IS NOT DISTINCT FROM d.token", "")], "succeed": [("AND e.claim_token IS NOT DISTINCT FROM d.token", "")]},
        {"lifecycle", "truth", "cancel"},
    ),
    "retrying without looking whose claim it is": (
        {"retry": [("AND e.claim_token IS NOT DISTINCT FROM r.token", "")]},
        {"lifecycle", "attempts"},
    ),
    "starting without looking whose claim it is": (
        {"start": [("AND e.claim_token IS NOT DISTINCT FROM s.token", "")]},
        {"calls"},
    ),
    "planning without a lease, from any cursor, over what is there": (
        {
            "write_plan": [
                ("AND c.shard IN (SELECT shard FROM own)", ""),
                ("AND j.next_fire_at = c.expected", ""),
                ("AND j.version = c.version", ""),
                ("ON CONFLICT DO NOTHING\n    RETURNING 1", "RETURNING 1"),
            ]
        },
        {"fire times", "lease"},
    ),
    "planning without a lease, from any cursor": (
        {
            "write_plan": [
                ("AND c.shard IN (SELECT shard FROM own)", ""),
                ("AND j.next_fire_at = c.expected", ""),
                ("AND j.version = c.version", ""),
            ]
        },
        {"fire times"},
    ),
    "planning without a lease": (
        {"write_plan": [("AND c.shard IN (SELECT shard FROM own)", "")]},
        {"lease"},
    ),
    "taking claims back before their deadline": (
        {
            "overdue": [("AND e.deadline_at <= tocsin_now()", "")],
            "requeue": [("AND e.deadline_at <= tocsin_now()", "")],
        },
        {"overlap"},
    ),
    "taking leases that somebody holds": (
        {"take_leases": [("WHERE owner IS NULL OR expires_at <= tocsin_now()", ""),
                         ("AND (s.owner IS NULL OR s.expires_at <= tocsin_now())", "")]},
        {"lease"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("missing", FENCES)
def test_the_simulation_notices_a_missing_fence(
    missing: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits, rules = FENCES[missing]
    take_out(monkeypatch, edits)
    for seed in ENOUGH_SEEDS:
        found = {violation.rule for violation in run_seed(cluster, seed).violations}
        if found & rules:
            return
    pytest.fail(f"{missing}: nothing noticed in {len(ENOUGH_SEEDS)} seeds")


def take_out(monkeypatch: pytest.MonkeyPatch, edits: dict[str, list[tuple[str, str]]]) -> None:
    """Let the product run edited statements. A fence that is not where it was expected is an error."""

    def edited(package: str, name: str) -> str:
        text = statement(package, name)
        for old, new in edits.get(name, ()):
            assert old in text, f"{name}.sql no longer says {old!r}"
            text = text.replace(old, new)
        know(text, name)
        return text

    def edited_named(known: Statement) -> Statement:
        text = known.text
        for old, new in edits[known.name]:
            assert old in text, f"{known.name}.sql no longer says {old!r}"
            text = text.replace(old, new)
        know(text, known.name)
        return known._replace(text=text)

    modules: list[Any] = [module for name, module in sys.modules.items() if name.startswith("tocsin.")]
    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, Statement) and value.name in edits:
                monkeypatch.setattr(module, name, edited_named(value))
        if getattr(module, "statement", None) is statement and module.__name__ != "tocsin.db.statements":
            monkeypatch.setattr(module, "statement", edited)
