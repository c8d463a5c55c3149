"""The page follows what happens: with one stream for all tabs, and without moving rows."""

from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import log_in, look, until
from tests.browser.served import Served, batch
from tests.support.processes import wait_for

_SEEN = """() => {
    Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
HIDE, SHOW = _SEEN % "true", _SEEN % "false"


def test_executions_appear_live_without_reload(logged_in: Page, served: Served) -> None:
    job = served.api.create(name="lively", schedule={"every": "1s"}, target=served.echo())
    look(logged_in, served, f"/jobs/{job['id']}")
    ended = logged_in.locator("tbody .state.s-succeeded")
    expect(ended.nth(2)).to_be_visible(timeout=20_000)
    expect(logged_in.locator("button.live")).to_contain_text("live")
    served.api.post(f"/v1/jobs/{job['id']}/cancel")


def test_eight_tabs_share_one_stream_and_a_hidden_one_asks_for_nothing(
    known: BrowserContext, served: Served
) -> None:
    streams: list[str] = []
    known.on("request", lambda asked: streams.append(asked.url) if asked.url.endswith("/v1/events") else None)
    tabs = [known.new_page() for _ in range(8)]
    look(tabs[0], served, "/calendars")
    expect(tabs[0].locator("button.live")).to_contain_text("live")
    for tab in tabs[1:]:
        tab.goto(f"{served.url}/calendars", wait_until="commit")
    for tab in tabs:
        expect(tab.locator("button.live")).to_contain_text("live")
        expect(tab.get_by_role("heading", name="Calendars", exact=True)).to_be_visible()
    assert len(streams) == 1
    tabs[0].close()  # the one that holds the stream: another tab takes it over
    until(tabs[1], lambda: len(streams) == 2, "no tab takes the stream over")
    for tab in tabs[1:]:
        expect(tab.locator("button.live")).to_contain_text("live")
    for tab in tabs[2:]:
        tab.close()
    hidden = known.new_page()
    hidden.clock.install()
    hidden.goto(f"{served.url}/jobs")
    expect(hidden.locator("h1")).to_be_visible()
    hidden.evaluate(HIDE)
    hidden.clock.run_for(1_000)
    asked: list[str] = []
    hidden.on("request", lambda request: asked.append(request.url))
    hidden.clock.run_for(60_000)
    print(f"requests of a hidden tab in 60 s: {len(asked)} (budget 0)")
    assert asked == []


def test_the_last_tab_that_is_hidden_closes_the_stream_and_seen_again_opens_it(
    known: BrowserContext, served: Served
) -> None:
    page = known.new_page()
    page.clock.install()
    closed: list[str] = []
    for event in ("requestfailed", "requestfinished"):
        page.on(event, lambda asked: closed.append(asked.url) if asked.url.endswith("/v1/events") else None)
    look(page, served, "/calendars")
    live = page.locator("button.live")
    expect(live).to_contain_text("live")
    assert closed == []
    page.evaluate(HIDE)
    page.clock.run_for(31_000)
    until(page, lambda: closed, "the stream of a hidden tab stays open")
    page.evaluate(SHOW)
    expect(live).to_contain_text("live")


def test_rows_do_not_move_under_the_pointer_and_stay_selected_while_200_executions_end(
    page: Page, served: Served
) -> None:
    api = served.tenant("pointer")
    for n in range(3):
        api.wait_for(api.create(name=f"before-{n}", **_doomed(served)), "dead")
    log_in(page, served, api.key)
    look(page, served, "/dead-letters")
    letters = page.get_by_role("table", name="Dead letters")
    letters.get_by_label("select", exact=True).nth(1).check()
    row = letters.locator("tbody tr").nth(2)
    row.hover()
    words, place = row.inner_text(), row.bounding_box()
    batch(api, [{"name": f"new-{n}", **_doomed(served)} for n in range(200)])
    expect(page.locator(".waiting")).to_contain_text("new", timeout=15_000)
    wait_for(
        lambda: api.get("/v1/executions/count", state="dead").json()["count"] == 203, 30, "not all ended"
    )
    expect(page.get_by_role("table", name="Kinds of errors")).to_contain_text("203")
    now = row.bounding_box()
    assert place is not None
    assert now is not None
    assert abs(now["y"] - place["y"]) <= 1
    assert row.inner_text().split("\t")[:3] == words.split("\t")[:3]
    expect(page.get_by_text("1 selected")).to_be_visible()
    expect(letters.locator("tbody tr").nth(1).get_by_label("select")).to_be_checked()
    page.locator(".waiting").click()
    expect(letters.locator("tbody tr").first).to_contain_text("new-")
    expect(page.get_by_text("1 selected")).to_be_visible()


def test_a_tag_in_a_row_narrows_the_list_under_the_pointer_and_takes_the_selection_back(
    page: Page, served: Served
) -> None:
    api = served.tenant("tagged")
    for name, tags in (("one", ["rare"]), ("two", []), ("three", [])):
        api.create(name=name, tags=tags, schedule={"every": "1h"})
    log_in(page, served, api.key)
    look(page, served, "/jobs")
    rows = page.get_by_role("table", name="Jobs").locator("tbody tr")
    rows.first.get_by_label("select").check()
    rows.last.get_by_label("select").click(modifiers=["Shift"])
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("button", name="rare", exact=True).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("one")
    expect(page.get_by_text("selected")).to_have_count(0)
    page.go_back()
    expect(rows).to_have_count(3)


def _doomed(served: Served) -> dict[str, Any]:
    return {
        "schedule": {"now": True},
        "target": served.echo("?status=404"),
        "retry": {"max_attempts": 1},
    }
