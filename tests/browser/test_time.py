"""Past, now and coming of a job on one axis; and its days."""

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import log_in, look, until
from tests.browser.pictures import keep
from tests.browser.served import Served
from tests.support.api import RealApi
from tests.support.processes import wait_for


def test_coming_fires_become_past_at_their_places_and_the_zone_moves_the_labels_only(
    logged_in: Page, served: Served
) -> None:
    page = logged_in
    job = served.api.create(name="axis-job", schedule={"every": "2s"}, target={"kind": "noop"})
    now = datetime.now(UTC)
    begin, end = now - timedelta(seconds=20), now + timedelta(seconds=40)
    form = "%Y-%m-%dT%H:%M:%SZ"
    look(page, served, f"/fires?name=axis-job&from={begin.strftime(form)}&to={end.strftime(form)}")
    lane = page.locator(f'g[data-job="{job["id"]}"]')
    done = lane.locator('path[data-state="succeeded"]')
    coming = lane.locator('path:is([data-state="expected"], [data-state="queued"])')
    expect(done).to_be_attached(timeout=15_000)
    expect(coming.first).to_be_attached()
    line = float(page.locator("line.now").get_attribute("x1") or 0)
    foreseen, before = _places(coming), _places(done)
    assert max(before) <= line + 1 <= min(foreseen) + 1, "past, now and coming lie on one axis in this order"
    nearest = sorted(foreseen)[:2]
    until(
        page,
        lambda: all(any(abs(one - place) < 0.5 for one in _places(done)) for place in nearest),
        "what was coming is not past at its place",
    )
    assert _places(done)[: len(before)] == before, "what is past stays where it was"
    labels = page.locator(".lanes .label").all_text_contents()
    page.get_by_label("Time zone").select_option("UTC")
    expect(page.locator(".lanes .label").first).not_to_have_text(labels[0])
    assert _places(done)[: len(before)] == before
    served.api.post(f"/v1/jobs/{job['id']}/cancel")


