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


def test_ten_actions_copied_as_curl_or_cli_do_in_a_shell_what_the_button_does(
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
