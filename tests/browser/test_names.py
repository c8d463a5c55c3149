"""Names are shown as text and linked rightly, whatever is in them."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in, look
from tests.browser.served import Served
from tests.support.processes import wait_for

NAMES = (
    "a/b?c#d%2Fe/../f",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "🔔 tocsin 🚒",
    "long-" + "x" * 195,
    "مرحبا بالعالم",
)


def test_names_are_text_and_lead_to_their_things_everywhere(page: Page, served: Served) -> None:
    api = served.tenant("names")
    dead = {"target": served.echo("?status=404"), "retry": {"max_attempts": 1}}
    jobs = {name: api.create(schedule={"every": "1h"}, name=name, description=name, **dead) for name in NAMES}
    for job in jobs.values():
        api.post(f"/v1/jobs/{job['id']}/run")
    wait_for(
        lambda: api.get("/v1/executions/count", state="dead").json()["count"] == len(NAMES),
        30,
        "not all are dead",
    )
    log_in(page, served, api.key)
    page.on("dialog", lambda _: pytest.fail("a name was run as a script"))
    for path in ("/", "/jobs", "/executions", "/dead-letters", "/fires"):
        look(page, served, path)
        for name, job in jobs.items():
            link = page.locator(f"main a[href='/jobs/{job['id']}']").first
            expect(link).to_have_text(re.compile(re.escape(name)))
    for path in ("/jobs", "/fires"):
        for name in NAMES:
            look(page, served, path)
            page.locator("main").get_by_role("link", name=name, exact=True).first.click()
            expect(page.locator("h1")).to_contain_text(name)
    for name in NAMES:
        page.keyboard.press("Control+k")
        page.keyboard.insert_text(name[:20])
        page.get_by_role("option", name=name, exact=False).first.click()
        expect(page.locator("h1")).to_contain_text(name)
        expect(page.locator(".facts")).to_contain_text(name)
    look(page, served, "/jobs")
    page.get_by_role("button", name="select all that match").click()
    page.get_by_role("button", name="Delete…").click()
    for name in NAMES:
        expect(page.locator(".consequence")).to_contain_text(name)
    expect(page.locator("main :is(img, script)")).to_have_count(0)
