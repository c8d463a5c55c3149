"""Brokers under names: made, tried out and removed in the page, and a job that publishes to one."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in, look
from tests.browser.pictures import keep
from tests.browser.served import Served
from tests.engines.servers import Redis
from tests.support.processes import free_port


def test_a_broker_is_named_tried_out_mended_published_to_and_removed(
    page: Page, served: Served, request: pytest.FixtureRequest
) -> None:
    broker = Redis()
    request.addfinalizer(broker.stop)
    api = served.tenant("publishing")
    log_in(page, served, api.key)
    look(page, served, "/connections")
    expect(page.get_by_text("No connections yet")).to_be_visible()

    page.get_by_role("button", name="New connection").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("orders-bus")
    dialog.get_by_label("Broker").select_option("redis")
    dialog.get_by_label("Addresses").fill("http://no")
    dialog.get_by_role("button", name="Save and test").click()
    expect(dialog.get_by_role("alert")).to_contain_text("an address is a host and a port")
    dialog.get_by_label("Addresses").fill(f"127.0.0.1:{free_port()}")
    dialog.get_by_role("button", name="Save and test").click()
    row = page.get_by_role("row", name="orders-bus")
    expect(row.get_by_role("alert")).to_contain_text("refused")

    row.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Addresses").fill(broker.address)
    dialog.get_by_label("create streams").check()
    dialog.get_by_role("button", name="Save and test").click()
    expect(row.locator(".s-succeeded").first).to_contain_text("in ")
    keep(page, "connections")

    look(page, served, "/jobs/new")
    page.get_by_role("button", name="publish a message").click()
    page.get_by_label("connection").select_option("orders-bus")
    page.get_by_role("textbox", name="stream").fill("orders")
    page.get_by_label("body").fill('{"order": 7}')
    page.get_by_role("button", name="Try it once").click()
    expect(page.locator(".tried")).to_contain_text("succeeded")
    page.get_by_role("button", name="once in").click()
    page.get_by_label("once, in").fill("1s")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("table", name="Executions").get_by_role("link", name="succeeded").click()
    expect(page.get_by_text("message to orders (Redis, orders-bus)")).to_be_visible()

    look(page, served, "/connections")
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is used by jobs")
    for job in api.get("/v1/jobs").json()["items"]:
        api.call("DELETE", f"/v1/jobs/{job['id']}")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No connections yet")).to_be_visible()
