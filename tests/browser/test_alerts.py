"""Who is told of trouble: a channel and a rule made in the page, a message that arrives, and what fires."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in, look
from tests.browser.pictures import keep
from tests.browser.served import Served


def test_a_channel_is_made_and_tried_out_and_what_its_rule_finds_is_seen_and_led_to(
    page: Page, served: Served
) -> None:
    api = served.tenant("alerted")
    api.wait_for(api.create(name="bill", schedule={"now": True}, target=served.echo("?status=404")), "dead")
    log_in(page, served, api.key)
    look(page, served, "/alerts")
    expect(page.get_by_text("No rule says yet")).to_be_visible()
    expect(page.get_by_role("button", name="New rule")).to_have_count(0)  # nobody could be told

    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="New channel").click()
    dialog.get_by_label("Name", exact=True).fill("ops")
    dialog.get_by_label("Takes").select_option("webhook")
    dialog.get_by_label("URL").fill("ftp://nowhere")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("URL").fill(f"{served.url}/v1/echo")
    dialog.get_by_role("button", name="Save").click()
    channel = page.get_by_role("table", name="Channels").locator("tbody tr")
    channel.get_by_role("button", name="Test").click()
    expect(channel).to_contain_text("it arrived", timeout=30_000)

    page.get_by_role("button", name="New rule").click()
    dialog.get_by_label("Name", exact=True).fill("failed-for-good")
    dialog.get_by_label("quiet from").fill("25:00")
    dialog.get_by_label("to", exact=True).fill("07:00")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not a time of day")
    dialog.get_by_label("quiet from").fill("")
    dialog.get_by_role("button", name="Save").click()
    rule = page.get_by_role("table", name="Rules").locator("tbody tr")
    expect(rule).to_contain_text("executions fail for good")
    alert = page.get_by_role("table", name="Alerts").locator("tbody tr")
    expect(alert).to_contain_text("firing", timeout=30_000)
    expect(alert).to_contain_text("bill")
    keep(page, "alerts")

    look(page, served)
    needs = page.locator(".card", has=page.get_by_role("heading", name="Needs you"))
    needs.get_by_role("link", name="failed-for-good: ").click()
    expect(page.locator("h1")).to_have_text("Alerts")
    alert.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("Dead letters")
    expect(page.get_by_role("table", name="Dead letters").locator("tbody tr")).to_contain_text(["bill"])

    look(page, served, "/alerts")
    channel.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text("named by the rule")
    dialog.get_by_role("button", name="Close").click()
    rule.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No rule says yet")).to_be_visible()
