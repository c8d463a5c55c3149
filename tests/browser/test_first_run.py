"""A newcomer: the printed link, one button, a first job that fires; then one that fails, and its replay."""

import os
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.budgets import hold, most
from tests.browser.conftest import log_in
from tests.browser.served import Served


def test_the_printed_link_logs_in_once_and_leaves_no_trace_in_the_address(
    page: Page, context: BrowserContext, served: Served
) -> None:
    link = served.printed_link()
    page.goto(link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert "ticket" not in page.url
    context.clear_cookies()
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("used already")
    expect(page.get_by_label("API key")).to_be_visible()
    page.goto(served.link())  # where the page is open already only the part behind `#` changes
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_by_clicks_alone_a_first_job_fires_then_one_fails_and_is_replayed(page: Page, served: Served) -> None:
    link = served.link(served.key("read", "write", tenant="newcomer")["text"])
    began = time.monotonic()
    page.goto(link)
    page.get_by_role("button", name="Create the first job").click()
    expect(page.get_by_role("heading", name="first-job")).to_be_visible()
    page.locator("tbody .state.s-succeeded").first.click(timeout=most(10) * 1000)
    hold("from the first page to the first execution that succeeded", time.monotonic() - began, 10, "s")
    page.locator("summary").filter(has_text="succeeded").click()
    expect(page.locator(".json")).to_contain_text("tocsin-attempt")
    expect(page.locator(".json")).to_contain_text("from Tocsin")

    page.get_by_role("link", name="first-job").click()
    expect(page.get_by_role("heading", name="It works. What next?")).to_be_visible()
    page.get_by_role("button", name="Let one fail").click()
    expect(page.get_by_role("heading", name="failing-job")).to_be_visible()
    page.locator("tbody .state.s-dead").first.click(timeout=20_000)
    expect(page.locator(".gantt .k-failed")).to_have_count(3)
    expect(page.locator(".gantt .k-backoff")).to_have_count(2)
    expect(page.locator(".why")).to_contain_text("503")

    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("row", name="failing-job").get_by_label("select").check()
    page.get_by_role("button", name="Replay…").last.click()
    page.get_by_role("dialog").get_by_role("button", name="Replay 1").click()
    expect(page.get_by_role("heading", name="retry 1 dead letters")).to_be_visible()


def test_a_pasted_line_of_a_crontab_is_previewed_before_it_becomes_a_job(page: Page, served: Served) -> None:
    api = served.tenant("from-crontab")
    log_in(page, served, api.key)
    paste = page.get_by_label("From your crontab: paste a line")
    preview = page.get_by_role("button", name="Preview", exact=True)
    paste.fill("not a line of a crontab")
    preview.click()
    expect(page.get_by_role("alert")).to_contain_text("five fields")
    paste.fill(
        f"CRON_TZ=Asia/Tokyo\n30 2 * * 1-5 curl -fsS -X PUT -d '{{\"n\": 1}}' {served.url}/v1/echo >/dev/null"
    )
    preview.click()
    expect(page.get_by_text("nothing is created yet")).to_be_visible()
    expect(page.locator(".explained")).to_contain_text("02:30")
    assert api.get("/v1/jobs").json()["items"] == []
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="echo")).to_be_visible()
    job = api.get("/v1/jobs").json()["items"][0]
    assert job["schedule"] | {"cron": "30 2 * * 1-5", "time_zone": "Asia/Tokyo"} == job["schedule"]
    assert (job["target"]["method"], job["target"]["body"]) == ("PUT", {"n": 1})


def test_the_first_job_written_in_python_or_a_shell_is_the_button_s(page: Page, served: Served) -> None:
    api = served.tenant("from-code")
    log_in(page, served, api.key)
    for kind, run in (("curl", ["bash", "-c"]), ("CLI", ["bash", "-c"]), ("Python", [sys.executable, "-c"])):
        code = page.locator(".first").get_by_role("button", name=kind, exact=True).get_attribute("title")
        given = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TOCSIN_URL": served.url, "TOCSIN_API_KEY": api.key, "HOME": "/tmp",
        }  # fmt: skip
        done = subprocess.run([*run, code or ""], env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (code, done.stderr)
        job = api.get("/v1/jobs", name="first-job").json()["items"][0]
        assert job["schedule"]["every"] == "5s", kind
        assert job["target"]["url"] == f"{served.url}/v1/echo", kind
        api.call("DELETE", f"/v1/jobs/{job['id']}")
