"""A newcomer: the printed link, one button, a first job that fires; then one that fails, and its replay."""

from playwright.sync_api import BrowserContext, Page, expect

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
    page.goto(served.link(served.key("read", "write", tenant="newcomer")["text"]))
    page.get_by_role("button", name="Create the first job").click()
    expect(page.get_by_role("heading", name="first-job")).to_be_visible()
    page.locator("tbody .state.s-succeeded").first.click(timeout=10_000)
    page.locator("summary").filter(has_text="succeeded").click()
    expect(page.locator(".json")).to_contain_text("tocsin-attempt")
    expect(page.locator(".json")).to_contain_text("from Tocsin")

    page.get_by_role("link", name="first-job").click()
    page.get_by_role("button", name="let one fail").click()
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
