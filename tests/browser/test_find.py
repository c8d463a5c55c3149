"""Finding and acting by keyboard alone, also among very many jobs."""

import os
import re
import time

from playwright.sync_api import Locator, Page, expect

from tests.browser.budgets import hold
from tests.browser.conftest import log_in, look
from tests.browser.served import Served, batch

MANY = int(os.environ.get("TOCSIN_MANY_JOBS", "2000"))


def test_three_letters_of_a_name_find_it_among_many_jobs_and_a_pasted_id_opens_it(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    schedule, target = {"cron": "0 0 1 1 *"}, {"kind": "noop"}
    batch(
        served.api,
        [{"name": f"bulk-{n:07d}", "schedule": schedule, "target": target} for n in range(MANY)],
    )
    job = served.api.create(name="xyzzy-needle", schedule={"every": "1h"}, target=target)
    execution = served.api.post(f"/v1/jobs/{job['id']}/run").json()
    look(page, served, "/queues")
    page.keyboard.press("Control+k")
    started = time.monotonic()
    page.keyboard.type("xyz")
    expect(page.get_by_role("option", name="xyzzy-needle")).to_be_visible(timeout=30_000)
    hold(f"three letters among {MANY:,} jobs", (time.monotonic() - started) * 1000, 500)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type(execution["id"])
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.url}/executions/{execution['id']}")


def test_a_search_in_qualified_words_completes_them_and_states_show_their_counts(
    page: Page, served: Served
) -> None:
    api = served.tenant("qualified")
    for name, queue in (("nightly-mail", "mail"), ("nightly-report", "reports"), ("hourly-mail", "mail")):
        api.create(name=name, schedule={"every": "1h"}, queue=queue)
    api.post(f"/v1/jobs/{api.create(name='held', schedule={'every': '1h'}, queue='mail')['id']}/pause")
    api.create(name="once", schedule={"now": True}, queue="mail")  # a queue is known by what went through it
    log_in(page, served, api.key)
    look(page, served, "/jobs")
    states = page.get_by_role("group", name="State")
    expect(states.get_by_role("button", name="active")).to_contain_text("3")
    expect(states.get_by_role("button", name="paused")).to_contain_text("1")
    page.keyboard.press("/")
    page.keyboard.type("qu")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("m")
    expect(page.get_by_role("option", name="queue:mail")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("nightly")
    expect(page).to_have_url(re.compile("queue=mail&name=nightly"))
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("link", name="nightly-mail")).to_be_visible()
    expect(states.get_by_role("button", name="active")).to_contain_text("1")


def test_create_find_pause_resume_and_replay_go_without_a_pointer(logged_in: Page, served: Served) -> None:
    page = logged_in
    look(page, served, "/queues")
    _find(page, "New job")
    _tab_to(page, page.get_by_label("Name"))
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="by-keyboard")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    _find(page, "by-keyboard")
    expect(page.get_by_role("heading", name="by-keyboard")).to_be_visible()
    page.keyboard.press("s")
    _tab_to(page, page.get_by_label("Why?"))
    page.keyboard.type("to try")
    page.keyboard.press("Enter")
    expect(page.locator("h1 .state.s-paused")).to_be_visible()
    page.keyboard.press("s")
    expect(page.locator(".consequence")).to_be_visible()
    _tab_to(page, page.get_by_role("button", name="Resume", exact=True))
    page.keyboard.press("Enter")
    expect(page.locator("h1 .state.s-active")).to_be_visible()

    dead = served.api.create(
        name="fails-once", schedule={"now": True}, queue="keyboard", target=served.echo("?status=404"))  # fmt: skip
    served.api.wait_for(dead, "dead")
    look(page, served, "/dead-letters?queue=keyboard")
    for _ in range(10):
        page.keyboard.press("j")
        if page.locator("tr:focus", has_text="fails-once").count():
            break
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    _tab_to(page, page.locator(".bulk").get_by_role("button", name="Replay…"), back=True)
    page.keyboard.press("Enter")
    replay = page.get_by_role("dialog").get_by_role("button", name="Replay 1")
    expect(replay).to_be_enabled()
    _tab_to(page, replay)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="retry 1 dead letters")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()


def test_keys_run_pause_and_explain_the_job_of_a_row(page: Page, served: Served) -> None:
    api = served.tenant("rows")
    job = api.create(name="by-row", schedule={"every": "1h"}, target={"kind": "noop"})
    log_in(page, served, api.key)
    look(page, served, "/jobs")
    page.keyboard.press("j")
    expect(page.locator("tr:focus")).to_contain_text("by-row")
    page.keyboard.press("r")
    expect(page.get_by_role("status")).to_contain_text("by-row fired")
    api.wait_for(job, "succeeded")
    page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Pause by-row")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("tbody .s-succeeded").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("e")
    expect(page.locator("h1 .state.s-succeeded")).to_be_visible()
    page.keyboard.press("e")
    expect(page.locator(".why")).to_be_focused()


def _find(page: Page, words: str) -> None:
    """Open the palette, type, and take what it finds."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    expect(page.get_by_role("option", name=words).first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")


def _tab_to(page: Page, wanted: Locator, *, back: bool = False) -> None:
    """Press Tab until something has the focus, as everybody without a pointer has to."""
    wanted.wait_for()
    for _ in range(60):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
    raise AssertionError(f"Tab does not lead to {wanted}")
