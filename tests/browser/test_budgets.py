"""The dashboard's budgets: sizes and counts as they are, times as `budgets.py` says."""

import gzip
import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import CDPSession, Page, expect

from tests.browser.budgets import hold
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


def test_paint_page_changes_and_memory_stay_within_their_budgets(logged_in: Page, served: Served) -> None:
    page = logged_in
    look(page, served)
    expect(page.locator(".tile").first).to_be_visible()
    paint = page.evaluate(
        "performance.getEntriesByType('paint').find(one => one.name === 'first-contentful-paint').startTime"
    )
    usable = page.evaluate("performance.now()")
    hold("first paint", paint, 300)
    hold("usable", usable, 600)
    heap = page.context.new_cdp_session(page)
    changes: list[float] = []
    used: list[int] = []
    for _ in range(3):
        changes += [page.evaluate(CHANGE, name) for name in ROUND]
        heap.send("HeapProfiler.collectGarbage")
        used.append(heap.send("Runtime.getHeapUsage")["usedSize"])
    hold("change of page", sorted(changes)[len(changes) // 2], 100)
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


def test_fifty_lanes_of_a_day_are_drawn_as_a_path_per_state_and_moved(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    lanes = _fifty_lanes()
    page.route("**/v1/timeline?*", lambda asked: asked.fulfill(body=lanes, content_type="application/json"))
    look(page, served, "/fires?span=6h")
    expect(page.locator(".lanes svg g[data-job]")).to_have_count(LANES)
    drawn = page.evaluate(DRAW)
    paths = page.locator(".lanes svg path").count()
    moved = sorted(page.evaluate(MOVE))
    hold(f"50 lanes of 24 h drawn, as {paths} paths", drawn, 150)
    hold("a frame while they move, 30 a second", moved[len(moved) // 2], 1000 / 30)
    assert 50 <= paths <= 50 * STATES, "never an element for each fire"


LANES, BANDS, STATES = 50, 240, 8


def _fifty_lanes() -> str:
    """A day of jobs that fire all the time, some of which fail now and then."""
    begin = datetime.now(UTC) - timedelta(hours=16)
    step = timedelta(days=1) / BANDS
    states = ("succeeded", "dead", "skipped", "cancelled", "expected")
    lanes = [
        {
            "job": f"job_{lane}",
            "name": f"lane {lane}",
            "queue": "default",
            "tags": [],
            "fires": None,
            "covers_from": begin.isoformat(),
            "expected_to": (begin + timedelta(days=1)).isoformat(),
            "bands": [
                {"at": (begin + n * step).isoformat(), "counts": {states[(lane * n) % 5]: 1 + n % 9}}
                for n in range(BANDS)
            ],
        }
        for lane in range(LANES)
    ]
    timeline = {"now": datetime.now(UTC).isoformat(), "step_s": int(step.total_seconds()), "lanes": lanes}
    return json.dumps(timeline | {"next_cursor": None})


DRAW = """async () => {
    const frame = () => new Promise(requestAnimationFrame);
    const begins = () => document.querySelector('.lanes svg path').getAttribute('d');
    const before = begins();
    const started = performance.now();
    [...document.querySelectorAll('[aria-label=Span] button')].find((one) => one.textContent === '24h').click();
    while (begins() === before) await frame();
    return performance.now() - started;
}"""
MOVE = """async () => {
    const plot = document.querySelector('.lanes .plot');
    const took = [];
    let last = await new Promise(requestAnimationFrame);
    for (let n = 0; n < 40; n++) {
        plot.dispatchEvent(new WheelEvent('wheel', {deltaX: 20, cancelable: true}));
        const now = await new Promise(requestAnimationFrame);
        took.push(now - last);
        last = now;
    }
    return took;
}"""


def test_a_page_that_is_looked_at_while_nothing_happens_asks_little(logged_in: Page, served: Served) -> None:
    page = logged_in
    look(page, served)
    expect(page.locator("button.live")).to_contain_text("live")
    asked: list[str] = []
    # Of the API; scripts of further pages are fetched when the browser has nothing else to do.
    page.on("request", lambda request: asked.append(request.url) if "/v1/" in request.url else None)
    busy = page.context.new_cdp_session(page)
    busy.send("Performance.enable")
    before = _worked(busy)
    began, seconds = time.monotonic(), 6
    page.wait_for_timeout(seconds * 1000)
    took = time.monotonic() - began
    rate, share = len(asked) / took, (_worked(busy) - before) / took
    print(f"an overview at rest asks {rate:.1f} times a second, and hears one pulse a second (2 in all)")
    hold("of the time its main thread works", share * 100, 1, "%")
    assert rate <= 1.5, asked


def _worked(session: CDPSession) -> float:
    """For how many seconds the main thread of a page has done anything."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))
