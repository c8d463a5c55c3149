"""Acting on many: dead letters by kind of error with steps and a brake, and all jobs that match."""

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in, look
from tests.browser.pictures import keep
from tests.browser.served import Served, batch
from tests.support.api import RealApi
from tests.support.processes import wait_for

DEAD = int(os.environ.get("TOCSIN_MANY_DEAD", "1204"))
JOBS = int(os.environ.get("TOCSIN_MANY_PAUSED", "2500"))


def _audited(api: RealApi, operation: str) -> list[str]:
    found = api.get("/v1/audit", object=f"operation:{operation}", limit=100).json()["items"]
    return [entry["action"] for entry in found]


def _die(served: Served, api: RealApi, numbers: dict[str, int]) -> None:
    """As many dead letters of each kind, by targets that fail the first attempt, or always."""
    jobs = [
        {"schedule": {"now": True}, "target": served.echo(query), "retry": {"max_attempts": 1}}
        for query, number in numbers.items()
        for _ in range(number)
    ]
    batch(api, jobs)

    def dead() -> int:
        return sum(group["count"] for group in api.get("/v1/dead-letters/groups").json()["items"])

    wait_for(lambda: dead() == len(jobs), 60, "not all of them are dead")


def _replay(
    page: Page, error: str, number: int, *, steps: bool = True, brake: bool = True, pace: str = "1000"
) -> str:
    """Replay a group by its button; answers with the operation's id. A brake looks at 50 at a time, which
    takes its time."""
    group = page.get_by_role("table", name="Kinds of errors").locator("tbody tr").filter(has_text=error)
    group.get_by_role("button", name="Replay…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".consequence")).to_contain_text(f"{number:,} dead letters match")
    dialog.get_by_label("per second").fill(pace)
    if not steps:
        dialog.get_by_label("in steps").uncheck()
    keep(page, "replay")
    if not brake:
        dialog.get_by_label("stop when").fill("")
    dialog.get_by_role("button", name=f"Replay {number:,}").click()
    expect(page.locator("h1 .state")).to_be_visible()
    return page.url.rpartition("/")[2]


def test_1204_dead_letters_with_two_errors_are_two_groups_and_a_replay_in_steps_with_a_pace_ends_well(
    page: Page, served: Served
) -> None:
    api = served.tenant("letters")
    few = 60
    _die(served, api, {"?status=404&fail_first=1": DEAD - few, "?status=410&fail_first=1": few})
    log_in(page, served, api.key)
    look(page, served, "/dead-letters")
    groups = page.get_by_role("table", name="Kinds of errors").locator("tbody tr")
    expect(groups).to_have_count(2)
    expect(groups.filter(has_text="404")).to_contain_text(f"{DEAD - few:,}")
    expect(groups.filter(has_text="410")).to_contain_text(f"{few:,}")
    keep(page, "dead-letters")
    for error, number in (("404", DEAD - few), ("410", few)):
        look(page, served, "/dead-letters")
        operation = _replay(page, error, number, brake=number == few)
        expect(page.locator(".step")).to_have_text(["1", "10", "all"])
        expect(page.locator("h1 .state")).to_contain_text("completed", timeout=60_000)
        expect(page.locator("figcaption")).to_have_text(re.compile(rf"^\s*{number:,} succeeded\s*$"))
        assert "operation.create" in _audited(api, operation)
    assert api.get("/v1/dead-letters/groups").json()["items"] == []


def test_a_replay_whose_target_fails_half_of_them_stops_by_itself(page: Page, served: Served) -> None:
    api = served.tenant("half")
    _die(served, api, {"?status=404": 120, "?status=404&fail_first=1": 120})
    log_in(page, served, api.key)
    look(page, served, "/dead-letters")
    operation = _replay(page, "404", 240, steps=False, pace="40")  # six seconds, of which a brake needs two
    expect(page.locator("h1 .state")).to_contain_text("paused", timeout=30_000)
    expect(page.locator(".warning")).to_contain_text("failed")
    expect(page.locator("figcaption")).to_contain_text("left")
    keep(page, "operation")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("h1 .state")).to_contain_text("cancelled")
    page.get_by_role("link", name="its audit").click()
    expect(page.locator(".entries")).to_contain_text("operation.cancel")
    assert {"operation.create", "operation.cancel"} <= set(_audited(api, operation))


