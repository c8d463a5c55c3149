"""Every page: in both themes, wide and narrow, for readers without a mouse or with weak eyes, full and
empty."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import follow, log_in, look, settled
from tests.browser.scenes import LOGGED_OUT, OPENED
from tests.browser.served import Served
from tests.support.api import RealApi

PATHS = (
    "/", "/fires", "/fires?view=load", "/alerts", "/jobs", "/jobs/new", "/executions", "/dead-letters", "/operations", "/queues",
    "/queues/default", "/fleet", "/workers", "/calendars", "/secrets", "/connections", "/tenants", "/tenants/default", "/keys", "/audit", "/system",
    "/words", "/nope",
)  # fmt: skip
TABS = ("calendar", "upcoming", "definition", "changes")
WEB = Path(__file__).parents[2] / "web"
# The rules of WCAG 2.2 AA and of good practice.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]}
LOOKS = tuple((width, theme) for width in (360, 768, 1280) for theme in ("dark", "light"))


@pytest.fixture(scope="module")
def axe() -> str:
    """The checker, of the version in the lock file. It is evaluated in the page, so that our policy stays in
    force."""
    build = subprocess.run(
        [sys.executable, str(WEB / "build.py"), "--tools"], capture_output=True, text=True, check=False
    )
    file = WEB / "node_modules" / "axe-core" / "axe.min.js"
    if build.returncode != 0 or not file.exists():
        pytest.skip(f"axe-core cannot be installed: {build.stderr.strip()}")
    return file.read_text()


def test_every_page_fits_its_window_and_axe_finds_nothing_in_both_themes_wide_and_narrow(
    logged_in: Page, served: Served, axe: str
) -> None:
    page = logged_in
    # An operator looks at a tenant that has one of each, so that pages stay short.
    paths, job = _more(served, served.tenant("walked"))
    violations = _violations(page)
    look(page, served, "/?tenant=walked")
    page.evaluate(axe)
    found: list[str] = []
    for path in (*PATHS, *paths):
        follow(page, _of_walked(path))
        settled(page)
        found += _looked_at(page, path)
    for scene in OPENED:
        follow(page, _of_walked("/words"))  # what was selected for the scene before is forgotten
        follow(page, _of_walked(scene.path.format(job=job)))
        settled(page)
        scene.act(page)
        found += _looked_at(page, scene.name)
        page.keyboard.press("Escape")
    assert (found, violations) == ([], []), "\n".join(found[:100])


def test_the_login_fits_its_window_and_axe_finds_nothing(page: Page, served: Served, axe: str) -> None:
    violations = _violations(page)
    for scene in LOGGED_OUT:
        look(page, served, scene.path)
        page.evaluate(axe)
        scene.act(page)
        assert (_looked_at(page, scene.name), violations) == ([], [])


def _violations(page: Page) -> list[str]:
    """Where violations of our policy are told from now on."""
    violations: list[str] = []
    page.expose_function("violated", lambda words: violations.append(str(words)))
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => violated(event.violatedDirective))"
    )
    return violations


def _of_walked(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}tenant=walked"


def _looked_at(page: Page, what: str) -> list[str]:
    """What axe finds in both themes and all widths; what is wider than its window fails at once."""
    found: list[str] = []
    for width, theme in LOOKS:
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, (what, theme, width)
        found += [f"{what}, {theme}, {width}: {words}" for words in _found(page)]
    return found


def _more(served: Served, api: RealApi) -> tuple[list[str], str]:
    """Pages of single things: a job with runs and each of its tabs, an execution that failed, an operation.
    With them the id of a job that is active."""
    job = api.create(name="walked", schedule={"every": "1h"}, tags=["walk"])
    lively = api.create(name="lively", schedule={"every": "5s"})
    api.wait_for(api.create(name="aside", schedule={"now": True}, queue="aside"), "succeeded")
    dead = api.create(name="fallen", schedule={"now": True}, target=served.echo("?status=404"))
    api.wait_for(dead, "dead")
    body = {"do": "pause", "of": "jobs", "ids": [job["id"]], "reason": "to be walked"}
    operation = api.post("/v1/operations", body).json()["operation"]
    api.post("/v1/queues/default/pause", {"reason": "to be walked"})
    api.call("PUT", "/v1/secrets/walked", b'{"value": "a-secret-value"}')
    days = b'{"ranges": [{"from": "2030-12-24T00:00:00Z", "to": "2030-12-27T00:00:00Z"}]}'
    assert api.call("PUT", "/v1/calendars/walked", days).status == 200
    channel = (
        b'{"kind": "slack", "url": "https://hooks.slack.com/services/", "path_secret": {"secret": "walked"}}'
    )
    assert api.call("PUT", "/v1/alert-channels/walked", channel).status == 200
    rule = b'{"watch": {"kind": "lag", "share": 0.9}, "channels": ["walked"], "quiet": {"begins": "22:00", "ends": "07:00"}}'
    assert api.call("PUT", "/v1/alert-rules/walked", rule).status == 200
    broker = b'{"kind": "nats", "addresses": ["127.0.0.1:4222"]}'
    assert api.call("PUT", "/v1/connections/walked", broker).status == 200
    paths = [
        *(f"/jobs/{job['id']}{more}" for more in ("", "/edit", *(f"?tab={tab}" for tab in TABS))),
        f"/jobs/{dead['id']}",
        f"/executions/{api.executions(dead)[0]['id']}",
        f"/operations/{operation['id']}",
    ]
    return paths, lively["id"]


def _found(page: Page) -> list[str]:
    return page.evaluate(  # type: ignore[no-any-return]
        """async rules => (await axe.run({exclude: ['tbody tr:nth-child(n+4)', '.shard:nth-child(n+4)', '.days button:nth-child(n+30)', '.entries li:nth-child(n+4)']}, {...rules, resultTypes: ['violations'], preload: false})).violations.flatMap(
            (one) => one.nodes.slice(0, 3).map((node) => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary}`))""",
        RULES,
    )


def test_an_empty_list_and_a_list_that_a_filter_empties_say_different_things(
    page: Page, served: Served
) -> None:
    log_in(page, served, served.tenant("empty").key)
    look(page, served, "/jobs")
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    look(page, served, "/jobs?name=nothing-like-it")
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(page.get_by_text("No jobs yet")).to_be_visible()


def test_the_overview_tells_what_is_broken(logged_in: Page, served: Served) -> None:
    served.api.create(name="doomed", schedule={"now": True}, target=served.echo("?status=404"))
    look(logged_in, served)
    expect(logged_in.locator(".tile", has_text="Dead, 24 h").locator("strong")).not_to_have_text("0")
    needs = logged_in.locator(".card", has=logged_in.get_by_role("heading", name="Needs you"))
    needs.get_by_role("link", name="the target answered 404").click()
    expect(logged_in.get_by_role("heading", name="Dead letters")).to_be_visible()
    expect(logged_in.get_by_role("button", name="the target answered 404").first).to_be_visible()


def test_what_needs_a_person_can_be_dismissed_and_called_back(page: Page, served: Served) -> None:
    api = served.tenant("dismissed")
    api.wait_for(api.create(schedule={"now": True}, target=served.echo("?status=404")), "dead")
    log_in(page, served, api.key)
    needs = page.locator(".card", has=page.get_by_role("heading", name="Needs you"))
    needs.get_by_role("button", name="Dismiss for a day").click()
    expect(needs).to_contain_text("Nothing needs you.")
    page.reload()
    expect(needs).to_contain_text("Nothing needs you.")
    needs.get_by_role("button", name="show 1 dismissed").click()
    expect(needs.get_by_role("link", name="the target answered 404")).to_be_visible()


def test_too_many_requests_count_down_and_the_page_asks_again_when_that_is_over(
    logged_in: Page, served: Served
) -> None:
    page, asked = logged_in, []

    def throttled(route: Route) -> None:
        asked.append(time.monotonic())
        problem = {"status": 429, "title": "Too many requests", "detail": "more than 20 a second"}
        if len(asked) == 1:
            route.fulfill(status=429, json=problem, headers={"retry-after": "7"})
        else:
            route.continue_()

    page.route("**/v1/queues", throttled)
    look(page, served, "/queues")
    timer = page.get_by_role("timer")
    expect(timer).to_contain_text(re.compile("asked again in [67] s"))
    expect(timer).to_contain_text(re.compile("asked again in [1-5] s"))
    expect(page.get_by_role("table", name="Queues")).to_be_visible()
    assert asked[1] - asked[0] >= 6.5, "it is left alone for as long as it wants"
