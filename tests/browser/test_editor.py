"""Create and edit: what a schedule will do is said while it is typed, and what a change does before it is
saved."""

import json
import re
from datetime import UTC, datetime

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import log_in, look
from tests.browser.pictures import keep
from tests.browser.served import Served
from tests.support.processes import wait_for
from tocsin.domain.ids import parse_job_text

CRON = "minute · hour · day · month · weekday"
# As if it had been paused four hours ago: what was due since then was missed.
REWOUND = "UPDATE jobs SET next_fire_at = next_fire_at - interval '4 hours' WHERE id = $1 RETURNING id"


def test_a_schedule_shows_its_words_ten_fires_and_what_each_dst_rule_does_and_says_what_is_wrong_under_its_field(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    look(page, served, "/jobs/new")
    page.get_by_label(CRON).fill("30 2 * * *")
    page.get_by_label("zone", exact=True).fill("Europe/Berlin")
    preview = page.locator(".preview")
    expect(preview).to_contain_text("at 02:30 every day (Europe/Berlin)")
    expect(preview.locator(".coming-list li")).to_have_count(10)
    expect(preview.locator(".warning").first).to_contain_text("clocks in Europe/Berlin")
    expect(preview.locator(".dst tbody tr")).to_have_count(2)
    rows = preview.locator(".dst tbody tr")
    spring = rows.first.locator("th").inner_text()[:10]
    expect(preview.locator(".warning", has_text=spring)).not_to_have_count(0)
    columns = [
        tuple(rows.nth(row).locator("td").nth(rule).inner_text() for row in range(2)) for rule in range(3)
    ]
    assert len(set(columns)) == 3, columns
    assert columns[0][0] == "03:00"
    assert columns[1][1].count("02:30") == 2
    keep(page, "editor")
    page.get_by_label(CRON).fill("61 * * * *")
    field = page.locator("label.field", has_text=CRON)
    expect(field.get_by_role("alert")).to_contain_text("minute 61 is out of range")
    page.get_by_label(CRON).fill("0 0 30 2 *")
    expect(field.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="Create")).to_be_disabled()


def test_a_task_is_scheduled_and_its_fires_have_the_days_of_their_own_zone(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    look(page, served, "/jobs/new")
    page.get_by_label("Name").fill("stocktaking")
    page.get_by_label("minute · hour").fill("30 2 * * MON")
    page.get_by_label("zone", exact=True).fill("Asia/Tokyo")  # there it is Monday while it is Sunday here
    page.get_by_role("button", name="run a task").click()
    page.get_by_label("task", exact=True).fill("shop.count_stock")
    page.get_by_label("payload").fill('{"shelf": 4}')
    expect(page.locator(".coming-list li span")).to_have_text([re.compile("^Mon")] * 10)
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".facts")).to_contain_text("task shop.count_stock")
    page.get_by_role("tab", name="upcoming").click()
    expect(page.locator(".coming-list li span").first).to_have_text(re.compile("^Mon"))
    expect(page.get_by_text("In Asia/Tokyo, the zone of its schedule.")).to_be_visible()
    (job,) = served.api.get("/v1/jobs", name="stocktaking").json()["items"]
    assert (job["target"]["task"], job["target"]["payload"]) == ("shop.count_stock", {"shelf": 4})


def test_resume_says_what_it_runs_and_skips_and_exactly_that_happens(logged_in: Page, served: Served) -> None:
    page = logged_in
    misfire = {"policy": "fire_once", "grace": "1s", "lookback": "6h"}
    away = f"{(datetime.now(UTC).minute + 30) % 60} * * * *"  # half an hour from any fire
    job = served.api.create(name="resumed", schedule={"cron": away}, misfire=misfire)
    look(page, served, f"/jobs/{job['id']}")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Why?").fill("vendor is down")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".facts")).to_contain_text("vendor is down")
    served.fetch(REWOUND, parse_job_text(job["id"]))
    page.get_by_role("button", name="Resume…").click()
    said = page.locator(".consequence")
    expect(said).to_contain_text("skips")
    runs, skips = map(int, re.findall(r"(?:runs|skips) (\d+)", said.inner_text()))
    assert (runs, skips > 0) == (1, True)
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text(f"Resumed: runs {runs}, skips {skips}.")

    def happened() -> tuple[int, int]:
        found = served.api.executions(job)
        ran = sum(one["state"] == "succeeded" for one in found)
        return ran, sum(one["fire_count"] for one in found if one["state"] == "skipped")

    wait_for(lambda: happened() == (runs, skips), 20, f"{happened()} and not {(runs, skips)}")