def test_select_all_that_match_pauses_as_many_as_foreseen_and_a_stop_midway_leaves_a_correct_rest(
    page: Page, served: Served
) -> None:
    api = served.tenant("mass")
    more: dict[str, Any] = {"schedule": {"cron": "0 0 1 1 *"}, "target": {"kind": "noop"}, "queue": "mass"}
    batch(api, [{"name": f"mass-{n}", **more} for n in range(JOBS)])
    api.create(name="spared", **{**more, "queue": "other"})
    log_in(page, served, api.key)
    dialog = page.get_by_role("dialog")

    def pause(number: int, path: str, pace: str = "") -> None:
        look(page, served, path)
        page.get_by_role("button", name="select all that match").click()
        page.get_by_role("button", name="Pause…").click()
        expect(dialog.locator(".consequence")).to_contain_text(f"{number:,} jobs match")
        dialog.get_by_label("per second").fill(pace)
        dialog.get_by_role("button", name=f"Pause {number:,}").click()
        expect(page.locator(".stack")).to_be_visible()

    def paused() -> int:
        return int(api.get("/v1/jobs/count", state="paused", cap=JOBS + 1).json()["count"])

    pause(JOBS, "/jobs?queue=mass", pace="500")
    expect(page.locator("figcaption")).to_contain_text("done")
    page.reload()
    expect(page.locator("figcaption")).to_contain_text("done")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("h1 .state")).to_contain_text("cancelled")
    done = api.get(f"/v1/operations/{page.url.rpartition('/')[2]}").json()["done"]
    assert 0 < done < JOBS
    assert paused() == done, "what was done stays done, and nothing else"
    pause(JOBS - done, "/jobs?queue=mass&state=active")
    expect(page.locator("h1 .state")).to_contain_text("completed", timeout=60_000)
    expect(page.locator("figcaption")).to_contain_text(f"{JOBS - done:,} done")
    assert paused() == JOBS
    assert api.get("/v1/jobs", name="spared").json()["items"][0]["state"] == "active"


def test_executions_are_chosen_by_state_and_cancelled_together(page: Page, served: Served) -> None:
    api = served.tenant("called-off")
    later: dict[str, Any] = {"schedule": {"in": "9h"}, "target": {"kind": "noop"}}
    batch(api, [{"queue": "mass", **later} for _ in range(12)])
    spared = api.create(queue="other", **later)
    log_in(page, served, api.key)
    look(page, served, "/executions")
    expect(page.get_by_text("Nothing has run yet")).to_be_visible()  # and what waits for hours hides nothing
    page.get_by_role("button", name="all", exact=True).click()
    expect(page.get_by_role("table", name="Executions").locator("tbody tr")).to_have_count(13)
    every = page.get_by_role("button", name="select all that match")
    expect(every).to_be_disabled()
    expect(every).to_have_attribute("title", re.compile("Choose a state first"))
    look(page, served, "/executions?state=queued&queue=mass")
    page.get_by_role("button", name="select all that match").click()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 12").click()
    expect(page.locator("h1 .state")).to_contain_text("completed", timeout=60_000)
    assert api.get("/v1/executions/count", state="cancelled").json()["count"] == 12
    assert api.executions(spared)[0]["state"] == "queued"


def test_operations_list_the_backfills_of_all_jobs_and_stop_one(page: Page, served: Served) -> None:
    api = served.tenant("made-up-for")
    job = api.create(name="made-up-for", schedule={"every": "1m"}, target={"kind": "noop"})
    now = datetime.now(UTC)
    past = {"from": (now - timedelta(days=1)).isoformat(), "to": now.isoformat(), "pace": "1m", "mode": "all"}
    begun = api.post(f"/v1/jobs/{job['id']}/backfills", past).json()["backfill"]
    log_in(page, served, api.key)
    look(page, served, "/operations")
    listed = page.locator(".card", has=page.get_by_role("heading", name="Backfills")).locator("li")
    expect(listed).to_have_count(1)
    expect(listed.get_by_role("link", name="made-up-for")).to_have_attribute("href", f"/jobs/{job['id']}")
    expect(listed).to_contain_text("running")
    listed.get_by_role("button", name="Stop").click()
    expect(listed).to_contain_text("cancelled")
    assert api.get(f"/v1/backfills/{begun['id']}").json()["state"] == "cancelled"
    page.get_by_label("state", exact=True).select_option("running")
    expect(listed).to_have_count(0)
