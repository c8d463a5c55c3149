"""The dashboard for Grafana and the alert rules name metrics that exist; each rule is provoked by a test."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import every_command
from tests.support.metrics import every_metric, every_sample, labels_by_sample
from tocsin.domain.lifecycle import FINAL
from tocsin.domain.outcome import Outcome, Verdict, class_of
from tocsin.domain.policy import NETWORK, TIMEOUT

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = yaml.safe_load((MONITORING / "prometheus-rules.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
NAME = re.compile(r"\btocsin_\w+")
VALUES = {
    ("tocsin_finished_total", "state"): set(FINAL),
    ("tocsin_nodes", "role"): {"scheduler", "worker", "api"},
    ("tocsin_part_errors_total", "kind"): {"unavailable", "ownership_lost", "defect"},
    ("tocsin_attempts_total", "outcome"): {
        class_of(Outcome(Verdict.FAILED, detail={"status": 503})),
        class_of(Outcome(Verdict.FAILED, failure=NETWORK)),
        class_of(Outcome(Verdict.FAILED, failure=TIMEOUT)),
    },
}


def expressions() -> list[str]:
    panels = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
    return [*panels, *(rule["expr"] for rule in RULES)]


def test_every_metric_that_they_name_exists() -> None:
    named = {name for text in expressions() for name in NAME.findall(text)}
    assert named <= every_sample()


def test_every_label_that_they_choose_or_group_by_exists() -> None:
    """A selector that no series matches is an alert that never fires, and nothing would say so."""
    known = labels_by_sample()
    anywhere = {"node", "le", *(label for labels in known.values() for label in labels)}
    for text in expressions():
        for name, selector in re.findall(r"(tocsin_\w+){([^}]*)}", text):
            for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selector):
                assert label in known[name], f"{name} has no label {label}: {text}"
                if (name, label) in VALUES:
                    assert set(value.split("|")) <= VALUES[name, label], text
        for grouped in re.findall(r"(?:by|ignoring|on) \(([^)]*)\)", text):
            assert {label.strip() for label in grouped.split(",") if label.strip()} <= anywhere, text


def test_the_dashboard_shows_every_metric() -> None:
    named = {name for panel in expressions() for name in NAME.findall(panel)}
    unseen = {m.name for m in every_metric() if not any(name.startswith(m.name) for name in named)}
    assert unseen <= {"tocsin_started_per_second"}  # for the fleet's own pages


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_every_rule_is_provoked_and_a_healthy_fleet_provokes_none() -> None:
    tests = yaml.safe_load((MONITORING / "prometheus-rules.test.yml").read_text())["tests"]
    assert [test["name"] for test in tests] == ["a healthy fleet", *(rule["alert"] for rule in RULES)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_what_to_do_by_commands_that_exist(rule: Any) -> None:
    assert rule["labels"]["severity"] in {"page", "ticket", "info"}
    for command in re.findall(r"Run: tocsin ([a-z -]+?)(?: --|$)", rule["annotations"]["description"]):
        assert list(every_command(*command.split())), command


def test_promtool_agrees() -> None:
    promtool = os.environ.get("TEST_PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: apt-get install prometheus, or name one with TEST_PROMTOOL")
    for arguments in (
        ("check", "rules", "prometheus-rules.yml"),
        ("test", "rules", "prometheus-rules.test.yml"),
    ):
        done = subprocess.run(
            [promtool, *arguments], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
