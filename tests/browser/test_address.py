"""Every state of a page is in its address."""

import re
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser.conftest import ZONE, look, settled, until
from tests.browser.served import Served

# What a page can be narrowed, sorted or turned to: fields to fill, choices to make, buttons to press, and the
# address after.
Steps = dict[str, Any]
PAGES: dict[str, Steps] = {
    "/": {"choose": {"queue": "addressed"}, "press": ["6h"], "is": {"span": "6h", "queue": "addressed"}},
    "/fires": {
        "fill": {"name contains …": "a", "queue": "default", "tag": "none"},
        "choose": {"kind": "recurring"},
        "press": ["24h"],
        "is": {"name": "a", "queue": "default", "tag": "none", "kind": "recurring", "span": "24h"},
    },
    "/jobs": {
        "fill": {"Find jobs": 'queue:default tag:none "a b"'},
        "choose": {"kind": "recurring", "sort": "next_fire"},
        "press": ["did not run", "active"],
        "is": {
            "name": "a b", "queue": "default", "tag": "none", "state": "active", "kind": "recurring", "sort": "next_fire",
            "overdue": "true",
        },
    },
    "/executions": {
        "fill": {"Find executions": "queue:default error:503 cause:manual nightly"},
        "choose": {"late at least": "1s", "fired within": "6h"},
        "press": ["dead"],
        "is": {
            "queue": "default", "error": "503", "cause": "manual", "job_name": "nightly", "min_lag": "1s", "fired": "6h",
            "state": "dead",
        },
    },
    "/dead-letters": {
        "fill": {"Find dead letters": "queue:default 404"},
        "is": {"error": "404", "queue": "default"},
    },
    "/operations": {"choose": {"state": "paused"}, "is": {"state": "paused"}},
    "/alerts": {"choose": {"state": "firing"}, "is": {"state": "firing"}},
    "/workers": {"check": ["also those that are gone"], "is": {"all": "true"}},
    "/audit": {
        "fill": {"job_…, tenant:acme, key:…": "job_x", "key id": "abc"},
        "choose": {"action": "job.create"},
        "is": {"object": "job_x", "actor": "abc", "action": "job.create"},
    },
}  # fmt: skip


def test_filters_sorts_spans_and_the_zone_survive_reload_back_and_a_copied_address_in_another_browser(
    logged_in: Page, served: Served, browser: Browser, administrator: StorageState
) -> None:
    page = logged_in
    served.api.wait_for(served.api.create(schedule={"now": True}, queue="addressed"), "succeeded")
    other = browser.new_context(timezone_id=ZONE, storage_state=administrator)
    elsewhere = other.new_page()
    for path, steps in PAGES.items():
        look(page, served, path)
        _turn(page, steps)
        for name, value in (steps["is"] | {"zone": "UTC"}).items():
            expect(page).to_have_url(_with(name, value))
        page.evaluate(DRAWN)
        there, address = _shown(page), page.url
        page.reload()
        _shows(page, there, "after a reload")
        assert page.url == address
        page.get_by_role("navigation").get_by_role("link", name="Calendars").click()
        expect(page.get_by_role("heading", name="Calendars", exact=True)).to_be_visible()
        page.go_back()
        _shows(page, there, "after going back")
        assert page.url == address
        elsewhere.goto(address)
        _shows(elsewhere, there, "in another browser")
    other.close()


def _turn(page: Page, steps: Steps) -> None:
    """Use the controls of a page."""
    for label, text in steps.get("fill", {}).items():
        page.get_by_label(label, exact=True).fill(text)
    for label, value in steps.get("choose", {}).items():
        page.get_by_label(label, exact=True).select_option(value)
    for label in steps.get("check", ()):
        page.get_by_label(label).check()
    for name in steps.get("press", ()):
        page.locator("main").get_by_role("button", name=name, exact=True).click()
    page.get_by_label("Time zone").select_option("UTC")


def test_tabs_days_ranges_of_time_and_the_tenant_are_in_the_address(logged_in: Page, served: Served) -> None:
    page = logged_in
    job = served.api.create(name="addressed", schedule={"cron": "0 9 * * *", "time_zone": "Asia/Tokyo"})
    look(page, served, f"/jobs/{job['id']}")
    for tab in ("calendar", "upcoming", "definition", "changes"):
        page.get_by_role("tab", name=tab).click()
        page.reload()
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="calendar").click()
    page.locator("button.day.today").click()
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.reload()
    expect(page.locator(".hours li")).to_have_count(24)
    expect(page.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    look(page, served, "/fires")
    page.get_by_role("button", name="earlier").click()
    page.get_by_role("tab", name="load").click()
    page.get_by_role("tab", name="lanes").click()
    begin = parse_qs(urlsplit(page.url).query)["from"]
    page.reload()
    settled(page)
    assert parse_qs(urlsplit(page.url).query)["from"] == begin
    served.tenant("addressed")
    look(page, served, "/jobs")
    page.get_by_label("Tenant").select_option("addressed")
    expect(page).to_have_url(_with("tenant", "addressed"))
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Executions").click()
    expect(page).to_have_url(_with("tenant", "addressed"))


def _with(name: str, value: str) -> re.Pattern[str]:
    """An address that has this among its parameters."""
    return re.compile(rf"[?&]{name}={re.escape(quote_plus(value))}(&|$)")


def _shows(page: Page, wanted: Any, when: str) -> None:
    """Wait until all controls stand at what they stood at: some are set just after the page is there."""
    settled(page)
    until(page, lambda: _shown(page) == wanted, f"{when} {_shown(page)} instead of {wanted}", seconds=10)


# What follows the address is drawn a frame or two after it has changed.
DRAWN = """async () => {
    for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done, 150));
}"""


def _shown(page: Page) -> Any:
    """What all controls of the page stand at."""
    return page.evaluate(
        """() => [...document.querySelectorAll('main :is(input, select), main [aria-pressed], main [role=tab], .zone')].map(
            (e) => [e.getAttribute('aria-label') ?? e.textContent,
                    e.type === 'checkbox' ? e.checked : e.value || e.getAttribute('aria-pressed') || e.getAttribute('aria-selected')])"""
    )
