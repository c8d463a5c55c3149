"""Pictures of every page and state for a person's eye: a small company's installation, both themes, wide and
narrow.

    .venv/bin/python -m tests.browser.gallery DIRECTORY [--only jobs overview] [--for 60]

Tests see what does not fit; whether a page is clear, and pleasant, is for people to say.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser import company
from tests.browser.conftest import ZONE, chromium, log_in, settled, why_not
from tests.browser.pictures import keep
from tests.browser.scenes import LOGGED_OUT, OPENED, REFUSED, TROUBLED, WITHOUT_DATA, Scene
from tests.browser.served import Served, serving
from tests.browser.test_pages import PATHS, TABS
from tests.support.postgres import temporary_directory
from tests.support.processes import wait_for

# What the documentation shows better of a company than of a test.
KEPT = {"overview": "overview", "fires-near": "fires", "job": "job"}
LOOKS = ((1280, "light"), (1280, "dark"), (360, "light"), (360, "dark"))


def main() -> None:
    """Fill, wait for something to have happened, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="*", help="pages whose names begin so")
    parser.add_argument(
        "--for", dest="seconds", type=float, default=30, help="how long the company works before"
    )
    given = parser.parse_args()
    if missing := why_not():
        raise SystemExit(missing)
    given.directory.mkdir(parents=True, exist_ok=True)
    place = temporary_directory()
    with serving(place) as served, sync_playwright() as playwright:
        company.fill(served, served.api)
        _watch(served)
        time.sleep(given.seconds)
        with playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"]) as browser:
            _take(browser, served, given.directory, given.only)
    shutil.rmtree(place, ignore_errors=True)


def _watch(served: Served) -> None:
    """Somebody who is told of trouble."""
    for path, body in (
        ("alert-channels/ops", {"kind": "webhook", "url": f"{served.url}/v1/echo"}),
        ("alert-rules/failed-for-good", {"watch": {"kind": "dead_letters"}, "channels": ["ops"]}),
        (
            "alert-rules/late",
            {"watch": {"kind": "lag", "within": "1s"}, "channels": ["ops"], "lasting": "5m"},
        ),
    ):
        answer = served.api.call("PUT", f"/v1/{path}", json.dumps(body).encode())
        assert answer.status == 200, answer


def _take(browser: Browser, served: Served, directory: Path, only: list[str] | None) -> None:
    empty = served.key("read", "write", tenant="empty")["text"]
    reader = served.key("read", tenant="reader")["text"]
    newcomer = served.tenant("newcomer")
    first = newcomer.create(name="first-job", schedule={"every": "5s"}, target=served.echo())
    wait_for(
        lambda: any(one["state"] == "succeeded" for one in newcomer.executions(first)),
        60,
        "the first job does not run",
    )
    pages = tuple(Scene(name, path, lambda page: None) for name, path in _pages(served).items())
    for key, scenes in (
        (served.admin_key, (*pages, *OPENED, *TROUBLED)),
        (empty, WITHOUT_DATA),
        (newcomer.key, (Scene("first-job", f"/jobs/{first['id']}", lambda page: None),)),
        (reader, REFUSED),
        (None, LOGGED_OUT),
    ):
        context = browser.new_context(timezone_id=ZONE)
        if key:
            log_in(context.new_page(), served, key)
        job = served.api.get("/v1/jobs", name="sync-stock").json()["items"][0]["id"]
        for scene in scenes:
            if not only or any(scene.name.startswith(one) for one in only):
                _pictures(context, served.url + scene.path.format(job=job), scene, directory)
        context.close()


def _pages(served: Served) -> dict[str, str]:
    """Every page by a name, and those of single things that have something to show."""
    api = served.api

    def job(name: str) -> str:
        found: list[dict[str, Any]] = api.get("/v1/jobs", name=name).json()["items"]
        return f"/jobs/{found[0]['id']}"

    pages = {path.strip("/").replace("/", "-").replace("?view=", "-") or "overview": path for path in PATHS}
    pages |= {f"job-{tab}": f"{job('hourly-sales-report')}?tab={tab}" for tab in TABS}
    dead = api.get("/v1/dead-letters", limit=1).json()["items"][0]
    return pages | {
        "fires-near": "/fires?span=5m",
        "job": job("sync-stock"),
        "job-failing": job("poll-carrier-status"),
        "job-edit": f"{job('nightly-backup')}/edit",
        "execution-dead": f"/executions/{dead['id']}",
    }


def _pictures(context: BrowserContext, address: str, scene: Scene, directory: Path) -> None:
    for width, theme in LOOKS:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 860})
        page.goto(address)
        settled(page)
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        scene.act(page)
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        page.wait_for_timeout(500)  # what a page asks for after its first data
        file = directory / f"{scene.name}-{width}-{theme}.png"
        # A dialog stands in the window; behind it the page goes on.
        page.screenshot(path=file, full_page=not page.get_by_role("dialog").count())
        if (width, theme) == LOOKS[0] and scene.name in KEPT:
            keep(page, KEPT[scene.name])
        print(file)
        page.close()


if __name__ == "__main__":
    main()
