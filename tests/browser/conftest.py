"""A real Chromium in front of a real `tocsin serve` with its own database, our policy in force.

Without a browser, or without a built dashboard, these tests are skipped; the last line of the run says so.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.served import Served, serving
from tests.support.postgres import temporary_directory
from tocsin.dashboard.pages import STATIC

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="package")
def served() -> Iterator[Served]:
    directory = temporary_directory()
    with serving(directory) as served:
        yield served
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Open no longer than the tests of this folder run: Playwright keeps an event loop, beside which no other can run."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory():
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, timezone_id="Europe/Berlin")
    context.set_default_timeout(15_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page whose console must stay silent: no error, no violation of the policy. Refused requests are said apart."""
    page = context.new_page()
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
    yield page
    meant = re.compile(r"Failed to load resource: .*(401|403|404|409|412|422|503|ERR_)")
    assert [words for words in trouble if not meant.search(words)] == []


@pytest.fixture
def logged_in(page: Page, served: Served) -> Page:
    """The overview, as the administrator sees it."""
    page.goto(served.link())
    page.get_by_role("heading", name="Overview").wait_for()
    return page
