"""The dashboard's budgets. Sizes and counts are held; times are printed, for they say something on a quiet
machine only."""

import gzip
import json
import re
import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import look
from tests.browser.served import Served
from tocsin.dashboard.pages import STATIC

KB, MB = 1024, 1024 * 1024
WEB = Path(__file__).parents[2] / "web"
ROUND = ("Jobs", "Executions", "Dead letters", "Operations", "Queues", "Fires", "Overview")


def _size(name: str) -> int:
    return len(gzip.compress((STATIC / name).read_bytes(), 9))


def _needed(name: str, seen: set[str]) -> set[str]:
    """A script and what it imports before it runs."""
    if name not in seen:
        seen.add(name)
        for found in re.findall(r'(?:from|import)"\./([\w-]+\.js)"', (STATIC / name).read_text()):
            _needed(found, seen)
    return seen


def test_scripts_and_styles_stay_within_their_sizes() -> None:
    manifest = json.loads((STATIC / "manifest.json").read_text())
    first = sum(_size(name) for name in _needed(manifest["script"], set()))
    whole = sum(_size(file.name) for file in STATIC.glob("*.js"))
    style = _size(manifest["style"])
    print(
        f"scripts before first use {first / KB:.1f} KB (60), in all {whole / KB:.1f} KB (110), style {style / KB:.1f} KB (15)"
    )
    assert (first <= 60 * KB, whole <= 110 * KB, style <= 15 * KB) == (True, True, True)
    packages = json.loads((WEB / "package.json").read_text())["dependencies"]
    assert set(packages) == {"@preact/signals", "preact", "esbuild"}, "two at run time, and what bundles them"


def test_paint_page_changes_and_memory_are_measured(logged_in: Page, served: Served) -> None:
    page = logged_in
    look(page, served)
    expect(page.locator(".tile").first).to_be_visible()
    paint = page.evaluate(
        "performance.getEntriesByType('paint').find(one => one.name === 'first-contentful-paint').startTime"
    )
    usable = page.evaluate("performance.now()")
    print(f"first paint {paint:.0f} ms (300), usable at most {usable:.0f} ms (600)")
    heap = page.context.new_cdp_session(page)
    changes: list[float] = []
    used: list[int] = []
    for _ in range(3):
        changes += [page.evaluate(CHANGE, name) for name in ROUND]
        heap.send("HeapProfiler.collectGarbage")
        used.append(heap.send("Runtime.getHeapUsage")["usedSize"])
    middle = sorted(changes)[len(changes) // 2]
    print(f"change of page {middle:.0f} ms, the slowest {max(changes):.0f} ms (100)")
    print("heap after each round of all pages: " + ", ".join(f"{one / MB:.1f} MB" for one in used) + " (60)")
    assert max(used) < 60 * MB
    assert used[-1] - used[-2] < 2 * MB, "a round of pages leaves nothing behind"


CHANGE = """async (name) => {
    const link = [...document.querySelectorAll('nav a')].find((one) => one.textContent.trim() === name);
    const before = performance.now();
    link.click();
    while (document.querySelector('main h1')?.textContent !== name) await new Promise(requestAnimationFrame);
    return performance.now() - before;
}"""


def test_a_page_that_is_looked_at_while_nothing_happens_asks_little(logged_in: Page, served: Served) -> None:
    page = logged_in
    look(page, served)
    expect(page.locator("button.live")).to_contain_text("live")
    asked: list[str] = []
    # Of the API; scripts of further pages are fetched when the browser has nothing else to do.
    page.on("request", lambda request: asked.append(request.url) if "/v1/" in request.url else None)
    began, seconds = time.monotonic(), 6
    page.wait_for_timeout(seconds * 1000)
    rate = len(asked) / (time.monotonic() - began)
    print(f"an overview at rest asks {rate:.1f} times a second, and hears one pulse a second (2 in all)")
    assert rate <= 1.5, asked
