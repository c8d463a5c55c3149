"""What happens to the installation itself is seen: a node killed, the database away, the end."""

import os
import shutil
import signal
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect

from tests.browser.conftest import look, settled
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
    expect(page.locator(f'.shard[data-owner="{victim["id"]}"]')).to_have_count(0, timeout=40_000)
    print(f"all tiles of a killed node have other owners after {time.monotonic() - killed:.1f} s (budget 12)")
    taken = page.locator(".shard").nth(int(number))
    expect(taken).to_have_attribute("data-epoch", str(epoch + 1))
    expect(page.locator(".strip")).to_contain_text(f"{victim['name']} lost")
    keep(page, "fleet")


def test_every_page_keeps_its_data_while_the_database_is_away_and_recovers_by_itself(
    operators: BrowserContext, fleet: Fleet
) -> None:
    page, served = operators.new_page(), fleet.served
    job = served.api.create(name="survivor", schedule={"every": "1h"})
    served.api.wait_for(served.api.create(name="done", schedule={"now": True}), "succeeded")
    look(page, served, f"/jobs/{job['id']}")
    pages = page.get_by_role("navigation").get_by_role("link")
    names = pages.all_inner_texts()
    before = {name: _seen(page, name) for name in names}
    apart(fleet.database.stop())
    expect(page.locator(".banner")).to_contain_text("since", timeout=20_000)
    for name in names:
        assert _seen(page, name) == before[name], name
        expect(page.locator(".banner")).to_be_visible()
        expect(page.locator(".age").first).to_contain_text("as it was")
    apart(fleet.database.start())
    back = time.monotonic()
    expect(page.locator(".banner")).to_have_count(0, timeout=30_000)
    print(f"pages are well again {time.monotonic() - back:.1f} s after the database (budget 5)")
    expect(page.locator(".age")).to_have_count(0, timeout=15_000)
    page.get_by_role("navigation").get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("link", name="survivor")).to_be_visible()


def _seen(page: Page, name: str) -> tuple[str, int]:
    """A page by its title and how many things its tables and lists show; figures in it may grow."""
    page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()
    settled(page)
    return page.locator("h1").inner_text(), page.locator(
        "main :is(tbody tr, .tile, .shard, .lane-names li)"
    ).count()


def test_open_tabs_do_not_hold_up_the_end_of_the_process(operators: BrowserContext, fleet: Fleet) -> None:
    tabs = [operators.new_page() for _ in range(3)]
    for tab in tabs:
        look(tab, fleet.served, "/queues")
        expect(tab.locator("button.live")).to_contain_text("live", timeout=20_000)
    process = fleet.served.process
    process.terminate()
    asked = time.monotonic()
    assert process.wait(60) == 0, process.last_words()
    print(f"the process ended {time.monotonic() - asked:.1f} s after it was told to, with three tabs open")
    assert "graceful shutdown exceeded" not in process.output(), (
        "a stream was waited for until its time was up"
    )
