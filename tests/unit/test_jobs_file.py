"""Files that declare jobs: how they are read, written, and described to editors."""

import json

import jsonschema
import pytest
from click.testing import CliRunner

from tocsin.api import jobs_file_schema
from tocsin.cli.exported import as_written
from tocsin.cli.jobs_file import JobsFile, Unreadable, read_jobs_file, written_json, written_yaml
from tocsin.cli.main import cli

YAML = """
owner: shop
revision: 7
jobs:
  - name: report
    schedule: {cron: 0 9 * * MON, time_zone: Europe/Berlin, ends_at: 2031-01-01T00:00:00Z}
    target: {kind: http, url: https://example.com/report, body: {at: 12:30, no: 010, big: 1e3}}
    retry: {on: [network, 5xx], max_attempts: 3}
    tags: [on, off]
"""
TOML = """
owner = "shop"
revision = 7
[[jobs]]
name = "report"
tags = ["on", "off"]
schedule = { cron = "0 9 * * MON", time_zone = "Europe/Berlin", ends_at = "2031-01-01T00:00:00Z" }
target = { kind = "http", url = "https://example.com/report", body = { at = "12:30", no = "010", big = 1000.0 } }
retry = { on = ["network", "5xx"], max_attempts = 3 }
"""


def test_yaml_toml_and_json_say_the_same():
    read = read_jobs_file(YAML, "jobs.yaml")
    (job,) = read.jobs
    assert job["retry"] == {"on": ["network", "5xx"], "max_attempts": 3}
    assert job["schedule"]["ends_at"] == "2031-01-01T00:00:00Z"
    assert job["target"]["body"] == {"at": "12:30", "no": "010", "big": 1000.0}
    assert read == read_jobs_file(TOML, "jobs.toml")
    assert read._replace(revision=None) == read_jobs_file(written_json("shop", read.jobs), "jobs.json")
    assert read._replace(revision=None) == read_jobs_file(written_yaml("shop", read.jobs), "-")


def test_jobs_may_stand_by_their_names_and_share_parts():
    text = "owner: a\njobs:\n  x: &x {schedule: '@daily', target: {kind: noop}}\n  y: {<<: *x, priority: 2}\n"
    plain = {"schedule": "@daily", "target": {"kind": "noop"}}
    assert read_jobs_file(text, "f") == JobsFile(
        "a", None, [{"name": "x"} | plain, {"name": "y"} | plain | {"priority": 2}]
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- a", "owner: and jobs:"),
        ("jobs: []", "owner:"),
        ("owner: a\njob: []", "did you mean jobs?"),
        ("owner: a", "jobs: is a list"),
        ("owner: a\njobs: [1]", "jobs[0] is not a job"),
        ("owner: a\nrevision: x\njobs: []", "whole number"),
        ("owner: a\njobs: {x: {a: 1, a: 2}}", "'a' stands there twice"),
        ("owner: [", "not YAML"),
    ],
)
def test_a_file_that_says_something_else_is_refused(text, why):
    with pytest.raises(Unreadable, match=why.replace("[", r"\[").replace("?", r"\?")):
        read_jobs_file(text, "jobs.yaml")


def test_the_published_schema_is_that_of_the_api_and_knows_its_files():
    schema = json.loads(CliRunner().invoke(cli, ["schema"]).stdout)
    assert schema == json.loads(jobs_file_schema.text()), "python -m tocsin.api.client_code writes it anew"
    judge = jsonschema.Draft202012Validator(schema)
    document = {"owner": "shop", "revision": 7, "jobs": read_jobs_file(YAML, "jobs.yaml").jobs}
    judge.validate(document)
    for wrong in ({"jobs": [{}]}, {"owner": "a b"}, {"jobs": [{"name": "x", "schedule": "@daily"}]}):
        assert not judge.is_valid(document | wrong)


def test_a_job_is_exported_in_the_fewest_words():
    shown = {
        "id": "job_1", "name": "x", "description": None, "managed_by": None, "kind": "recurring", "state": "active",
        "schedule": {"cron": "@daily"}, "target": {"kind": "http", "url": "https://e.com", "method": "POST", "headers": {}},
        "queue": "default", "priority": 5, "tags": [], "overlap": "skip", "precision": "normal",
        "retry": {"max_attempts": 5, "initial_backoff": "1s", "jitter": 0.5}, "misfire": {"policy": "skip", "max": 100},
    }  # fmt: skip
    assert as_written(shown) == {
        "name": "x",
        "schedule": {"cron": "@daily"},
        "target": {"kind": "http", "url": "https://e.com"},
        "misfire": {"policy": "skip"},
        "overlap": "skip",
    }
