"""A real Chromium in front of a real `tocsin serve` with its own database, our policy in force.

One browser and one installation serve all tests; each has a context of its own, and where its data must stand
alone a tenant of its own. Without a browser, or without a built dashboard, these tests are skipped; the last
line of the run says so.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect, sync_playwright

from tests.browser.served import Served, serving
from tests.support.postgres import temporary_directory
from tocsin.dashboard.pages import STATIC

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What costs a headless browser time, and shows nothing that a test looks at.
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-component-update",
    "--mute-audio",
)
WINDOW = {"width": 1280, "height": 860}
ZONE = "Europe/Berlin"
expect.set_options(timeout=15_000)  # other tests run beside these


def chromium() -> str | None:
    """The browser: a named one, else what is installed."""
    named = os.environ.get("TOCSIN_CHROMIUM")
    return named or next((found for name in _NAMES if (found := shutil.which(name))), None)


def why_not() -> str | None:
    """What is missing for these tests, if anything is."""
    if chromium() is None:
        return "no Chromium: install one, or name it with TOCSIN_CHROMIUM"
    return None if (STATIC / "manifest.json").exists() else "the dashboard is not built: python3 web/build.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    missing = why_not()
    for item in items:
        if missing and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="package")
def served() -> Iterator[Served]:
    directory = temporary_directory()
    with serving(directory) as served:
        yield served
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Open no longer than the tests of this folder run: Playwright keeps an event loop, beside which no other
    can run."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(_QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def administrator(browser: Browser, served: Served) -> StorageState:
    """What a browser keeps after the administrator logged in: later contexts begin with it instead of a login
    each."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.link())
    page.get_by_role("heading", name="Overview").wait_for()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser of somebody who is not logged in."""
    yield from _context(browser)


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that nobody is logged in on."""
    yield from watched(context)


@pytest.fixture
def known(browser: Browser, administrator: StorageState) -> Iterator[BrowserContext]:
    """A browser of the administrator."""
    yield from _context(browser, administrator)


@pytest.fixture
def logged_in(known: BrowserContext) -> Iterator[Page]:
    """A page of the administrator's, with nothing on it yet."""
    yield from watched(known)


def _context(browser: Browser, state: StorageState | None = None) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=WINDOW, timezone_id=ZONE, storage_state=state)  # type: ignore[arg-type]
    context.set_default_timeout(15_000)
    yield context
    context.close()


def watched(context: BrowserContext) -> Iterator[Page]:
    """A page whose console must stay silent: no error, no violation of the policy. Refused requests are said
    apart."""
    page = context.new_page()
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
    yield page
    meant = re.compile(r"Failed to load resource: .*(401|403|404|409|412|422|429|503|ERR_)")
    assert [words for words in trouble if not meant.search(words)] == []


def look(page: Page, served: Served, path: str = "/") -> None:
    """Go to a page, and wait until its data are there."""
    page.goto(served.url + path)
    settled(page)


def settled(page: Page) -> None:
    """Wait until the data of a page are there."""
    page.locator("main :is(h1, .empty, .trouble)").first.wait_for()
    expect(page.locator(".skeleton")).to_have_count(0, timeout=20_000)


def log_in(page: Page, served: Served, key: str) -> None:
    """As the holder of a key."""
    page.goto(served.link(key))
    page.get_by_role("heading", name="Overview").wait_for()


def until(page: Page, condition: Callable[[], object], words: str, seconds: float = 30) -> None:
    """Wait until something holds that no locator can tell; the page goes on meanwhile."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, words
        page.wait_for_timeout(100)


def follow(page: Page, path: str) -> None:
    """Go on as a link does: without loading the page anew."""
    page.evaluate(
        """path => {
            const link = Object.assign(document.createElement('a'), {href: path});
            document.body.append(link);
            link.click();
            link.remove();
        }""",
        path,
    )
