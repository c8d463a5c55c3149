"""What happens to the installation itself is seen: a node killed, the database away, the end."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect

from tests.browser.budgets import hold, most
from tests.browser.conftest import follow, look, settled
from tests.browser.pictures import keep
from tests.browser.served import Served, apart, serving
from tests.support.postgres import temporary_directory
from tocsin.db.embedded import EmbeddedServer


class Fleet:
    """Three engines and an API beside a database that can be stopped, and a browser that is logged in
    there."""

    def __init__(self, served: Served, database: EmbeddedServer, state: StorageState) -> None:
        self.served = served
        self.database = database
        self.state = state


@pytest.fixture(scope="module")
def fleet(browser: Browser) -> Iterator[Fleet]:
    directory = temporary_directory()
    database = EmbeddedServer(directory / "pg")
    apart(database.start())
    with serving(directory, "--database-url", database.url, engines=3) as served:
        context = browser.new_context()
        context.new_page().goto(served.link())
        context.pages[0].get_by_role("heading", name="Overview").wait_for()
        state = context.storage_state()
        context.close()
        yield Fleet(served, database, state)
    apart(database.stop())
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def operators(browser: Browser, fleet: Fleet) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, storage_state=fleet.state)
    yield context
    context.close()


def test_the_tiles_of_a_killed_node_get_other_owners_with_the_next_epoch_and_the_strip_says_so(
    operators: BrowserContext, fleet: Fleet
) -> None:
    page, served = operators.new_page(), fleet.served
    look(page, served, "/fleet")
    nodes = page.locator("tbody tr", has=page.locator(".swatch"))
    expect(nodes).to_have_count(3, timeout=30_000)
    victim = max(served.api.get("/v1/nodes").json()["items"], key=lambda node: node["shards"])
    tile = page.locator(f'.shard[data-owner="{victim["id"]}"]').first
    tile.wait_for(timeout=10_000)
    number = tile.locator("small").inner_text()
    epoch = int(tile.get_attribute("data-epoch") or 0)
    os.kill(int(victim["name"].rpartition(":")[2]), signal.SIGKILL)
    killed = time.monotonic()
    expect(page.locator(f'.shard[data-owner="{victim["id"]}"]')).to_have_count(0, timeout=most(12) * 1000)
    hold("all tiles of a killed node have other owners", time.monotonic() - killed, 12, "s")
    taken = page.locator(".shard").nth(int(number))
    expect(taken).to_have_attribute("data-epoch", str(epoch + 1))
    expect(page.locator(".strip")).to_contain_text(f"{victim['name']} lost")
    keep(page, "fleet")


def test_every_page_keeps_its_data_while_the_database_is_away_and_recovers_by_itself(
    operators: BrowserContext, fleet: Fleet
) -> None:
    page, served = operators.new_page(), fleet.served
    job = served.api.create(name="survivor", schedule={"every": "1h"})
    done = served.api.wait_for(served.api.create(name="done", schedule={"now": True}), "succeeded")
    pause = {"do": "pause", "of": "jobs", "ids": [job["id"]], "reason": "to be seen"}
    operation = served.api.post("/v1/operations", pause).json()["operation"]["id"]
    look(page, served, f"/operations/{operation}")
    expect(page.locator("h1 .state")).to_contain_text("completed")
    single = (
        f"/jobs/{job['id']}",
        f"/executions/{done['id']}",
        "/queues/default",
        f"/operations/{operation}",
    )
    names = [*page.get_by_role("navigation").get_by_role("link").all_inner_texts(), *single]
    before = {name: _seen(page, name) for name in names}
    apart(fleet.database.stop())
    expect(page.locator(".banner")).to_contain_text("since", timeout=20_000)
    for name in names:
        assert _seen(page, name) == before[name], name
        expect(page.locator(".banner")).to_be_visible()
        expect(page.locator(".age").first).to_contain_text("as it was")
    apart(fleet.database.start())
    back = time.monotonic()
    expect(page.locator(".banner")).to_have_count(0, timeout=most(5) * 1000)
    hold("pages are well again after the database", time.monotonic() - back, 5, "s")
    expect(page.locator(".age")).to_have_count(0, timeout=15_000)
    page.get_by_role("navigation").get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("link", name="survivor")).to_be_visible()


def _seen(page: Page, name: str) -> tuple[str, int]:
    """A page of the menu, or under an address: its title, and how many things its tables and lists show.
    Figures in it may grow."""
    if name.startswith("/"):
        follow(page, name)
    else:
        page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()
    settled(page)
    return page.locator("h1").inner_text(), page.locator(
        "main :is(tbody tr, .tile, .shard, .lane-names li, dl.facts dt)"
    ).count()


def test_open_tabs_do_not_hold_up_the_end_of_the_process(
    operators: BrowserContext, fleet: Fleet, tmp_path: Path
) -> None:
    with serving(tmp_path, "--database-url", fleet.database.url, engines=3) as unwatched:
        without = _end(unwatched)
    tabs = [operators.new_page() for _ in range(3)]
    for tab in tabs:
        look(tab, fleet.served, "/queues")
        expect(tab.locator("button.live")).to_contain_text("live", timeout=20_000)
    took = _end(fleet.served)
    print(
        f"the process ended {took:.1f} s after it was told to with three tabs open, {without:.1f} s without any"
    )
    hold("by how much three tabs hold up the end of the process", max(0.0, took - without), 1, "s")


def _end(served: Served) -> float:
    """For how long a process goes on after it was told to end, in seconds."""
    asked = time.monotonic()
    served.process.terminate()
    assert served.process.wait(60) == 0, served.process.last_words()
    assert "graceful shutdown exceeded" not in served.process.output(), "a stream was waited for"
    return time.monotonic() - asked