def test_a_drag_over_the_future_of_a_lane_offers_to_hold_the_job_until_then(
    page: Page, served: Served
) -> None:
    api = served.tenant("dragged")
    job = api.create(name="dragged", schedule={"every": "1h"})
    log_in(page, served, api.key)
    look(page, served, "/fires?span=6h")
    plot = page.locator(".lanes svg").bounding_box()
    assert plot is not None
    y = plot["y"] + 36
    page.mouse.move(plot["x"] + plot["width"] * 0.7, y)
    page.mouse.down()
    page.mouse.move(plot["x"] + plot["width"] * 0.95, y, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Pause until").click()
    expect(page.get_by_role("status")).to_contain_text("Paused until")
    held = api.job(job)
    assert (held["state"], held["paused_until"] is not None) == ("paused", True)


def test_lanes_stand_under_their_queue_or_tag_with_a_sum_that_can_be_closed(
    page: Page, served: Served
) -> None:
    api = served.tenant("grouped")
    for name, queue, tags in (
        ("letters", "mail", ["out"]),
        ("parcels", "post", ["out", "big"]),
        ("cards", "mail", []),
    ):
        api.create(name=name, queue=queue, tags=tags, schedule={"every": "1h"})
    log_in(page, served, api.key)
    look(page, served, "/fires?span=6h")
    rows = page.locator(".lane-names li")
    expect(rows).to_have_text(["letters", "parcels", "cards"])
    page.get_by_label("group by").select_option("queue")
    expect(rows).to_have_text(["▾ mail 2", "letters", "cards", "▾ post 1", "parcels"])
    expect(page.locator(".lanes rect.sum")).to_have_count(2)
    page.get_by_role("button", name="mail 2").click()
    expect(rows).to_have_text(["▸ mail 2", "▾ post 1", "parcels"])
    page.get_by_label("group by").select_option("tag")
    expect(rows).to_have_text(["▾ big 1", "parcels", "▾ out 2", "letters", "parcels", "▾ no tag 1", "cards"])
    page.reload()
    expect(rows).to_have_count(7)


def _places(marks: Locator) -> list[float]:
    """Where the marks of a path lie: a circle begins at its left, four to the left of its middle."""
    path = " ".join(marks.evaluate_all("paths => paths.map((path) => path.getAttribute('d'))"))
    return [
        float(x) + (4 if follows == "a" else 0) for x, follows in re.findall(r"M([\d.-]+) [\d.-]+(a|v)", path)
    ]


def test_a_jobs_days_show_five_marks_with_their_counts_and_reasons_and_three_days_are_backfilled_as_foreseen(
    page: Page, served: Served
) -> None:
    api = served.tenant("days")
    zone = _where_it_is_noon()
    job = _lived(api, served, zone)
    today = datetime.now(ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0)
    days = {n: today - timedelta(days=n) for n in range(10)}
    _backfill(api, job, days[9], days[8], "succeeded")
    _change(api, job, target=served.echo("?status=404"))
    _backfill(api, job, days[4], days[3], "dead")
    _change(api, job, target={"kind": "noop"})
    log_in(page, served, api.key)
    look(page, served, f"/jobs/{job['id']}?tab=calendar")

    of = _counts(api, job, days[0])
    assert min(of["ran"], of["dead"], of["overlap"], of["paused"]) > 0, of
    words = f"{of['ran']} ran, {of['dead']} dead, 1 expected, {of['overlap']} skipped (overlap), {of['paused']} skipped (paused)"
    expect(_square(page, days[0])).to_have_attribute("title", _in_any_order(f"{days[0]:%Y-%m-%d}", words))
    split = _square(page, days[0]).locator(".split i")
    for state in ("succeeded", "dead", "skipped"):
        expect(split.and_(page.locator(f".s-{state}"))).to_have_count(1)
    for day, mark, words in (
        (9, "k-ran backfilled", "3 ran, 3 of them backfilled"),
        (4, "k-dead backfilled", "3 dead, 3 of them backfilled"),
        (5, "nothing", "nothing"),
    ):
        expect(_square(page, days[day])).to_have_attribute("title", f"{days[day]:%Y-%m-%d}: {words}")
        expect(_square(page, days[day])).to_have_class(re.compile(rf"\b{mark}\b"))
    drawn = {
        square.evaluate(
            "e => getComputedStyle(e).background + getComputedStyle(e, '::after').content + e.innerHTML"
        )
        for square in (
            *(_square(page, days[n]) for n in (0, 4, 5, 9)),
            _square(page, days[0] + timedelta(days=1)),
        )
    }
    assert len(drawn) == 5, (
        "what happened, backfilled runs and deaths, nothing, and what is coming look different"
    )
    keep(page, "calendar")

    _square(page, days[3]).click()
    expect(page.locator(".hours li")).to_have_count(24)
    _square(page, days[1]).click(modifiers=["Shift"])
    page.get_by_role("button", name="Backfill these days…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".consequence")).to_contain_text("would run 9")
    dialog.get_by_role("button", name="Start").click()
    for day in (3, 2, 1):
        expect(_square(page, days[day])).to_have_attribute(
            "title", re.compile("3 ran, 3 of them backfilled$"), timeout=20_000
        )


def test_days_on_which_the_clock_changes_have_23_and_25_hours(page: Page, served: Served) -> None:
    api = served.tenant("clock-changes")
    job = api.create(name="clocks", schedule={"cron": "0 */8 * * *", "time_zone": "Europe/Berlin"})
    log_in(page, served, api.key)
    for date, hours in (("2027-03-28", 23), ("2027-10-31", 25)):
        look(page, served, f"/jobs/{job['id']}?tab=calendar&day={date}")
        expect(page.locator(".hours li")).to_have_count(hours)


def _where_it_is_noon() -> str:
    """A zone in which no day ends while a test runs."""
    ahead = 12 - datetime.now(UTC).hour
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/GMT"


def _lived(api: RealApi, served: Served, zone: str) -> dict[str, Any]:
    """A job that ran, overlapped, died and was paused within the last seconds, and fires every eight hours
    from now on."""
    job = api.create(
        name="its-days", schedule={"every": "1s"}, target=served.echo(), overlap="skip", retry={"max_attempts": 1},
        misfire={"policy": "skip", "grace": "1s"},
    )  # fmt: skip
    _until_one(api, job, "succeeded")
    _change(api, job, target=served.echo("?delay=2.5"))
    _until_one(api, job, "skipped", "overlap")
    _change(api, job, target=served.echo("?status=404"))
    _until_one(api, job, "dead")
    api.post(f"/v1/jobs/{job['id']}/pause", {"reason": "lunch"})
    wait_for(lambda: _resume(api, job, dry_run=True)["skipped"] > 1, 30, "no fire was missed")
    _resume(api, job)
    _until_one(api, job, "skipped", "paused")
    _change(api, job, schedule={"cron": "0 3-23/8 * * *", "time_zone": zone}, target={"kind": "noop"})
    wait_for(
        lambda: not api.get("/v1/executions", job=job["id"], state="queued").json()["items"], 30, "not still"
    )
    return api.job(job)


def _resume(api: RealApi, job: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = api.post(f"/v1/jobs/{job['id']}/resume", body).json()
    return answer


def _until_one(api: RealApi, job: dict[str, Any], state: str, reason: str | None = None) -> None:
    def found() -> bool:
        return any(one["state"] == state and reason in (None, one["reason"]) for one in api.executions(job))

    wait_for(found, 30, f"none is {state}")


def _change(api: RealApi, job: dict[str, Any], **fields: Any) -> None:
    answer = api.call("PATCH", f"/v1/jobs/{job['id']}", json.dumps(fields).encode())
    assert answer.status == 200, answer


def _counts(api: RealApi, job: dict[str, Any], since: datetime) -> Counter[str]:
    """How a day's executions ended, by the list of executions."""
    counts: Counter[str] = Counter()
    for one in api.executions(job):
        if datetime.fromisoformat(one["fire_at"]) >= since:
            kind = {"succeeded": "ran", "skipped": one["reason"]}.get(one["state"], one["state"])
            counts[kind] += one.get("fire_count") or 1
    return counts


def _in_any_order(date: str, words: str) -> re.Pattern[str]:
    return re.compile(rf"^{date}: " + "".join(rf"(?=.*\b{re.escape(part)})" for part in words.split(", ")))


def _backfill(api: RealApi, job: dict[str, Any], begin: datetime, end: datetime, state: str) -> None:
    body = {"from": begin.isoformat(), "to": end.isoformat(), "mode": "all"}
    made = api.post(f"/v1/jobs/{job['id']}/backfills", body).json()

    def ended() -> int:
        found = api.executions(job)
        return sum((one["state"], one["backfill"]) == (state, made["backfill"]["id"]) for one in found)

    wait_for(lambda: ended() == made["total"], 30, "it does not end")


def _square(page: Page, day: datetime) -> Locator:
    return page.locator(f'button.day[title^="{day:%Y-%m-%d}"]')


def test_the_load_to_come_stands_under_the_lanes_on_their_axis(page: Page, served: Served) -> None:
    api = served.tenant("loaded")
    api.create(name="loading", schedule={"every": "1h"})
    asked: list[dict[str, list[str]]] = []

    def forecast(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query))
        begin = datetime.fromisoformat(asked[-1]["from"][0])
        at = [(begin + timedelta(minutes=n)).isoformat() for n in range(30)]
        many = [1200 if n == 12 else 3 for n in range(30)]
        empty = {
            "one_offs": [0] * 30,
            "peaks": [],
            "free": [],
            "capped": False,
            "computed_at": None,
            "age_s": 1,
        }
        route.fulfill(json={"step_s": 60, "at": at, "expected": many, "capacity": 1000, **empty})

    log_in(page, served, api.key)
    page.route("**/v1/forecast?*", forecast)
    look(page, served, "/fires?queue=default")
    strip = page.locator(".load-strip")
    expect(strip).to_contain_text("at most 1,200 a minute")
    expect(strip).to_contain_text("the fleet makes 1,000 calls at once")
    assert asked[-1]["queue"] == ["default"]
    lanes, load = (page.locator(f"{of} .plot svg").first.bounding_box() for of in (".lanes", ".load-strip"))
    assert lanes is not None
    assert load is not None
    assert (load["x"], load["width"]) == (lanes["x"], lanes["width"])
    page.get_by_label("name contains …").fill("load")
    expect(page).to_have_url(re.compile("name=load"))
    expect(strip).to_have_count(0)  # what is expected of some names nobody has summed up
