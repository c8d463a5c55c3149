"""What a browser holds, what it may, and when that ends."""

import http.client
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.budgets import hold, most
from tests.browser.conftest import log_in, look, settled
from tests.browser.served import Served

FETCHED = """async ([url, method, headers, body]) =>
    (await fetch(url, {method, headers, body: body && JSON.stringify(body)})).status"""
OURS = {"Tocsin-Dashboard": "1", "Content-Type": "application/json"}
JOB = {"schedule": {"now": True}, "target": {"kind": "noop"}}


def test_nothing_that_logs_in_is_in_reach_of_scripts(
    logged_in: Page, known: BrowserContext, served: Served
) -> None:
    look(logged_in, served)
    assert logged_in.evaluate("document.cookie") == ""
    stored = logged_in.evaluate("JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
    cookies = known.cookies()
    assert {cookie["name"] for cookie in cookies} >= {"__Host-tocsin"}
    for cookie in cookies:
        assert cookie["httpOnly"]
        assert cookie["value"] not in stored + logged_in.url


def test_a_foreign_page_a_request_without_our_header_and_a_foreign_host_get_nothing_done(
    logged_in: Page, known: BrowserContext, served: Served
) -> None:
    look(logged_in, served)
    bare = {"Content-Type": "application/json"}
    assert logged_in.evaluate(FETCHED, [f"{served.url}/v1/jobs", "POST", bare, JOB]) == 403
    before = served.api.get("/v1/jobs/count").json()
    with (
        _foreign() as elsewhere
    ):  # another port: another origin, yet the same site, so that the cookie is sent
        page = known.new_page()
        statuses: list[int] = []
        page.on("response", lambda answer: statuses.append(answer.status) if "/v1/" in answer.url else None)
        page.goto(elsewhere)
        with page.expect_response("**/v1/jobs"):
            page.evaluate(
                "url => fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'})",
                f"{served.url}/v1/jobs",
            )
        refused = page.evaluate(
            "url => fetch(url, {method: 'POST', credentials: 'include', headers: {'Tocsin-Dashboard': '1'}})"
            ".then(() => 'answered', () => 'refused')",
            f"{served.url}/v1/jobs",
        )
    assert set(statuses) <= {403, 404, 405}, statuses
    assert (statuses[0], refused) == (403, "refused")
    assert served.api.get("/v1/jobs/count").json() == before
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc)
    connection.request("GET", "/", headers={"Host": "rebound.example", "Accept": "text/html"})
    assert connection.getresponse().status == 403
    connection.close()


@contextmanager
def _foreign() -> Iterator[str]:
    """A page of somebody else's."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>a game</h1>")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_revoking_the_key_logs_the_page_out_by_itself(page: Page, served: Served) -> None:
    made = served.key("read", "write")
    log_in(page, served, made["text"])
    served.api.post(f"/v1/keys/{made['key']['id']}/revoke")
    revoked = time.monotonic()
    expect(page.get_by_label("API key")).to_be_visible(timeout=most(6) * 1000)
    hold("a page is logged out after its key is revoked", time.monotonic() - revoked, 6, "s")


def test_a_key_logs_in_and_is_forgotten_by_the_page(page: Page, served: Served) -> None:
    key = served.key("read")["text"]
    page.goto(f"{served.url}/jobs")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert key not in page.content()
    page.get_by_label("Who is logged in").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_key_that_may_only_read_sees_no_acting_buttons_and_its_requests_by_hand_are_refused(
    page: Page, served: Served
) -> None:
    job = served.api.create(name="only-seen", schedule={"every": "1h"}, queue="only-seen")
    log_in(page, served, served.key("read")["text"])
    look(page, served, f"/jobs/{job['id']}")
    for name in ("Run now", "Pause…", "Backfill…", "Cancel…", "Delete…", "Skip next", "Edit"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    for path in ("/jobs?name=only-seen", "/queues/only-seen", "/dead-letters", "/secrets", "/calendars"):
        look(page, served, path)
        acting = page.locator("main :is(button, a.button)").filter(
            has_text="…"
        ).or_(page.get_by_role("link", name="New job"))  # fmt: skip
        expect(acting).to_have_count(0)
    by_hand: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
        ("POST", "/v1/jobs", JOB),
        ("POST", f"/v1/jobs/{job['id']}/pause", {}),
        ("POST", f"/v1/jobs/{job['id']}/run", {}),
        ("DELETE", f"/v1/jobs/{job['id']}", None),
        ("POST", "/v1/queues/only-seen/pause", {}),
        ("POST", "/v1/operations", {"do": "delete", "of": "jobs", "where": {}}),
    )
    for method, path, body in by_hand:
        assert page.evaluate(FETCHED, [served.url + path, method, OURS, body]) == 403, path


def test_another_tenants_things_are_not_found_on_any_page_or_by_any_id(page: Page, served: Served) -> None:
    words = "owners-secret"
    job = served.api.create(
        name=f"{words}-job", schedule={"now": True}, queue=f"{words}-queue", target=served.echo("?status=404")
    )
    served.api.create(name=f"{words}-tick", schedule={"every": "1h"})
    execution = served.api.wait_for(job, "dead")
    body = {"do": "pause", "of": "jobs", "ids": [job["id"]]}
    operation = served.api.post("/v1/operations", body).json()["operation"]
    log_in(page, served, served.tenant("stranger").key)
    nav = page.get_by_role("navigation").get_by_role("link")
    for number in range(nav.count()):
        nav.nth(number).click()
        settled(page)
        expect(page.get_by_text(words)).to_have_count(0)
    for path in (
        f"/jobs/{job['id']}",
        f"/executions/{execution['id']}",
        f"/operations/{operation['id']}",
        f"/jobs/{job['id']}/edit",
        f"/queues/{words}-queue",
    ):
        look(page, served, path)
        expect(page.get_by_role("alert")).to_contain_text("nothing under this address")
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    expect(page.get_by_text("Nothing found")).to_be_visible()