def test_an_edit_shows_lost_and_gained_fires_and_what_another_person_changed_meanwhile(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    job = served.api.create(name="edited", schedule={"every": "2h"})
    look(page, served, f"/jobs/{job['id']}/edit")
    page.get_by_label("every").fill("1h")
    gains = page.locator(".changed .gains")
    expect(gains).to_contain_text("gains 50")
    expect(page.locator(".changed .loses")).to_contain_text("loses 0")
    served.api.call(
        "PATCH", f"/v1/jobs/{job['id']}", b'{"queue": "elsewhere"}', headers=[(b"If-Match", b'"1"')]
    )
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".theirs")).to_contain_text("elsewhere")
    assert served.api.get(f"/v1/jobs/{job['id']}").json()["schedule"]["every"] == "2h"
    page.get_by_role("button", name="Put my changes on top").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="edited")).to_be_visible()
    saved = served.api.get(f"/v1/jobs/{job['id']}").json()
    assert (saved["schedule"]["every"], saved["queue"]) == ("1h", "elsewhere")


def test_a_job_with_headers_and_a_secret_is_created_and_a_crowded_minute_is_left(
    page: Page, served: Served
) -> None:
    api = served.tenant("crowd")
    api.call("PUT", "/v1/secrets/token", b'{"value": "from-a-secret"}')
    log_in(page, served, api.key)
    page.route("**/v1/forecast:fit", _crowded)
    look(page, served, "/jobs/new")
    page.get_by_label("Name").fill("with-credentials")
    page.get_by_label("zone", exact=True).fill("UTC")
    page.get_by_label(CRON).fill("0 4 * * *")
    fit = page.locator(".fit")
    expect(fit).to_contain_text("joins a peak of 12,400")
    fit.get_by_role("button", name="Use ").click()
    expect(page.get_by_label(CRON)).to_have_value("7 4 * * *")
    expect(page.locator(".fit.warning")).to_have_count(0)
    page.get_by_text("Headers and credentials").click()
    page.get_by_label("headers, a line each").fill("X-Team: billing\nX-Token: secret:token")
    page.get_by_label("credentials").select_option("bearer")
    page.get_by_label("token", exact=True).fill("secret:token")
    page.get_by_label("what it is for").fill("the books of the month")
    page.get_by_text("Times, priority, limits").click()
    page.get_by_label("limit key").fill("vendor")
    page.get_by_label("of it at once").fill("2")
    page.get_by_label("wait before the first retry").fill("3s")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="with-credentials")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("the books of the month")
    (made,) = api.get("/v1/jobs", name="with-credentials").json()["items"]
    assert (made["limit"]["key"], made["limit"]["max_parallel"]) == ("vendor", 2)
    assert made["retry"]["initial_backoff"] == "3s"
    target = made["target"]
    assert target["headers"] == {"X-Team": "billing", "X-Token": {"secret": "token"}}
    assert target["auth"] == {"kind": "bearer", "token": {"secret": "token"}}


def _crowded(route: Route) -> None:
    """What the API answers where 04:00 is a peak: a forecast of real jobs takes schedulers a while."""
    crowded = json.loads(route.request.post_data or "{}")["schedule"].get("cron") == "0 4 * * *"
    at, free = "2030-01-31T04:00:00Z", ["2030-01-31T04:07:00Z"]
    fit = {
        "peak": 12_400,
        "at": at,
        "joins": 12_400 if crowded else 0,
        "joins_peak": crowded,
        "free_slots": free,
    }
    route.fulfill(json=fit)
