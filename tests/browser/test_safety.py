"""What a browser holds, what it may, and when that ends."""

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.served import Served


def test_nothing_that_logs_in_is_in_reach_of_scripts(logged_in: Page, context: BrowserContext) -> None:
    assert logged_in.evaluate("document.cookie") == ""
    stored = logged_in.evaluate("JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
    cookies = context.cookies()
    assert {cookie["name"] for cookie in cookies} >= {"__Host-tocsin"}
    for cookie in cookies:
        assert cookie["httpOnly"]
        assert cookie["value"] not in stored + logged_in.url


def test_a_foreign_page_gets_nothing_done(logged_in: Page, served: Served) -> None:
    asked = """async (url) => (await fetch(url + '/v1/jobs', {method: 'POST', headers: {'Content-Type': 'application/json'},
        body: JSON.stringify({schedule: {now: true}, target: {kind: 'noop'}})})).status"""
    assert logged_in.evaluate(asked, served.url) == 403, "without our header, even from our own page"


def test_revoking_the_key_logs_the_page_out_by_itself(page: Page, served: Served) -> None:
    made = served.key("read", "write")
    page.goto(served.link(made["text"]))
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    served.api.post(f"/v1/keys/{made['key']['id']}/revoke")
    expect(page.get_by_label("API key")).to_be_visible(timeout=12_000)


def test_a_key_logs_in_and_is_forgotten_by_the_page(page: Page, served: Served) -> None:
    key = served.key("read")["text"]
    page.goto(f"{served.url}/jobs")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert key not in page.content()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_key_that_may_only_read_sees_no_acting_buttons(page: Page, served: Served) -> None:
    job = served.api.create(name="only-seen", schedule={"every": "1h"})
    page.goto(served.link(served.key("read")["text"]))
    page.get_by_role("heading", name="Overview").wait_for()
    page.goto(f"{served.url}/jobs/{job['id']}")
    expect(page.get_by_role("heading", name="only-seen")).to_be_visible()
    for name in ("Run now", "Pause…", "Cancel…", "Delete…", "Skip next"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.goto(f"{served.url}/jobs")
    expect(page.get_by_role("link", name="only-seen")).to_be_visible()
    expect(page.get_by_role("link", name="New job")).to_have_count(0)


def test_another_tenants_things_are_not_found_on_any_page(browser: Browser, served: Served) -> None:
    job = served.api.create(name="owners-secret-job", schedule={"every": "1h"})
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.link(served.key("read", "write", tenant="stranger")["text"]))
    page.get_by_role("heading", name="Overview").wait_for()
    for path in ("/", "/jobs", "/executions", "/dead-letters"):
        page.goto(served.url + path)
        page.locator("h1").wait_for()
        expect(page.get_by_text("owners-secret-job")).to_have_count(0)
    page.goto(f"{served.url}/jobs/{job['id']}")
    expect(page.get_by_role("alert")).to_contain_text("nothing under this address")
    context.close()


def test_names_are_shown_as_text_whatever_is_in_them(logged_in: Page, served: Served) -> None:
    name = "<img src=x onerror=alert(1)> a/b?c#d 🔔 مرحبا"
    served.api.create(name=name, schedule={"every": "1h"})
    logged_in.goto(f"{served.url}/jobs?name=onerror")
    link = logged_in.get_by_role("link", name=name)
    expect(link).to_be_visible()
    link.click()
    expect(logged_in.locator("h1")).to_contain_text(name)
    expect(logged_in.locator("main img")).to_have_count(0)
