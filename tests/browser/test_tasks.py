"""Tasks and the workers that run them: who serves what, how far a task is, what it logs and returns, and the
end of a worker."""

import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in, look
from tests.browser.pictures import keep
from tests.browser.served import Served
from tests.support.api import RealApi
from tests.support.processes import Processes, wait_for

ROOT = Path(__file__).parents[2]


def test_a_task_is_followed_live_to_its_result_and_its_worker_is_drained(
    page: Page, served: Served, tmp_path: Path
) -> None:
    api = served.tenant("tasks")
    key = served.key("worker", tenant="tasks")["text"]
    go = tmp_path / "go"
    with Processes(tmp_path) as processes:
        worker = processes.tocsin(
            "worker", "tasks", "serve", "tests.browser.shop:app", "--concurrency", "4", "--revision", "a1b2c3",
            "--name", "packing-desk", url=served.url, api_key=key, shop_go=str(go), cwd=ROOT,
        )  # fmt: skip
        worker.start()
        wait_for(
            lambda: api.get("/v1/workers").json()["items"] or not worker.alive, 60, "no worker registers"
        )
        assert worker.alive, worker.last_words()
        job = api.create(
            name="pack-17", schedule={"now": True}, timeout="10m",
            target={"kind": "task", "task": "shop.pack", "payload": {"order": 17}},
        )  # fmt: skip
        log_in(page, served, api.key)
        look(page, served, "/executions")
        expect(page.locator("tbody tr", has_text="pack-17")).to_contain_text("50 % · packing", timeout=30_000)
        page.locator("tbody .state.s-running").click()
        expect(page.locator(".progressed")).to_contain_text("50 % · packing")
        expect(page.locator(".logs li > span")).to_have_text(["box 1 packed order=17"])
        keep(page, "task")
        following = _cli(served, api, "executions", "logs", "--follow", api.executions(job)[0]["id"])

        look(page, served, "/workers")
        row = page.get_by_role("table", name="Task workers").locator("tbody tr")
        for words in ("packing-desk", "active", "a1b2c3", "1 of 4", "default"):
            expect(row).to_contain_text(words)
        tasks = page.get_by_role("table", name="Tasks", exact=True).locator("tbody tr")
        expect(tasks).to_have_text(["shop.pack1defaulta1b2c3"])
        keep(page, "workers")
        listed, _ = _cli(served, api, "tasks", "list").communicate(timeout=60)
        assert "shop.pack" in listed
        assert "a1b2c3" in listed

        page.go_back()
        expect(page.locator(".progressed")).to_be_visible()
        go.touch()
        expect(page.locator("h1 .state.s-succeeded")).to_be_visible()
        expect(page.locator(".json")).to_contain_text("parcels: 2")
        expect(page.locator(".logs li").nth(1)).to_contain_text("box 2 is heavy")
        printed, _ = following.communicate(timeout=60)
        assert [line.split(" ", 2)[2] for line in printed.splitlines()] == [
            "info     box 1 packed order=17",
            "warning  box 2 is heavy",
        ]

        look(page, served, "/workers")
        row.get_by_role("button", name="Drain…").click()
        expect(page.get_by_role("dialog").locator(".consequence")).to_contain_text("takes no more")
        page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        expect(page.get_by_text("No task workers")).to_be_visible(timeout=30_000)
        page.get_by_label("also those that are gone").check()
        expect(row).to_contain_text("gone")
        expect(tasks).to_contain_text("nobody takes it")
        assert worker.wait(60) == 0, worker.last_words()


def _cli(served: Served, api: RealApi, *words: str) -> "subprocess.Popen[str]":
    environment = os.environ | {"TOCSIN_URL": served.url, "TOCSIN_API_KEY": api.key or ""}
    return subprocess.Popen(
        [sys.executable, "-m", "tocsin", *words], env=environment, stdout=subprocess.PIPE, text=True
    )
