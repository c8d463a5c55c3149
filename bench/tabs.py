"""Real tabs of the dashboard: a headless Chromium that is logged in, and how busy its pages are."""

import json
import os
import shutil
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import BrowserContext, CDPSession, Page, async_playwright

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_QUIET: Final = ("--no-sandbox", "--disable-gpu", "--disable-extensions", "--disable-component-update")


def chromium() -> str | None:
    """The browser: a named one, else what is installed."""
    named = os.environ.get("TOCSIN_CHROMIUM")
    return named or next((found for name in _NAMES if (found := shutil.which(name))), None)


class Tabs:
    """Pages of one browser, all on the overview."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self._context = context
        self._url = url
        self._pages: list[tuple[Page, CDPSession]] = []

    async def have(self, number: int) -> None:
        """Open tabs until there are `number` of them, and wait until each shows its numbers."""
        while len(self._pages) < number:
            page = await self._context.new_page()
            profile = await self._context.new_cdp_session(page)
            await profile.send("Performance.enable")
            await page.goto(self._url)
            await page.locator(".tile").first.wait_for()
            self._pages.append((page, profile))

    async def busy_seconds(self) -> float:
        """How long the main thread of the first tab has worked so far."""
        metrics = (await self._pages[0][1].send("Performance.getMetrics"))["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


@asynccontextmanager
async def browser(url: str, key: str) -> AsyncIterator[Tabs]:
    """A browser that a ticket has logged in; no tab is open yet."""
    async with async_playwright() as playwright:
        program = await playwright.chromium.launch(executable_path=chromium(), args=list(_QUIET))
        context = await program.new_context(viewport={"width": 1280, "height": 860})
        page = await context.new_page()
        await page.goto(f"{url}/#ticket={_ticket(url, key)}")
        await page.get_by_role("heading", name="Overview").wait_for()
        await page.close()
        yield Tabs(context, url)
        await program.close()


def _ticket(url: str, key: str) -> str:
    request = urllib.request.Request(
        f"{url}/v1/session/tickets", method="POST", headers={"authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["ticket"])
