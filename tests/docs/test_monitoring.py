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
from tests.support.metrics import every_metric, every_sample

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = yaml.safe_load((MONITORING / "prometheus-rules.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
NAME = re.compile(r"\btocsin_\w+")


def expressions() -> list[str]:
    panels = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
    return [*panels, *(rule["expr"] for rule in RULES)]


def test_every_metric_that_they_name_exists() -> None:
    named = {name for text in expressions() for name in NAME.findall(text)}
    assert named <= every_sample()


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
