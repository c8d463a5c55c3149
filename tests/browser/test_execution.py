"""One execution: its attempts and the gaps between them, live; and why it waits."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import look
from tests.browser.pictures import keep
from tests.browser.served import Served
from tests.support.processes import free_port


def test_an_execution_that_fails_twice_shows_three_attempts_and_two_gaps_live(
    logged_in: Page, served: Served
) -> None:
    job = served.api.create(
        name="flaky", schedule={"now": True}, target=served.echo("?fail_first=2"),
        retry={"max_attempts": 4, "initial_backoff": "1s", "jitter": 0},
    )  # fmt: skip
    execution = served.api.executions(job)[0]
    logged_in.goto(f"{served.url}/executions/{execution['id']}")
    expect(logged_in.locator(".gantt .k-failed").first).to_be_visible()
    expect(logged_in.locator("h1 .state.s-succeeded")).to_have_count(0)  # seen while it is under way
    expect(logged_in.locator("h1 .state.s-succeeded")).to_be_visible(timeout=20_000)
    expect(logged_in.locator(".gantt .k-failed")).to_have_count(2)
    expect(logged_in.locator(".gantt .k-succeeded")).to_have_count(1)
    expect(logged_in.locator(".gantt .k-backoff")).to_have_count(2)
    keep(logged_in, "execution")


def test_why_names_an_overlap_a_limit_key_a_paused_queue_and_a_resting_host(
    logged_in: Page, served: Served
) -> None:
    slow = served.echo("?delay=20")
    one_by_one = served.api.create(name="one-by-one", schedule={"every": "1s"}, target=slow, overlap="queue")
    limited = [
        served.api.create(
            name=f"limited-{n}",
            schedule={"now": True},
            target=slow,
            limit={"key": "vendor", "max_parallel": 1},
        )
        for n in range(2)
    ]
    served.api.post("/v1/queues/held/pause", {"reason": "maintenance"})
    held = served.api.create(name="held", schedule={"now": True}, queue="held")
    closed = {"kind": "http", "url": f"http://127.0.0.1:{free_port()}/"}
    resting = [
        served.api.create(name=f"resting-{n}", schedule={"now": True}, target=closed) for n in range(8)
    ]
    for jobs, words in (
        ([one_by_one], "earlier execution"),
        (limited, "limit key"),
        ([held], "queue is paused"),
        (resting, "host"),
    ):
        _sees(logged_in, served, jobs, words)
    served.api.post("/v1/queues/held/resume")
    for job in (one_by_one, *limited, *resting):
        served.api.post(f"/v1/jobs/{job['id']}/cancel")


def _sees(page: Page, served: Served, jobs: list[dict[str, Any]], words: str) -> None:
    """Until one of the executions says so; which of them waits is not ours to choose."""
    for _ in range(30):
        for job in jobs:
            for item in served.api.executions(job):
                told = served.api.get(f"/v1/executions/{item['id']}/explain").json()["explanation"]
                if words in " ".join(told):
                    look(page, served, f"/executions/{item['id']}")
                    if words in page.locator(".why").inner_text():  # it may have gone on meanwhile
                        return
        page.wait_for_timeout(500)
    raise AssertionError(f"no execution says {words!r}")
