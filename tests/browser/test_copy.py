""" "As curl" and "as CLI", pasted into a shell, do what the button does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import look
from tests.browser.served import Served
from tests.support.api import RealApi
from tests.support.processes import wait_for


def test_actions_on_jobs_and_queues_copied_as_curl_or_cli_do_in_a_shell_what_the_button_does(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    job = served.api.create(name="copied", schedule={"every": "1h"}, queue="copied", target={"kind": "noop"})
    path = f"/jobs/{job['id']}"

    def state() -> Any:
        return served.api.get(f"/v1{path}").json()["state"]

    look(page, served, "/jobs?name=copied")
    assert job["id"] in _paste(served, page.locator(".foot"), "curl")
    assert "copied" in _paste(served, page.locator(".foot"), "CLI")
    look(page, served, path)
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Why?").fill("it's a test")
    _paste(served, page.get_by_role("dialog"), "curl")
    assert state() == "paused"
    page.reload()
    page.get_by_role("button", name="Resume…").click()
    expect(page.locator(".consequence")).to_be_visible()
    _paste(served, page.get_by_role("dialog"), "CLI")
    assert state() == "active"
    page.reload()
    page.get_by_role("button", name="Backfill…").click()
    expect(page.locator(".consequence")).to_contain_text("would run")
    made = json.loads(_paste(served, page.get_by_role("dialog"), "curl"))
    assert made["total"] >= 23
    look(page, served, "/queues/copied")
    page.get_by_role("button", name="Pause…").click()
    _paste(served, page.get_by_role("dialog"), "CLI")
    assert served.api.get("/v1/queues/copied").json()["paused"] is not None
    page.reload()
    page.get_by_role("button", name="Resume…").click()
    expect(page.locator(".consequence")).to_be_visible()
    _paste(served, page.get_by_role("dialog"), "curl")
    assert served.api.get("/v1/queues/copied").json()["paused"] is None
    look(page, served, "/jobs/new")
    page.get_by_label("Name").fill("made by a shell")
    page.get_by_role("button", name="nothing").click()
    _paste(served, page.locator(".editor"), "CLI")
    assert served.api.get("/v1/jobs", name="made by a shell").json()["items"]
    look(page, served, path)
    for action, verb, after in (("Cancel…", "CLI", "cancelled"), ("Delete…", "curl", None)):
        page.get_by_label("More actions").click()
        page.get_by_role("button", name=action).click()
        _paste(served, page.get_by_role("dialog"), verb)
        if after:
            assert state() == after
            page.reload()
    assert served.api.get(f"/v1{path}").status == 404


def test_what_runs_replays_discards_or_edits_copied_as_curl_or_cli_does_in_a_shell_what_the_button_does(
    logged_in: Page, served: Served
) -> None:
    page, api = logged_in, served.tenant("copying")
    job = api.create(name="copied", schedule={"every": "1h"}, target={"kind": "noop"})
    path = f"/jobs/{job['id']}"
    look(page, served, f"{path}?tenant=copying")
    page.get_by_label("More actions").click()
    actions = page.locator("main .menu")
    _paste(served, actions.get_by_text("Run now as"), "curl")
    assert api.wait_for(job, "succeeded")["cause"] == "manual"
    _paste(served, actions.get_by_text("Skip next as"), "CLI")
    assert api.get(f"/v1{path}").json()["version"] > job["version"]

    look(page, served, f"{path}/edit?tenant=copying")
    page.get_by_label("every", exact=True).fill("2h")
    _paste(served, page.locator(".editor"), "curl")
    assert api.get(f"/v1{path}").json()["schedule"]["every"] == "2h"

    dead = api.create(name="fallen", schedule={"now": True}, target=served.echo("?status=404&fail_first=1"))
    fallen = api.wait_for(dead, "dead")
    look(page, served, f"/executions/{fallen['id']}?tenant=copying")
    again = json.loads(_paste(served, page.get_by_text("Run again as"), "curl"))
    assert again["id"] != fallen["id"]
    _paste(served, page.get_by_text("Retry as"), "CLI")
    wait_for(
        lambda: api.get(f"/v1/executions/{fallen['id']}").json()["state"] == "succeeded",
        30,
        "it is not retried",
    )

    for verb, kind in (("Replay…", "curl"), ("Discard…", "CLI")):
        lost = api.create(schedule={"now": True}, target=served.echo("?status=410&fail_first=1"))
        api.wait_for(lost, "dead")
        look(page, served, "/dead-letters?tenant=copying")
        group = page.get_by_role("table", name="Kinds of errors").locator("tbody tr").filter(has_text="410")
        group.get_by_role("button", name=verb).click()
        expect(page.get_by_role("dialog").locator(".consequence")).to_contain_text("1 dead letters match")
        _paste(served, page.get_by_role("dialog"), kind)
        wait_for(lambda: _left(api) == [], 30, f"{verb} leaves it as it is")


def test_a_key_is_made_rotated_and_revoked_by_what_its_dialogs_copy(logged_in: Page, served: Served) -> None:
    page = logged_in
    look(page, served, "/keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("made by a shell")
    made = json.loads(_paste(served, page.get_by_role("dialog"), "curl"))
    assert (made["key"]["name"], made["key"]["scopes"]) == ("made by a shell", ["read"])
    page.reload()
    row = page.get_by_role("row", name="made by a shell")
    for action, kind in (("Rotate…", "CLI"), ("Revoke…", "curl")):
        row.first.get_by_role("button", name=action).click()
        _paste(served, page.get_by_role("dialog"), kind)
        page.reload()
        expect(row).to_have_count(2)
    expect(page.get_by_role("row", name="revoked")).to_have_count(1)


def _left(api: RealApi) -> Any:
    return api.get("/v1/dead-letters", error="410").json()["items"]


def _paste(served: Served, place: Locator, kind: str) -> str:
    """Run what the button copies, and answer with what it printed."""
    command = place.get_by_role("button", name=kind, exact=True).get_attribute("title")
    assert command
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        "PATH": tools,
        "TOCSIN_API_KEY": served.admin_key,
        "TOCSIN_URL": served.url,
        "HOME": "/tmp",
    }
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout
