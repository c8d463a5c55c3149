"""Every page: in both themes, wide and narrow, live, and under its own address."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.served import Served

PATHS = ("/", "/jobs", "/jobs/new", "/executions", "/dead-letters", "/fleet", "/nope")


def keep(page: Page, name: str) -> None:
    """A picture for the documentation, where a run is asked for them with TOCSIN_SCREENSHOTS."""
    if directory := os.environ.get("TOCSIN_SCREENSHOTS"):
        page.screenshot(path=Path(directory) / f"{name}.png")


@pytest.mark.parametrize("width", [1280, 768, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_is_wider_than_its_window_or_complains(
    logged_in: Page, served: Served, theme: str, width: int
) -> None:
    job = served.api.create(name=f"{theme}-{width}", schedule={"every": "1h"})
    logged_in.evaluate("theme => localStorage.setItem('theme', theme)", theme)
    logged_in.set_viewport_size({"width": width, "height": 800})
    for path in (*PATHS, f"/jobs/{job['id']}", f"/jobs/{job['id']}/edit", f"/jobs/{job['id']}?tab=upcoming"):
        logged_in.goto(served.url + path)
        logged_in.locator("h1, .empty").first.wait_for()
        assert logged_in.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_a_filter_is_in_the_address_and_survives_reload_back_and_another_browser(
    logged_in: Page, served: Served, browser: Browser
) -> None:
    for name in ("alpha-report", "beta-report", "gamma"):
        served.api.create(name=name, schedule={"every": "1h"})
    page = logged_in
    page.goto(f"{served.url}/jobs")
    page.get_by_label("name contains …").fill("report")
    expect(page).to_have_url(re.compile("name=report"))
    expect(page.get_by_role("link", name="gamma")).to_have_count(0)
    expect(page.get_by_role("link", name="alpha-report")).to_be_visible()
    expect(page.get_by_role("button", name="CLI")).to_have_attribute(
        "title", "tocsin jobs list --name report"
    )
    page.reload()
    expect(page.get_by_role("link", name="beta-report")).to_be_visible()
    expect(page.get_by_role("link", name="gamma")).to_have_count(0)
    page.get_by_role("link", name="beta-report").click()
    expect(page.get_by_role("heading", name="beta-report")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("name contains …")).to_have_value("report")
    other = browser.new_context()
    second = other.new_page()
    second.goto(served.link())
    second.get_by_role("heading", name="Overview").wait_for()
    second.goto(page.url)
    expect(second.get_by_role("link", name="alpha-report")).to_be_visible()
    expect(second.get_by_role("link", name="gamma")).to_have_count(0)
    other.close()


def test_an_empty_list_and_a_list_that_a_filter_empties_say_different_things(
    page: Page, served: Served
) -> None:
    page.goto(served.link(served.key("read", "write", tenant="empty")["text"]))
    page.get_by_role("heading", name="Overview").wait_for()
    page.goto(f"{served.url}/jobs")
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    page.goto(f"{served.url}/jobs?name=nothing-like-it")
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(page.get_by_text("No jobs yet")).to_be_visible()


def test_executions_appear_live_without_reload(logged_in: Page, served: Served) -> None:
    job = served.api.create(name="lively", schedule={"every": "1s"}, target=served.echo())
    logged_in.goto(f"{served.url}/jobs/{job['id']}")
    ended = logged_in.locator("tbody .state.s-succeeded")
    expect(ended.nth(2)).to_be_visible(timeout=20_000)
    expect(logged_in.get_by_role("button", name="live")).to_be_visible()
    keep(logged_in, "job")
    served.api.post(f"/v1/jobs/{job['id']}/cancel")


def test_an_execution_that_fails_twice_shows_three_attempts_and_two_gaps(
    logged_in: Page, served: Served
) -> None:
    job = served.api.create(
        name="flaky", schedule={"now": True}, target=served.echo("?fail_first=2"),
        retry={"max_attempts": 4, "initial_backoff": "1s", "jitter": 0},
    )  # fmt: skip
    execution = served.api.executions(job)[0]
    logged_in.goto(f"{served.url}/executions/{execution['id']}")
    expect(logged_in.locator("h1 .state.s-succeeded")).to_be_visible(timeout=20_000)
    expect(logged_in.locator(".gantt .k-failed")).to_have_count(2)
    expect(logged_in.locator(".gantt .k-succeeded")).to_have_count(1)
    expect(logged_in.locator(".gantt .k-backoff")).to_have_count(2)
    keep(logged_in, "execution")


def test_the_editor_shows_words_fires_and_what_each_rule_does_when_clocks_change(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    page.goto(f"{served.url}/jobs/new")
    page.get_by_label("minute · hour · day · month · weekday").fill("30 2 * * *")
    page.get_by_label("zone", exact=True).fill("Europe/Berlin")
    preview = page.locator(".preview")
    expect(preview).to_contain_text("at 02:30 every day (Europe/Berlin)")
    expect(preview.locator(".coming-list li")).to_have_count(10)
    expect(preview.locator(".warning").first).to_contain_text("clocks in Europe/Berlin")
    expect(preview.locator(".dst td")).to_have_count(3)
    keep(page, "editor")
    page.get_by_label("minute · hour · day · month · weekday").fill("61 * * * *")
    expect(preview.get_by_role("alert")).to_contain_text("minute 61 is out of range")
    page.get_by_label("minute · hour · day · month · weekday").fill("0 0 30 2 *")
    expect(preview.get_by_role("alert")).to_be_visible()


def test_a_job_is_created_changed_paused_and_resumed_with_its_consequence_said_first(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    page.goto(f"{served.url}/jobs/new")
    page.get_by_label("Name").fill("edited-job")
    page.get_by_role("button", name="every", exact=True).click()
    page.get_by_label("every").fill("10m")
    page.get_by_role("button", name="nothing").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="edited-job")).to_be_visible()
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("every").fill("20m")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".facts")).to_contain_text("every 20m")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Why?").fill("vendor is down")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".facts")).to_contain_text("vendor is down")
    page.get_by_role("button", name="Resume…").click()
    expect(page.locator(".consequence")).to_contain_text("runs 0 now, skips 0")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("h1 .state.s-active")).to_be_visible()


def test_everything_is_found_by_keyboard(logged_in: Page, served: Served) -> None:
    job = served.api.create(name="needle-in-the-haystack", schedule={"every": "1h"})
    page = logged_in
    page.keyboard.press("Control+k")
    page.keyboard.type("needle")
    expect(page.get_by_role("option", name="needle-in-the-haystack")).to_be_visible()
    for _ in range(page.get_by_role("option").count() - 1):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="needle-in-the-haystack")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type(job["id"])
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.url}/jobs/{job['id']}")
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page.get_by_role("heading", name="Executions")).to_be_visible()


def test_rows_do_not_move_under_the_pointer(logged_in: Page, served: Served) -> None:
    job = served.api.create(name="restless", schedule={"every": "1s"}, target={"kind": "noop"})
    logged_in.goto(f"{served.url}/jobs/{job['id']}")
    row = logged_in.locator("tbody tr").first
    expect(logged_in.locator("tbody .state.s-succeeded").nth(1)).to_be_visible(timeout=15_000)
    row.hover()
    words, place = row.locator("time").inner_text(), row.bounding_box()
    expect(logged_in.locator(".waiting")).to_contain_text("new", timeout=10_000)
    assert (row.locator("time").inner_text(), row.bounding_box()) == (words, place)
    served.api.post(f"/v1/jobs/{job['id']}/cancel")


def test_many_tabs_share_one_stream(context: Page, served: Served) -> None:
    tabs = [context.new_page() for _ in range(8)]
    streams: list[str] = []
    for tab in tabs:
        tab.on(
            "request",
            lambda request: streams.append(request.url) if request.url.endswith("/v1/events") else None,
        )
    tabs[0].goto(served.link())
    tabs[0].get_by_role("heading", name="Overview").wait_for()
    for tab in tabs[1:]:
        tab.goto(f"{served.url}/jobs")
    for tab in tabs:
        expect(tab.locator("button.live")).to_contain_text("live")
    assert len(streams) == 1


def test_the_overview_tells_what_is_broken(logged_in: Page, served: Served) -> None:
    served.api.create(name="doomed", schedule={"now": True}, target=served.echo("?status=404"))
    expect(logged_in.locator(".tile", has_text="Dead, 24 h").locator("strong")).not_to_have_text(
        "0", timeout=15_000
    )
    keep(logged_in, "overview")
    needs = logged_in.locator(".card", has=logged_in.get_by_role("heading", name="Needs you"))
    needs.get_by_role("link", name="the target answered 404").click()
    expect(logged_in.get_by_role("heading", name="Dead letters")).to_be_visible()
    expect(logged_in.get_by_role("button", name="the target answered 404").first).to_be_visible()
