"""What pages show only when something is pressed, or is not as it should be: dialogs, the palette, menus, and
every state in which there are no data.

The gallery takes pictures of them; axe looks at those that are opened.
"""

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page, Route, expect

Act = Callable[[Page], object]


@dataclass(frozen=True)
class Scene:
    """A page, and what is done there. `{job}` in its path is a recurring job that has run."""

    name: str
    path: str
    act: Act


def _press(name: str, *, first: bool = True) -> Act:
    def act(page: Page) -> None:
        button = page.locator("main").get_by_role("button", name=name, exact=True)
        (button.first if first else button.last).click()
        _whole(page)

    return act


def _more(name: str) -> Act:
    def act(page: Page) -> None:
        page.get_by_label("More actions").click()
        _press(name)(page)

    return act


def _whole(page: Page) -> None:
    """A dialog with what its dry run says."""
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_text("Looking at what matches …")).to_have_count(0)


def _found(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("a")
    expect(page.get_by_role("dialog").get_by_role("option").first).to_be_visible()


def _keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()


def _account(page: Page) -> None:
    page.get_by_label("Who is logged in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def _all(name: str) -> Act:
    def act(page: Page) -> None:
        page.get_by_role("button", name="select all that match").click()
        _press(name)(page)

    return act


OPENED = (
    Scene("palette", "/", _found),
    Scene("keyboard", "/", _keys),
    Scene("account", "/", _account),
    Scene("dialog-pause", "/jobs/{job}", _press("Pause…")),
    Scene("dialog-backfill", "/jobs/{job}", _press("Backfill…")),
    Scene("dialog-cancel", "/jobs/{job}", _more("Cancel…")),
    Scene("dialog-delete", "/jobs/{job}", _more("Delete…")),
    Scene("dialog-pause-all", "/jobs", _all("Pause…")),
    Scene("dialog-delete-all", "/jobs", _all("Delete…")),
    Scene("dialog-replay", "/dead-letters", _press("Replay…")),
    Scene("dialog-queue", "/queues", _press("Pause…")),
    Scene("dialog-calendar", "/calendars", _press("New calendar")),
    Scene("dialog-secret", "/secrets", _press("New secret")),
    Scene("dialog-connection", "/connections", _press("New connection")),
    Scene("dialog-rule", "/alerts", _press("New rule")),
    Scene("dialog-channel", "/alerts", _press("New channel")),
    Scene("dialog-key", "/keys", _press("New key")),
    Scene("dialog-tenant", "/tenants", _press("New tenant")),
)


def _nothing(page: Page) -> None:
    """The page as it is."""


def _answer(status: int, title: str, detail: str, retry_after: int) -> Callable[[Route], None]:
    def answer(asked: Route) -> None:
        asked.fulfill(
            status=status, json={"status": status, "title": title, "detail": detail},
            headers={"retry-after": str(retry_after)},
        )  # fmt: skip

    return answer


_AWAY = _answer(503, "Unavailable", "the database does not answer", 1)
_THROTTLED = _answer(429, "Too many requests", "more than 20 requests a second", 20)


def _away(page: Page) -> None:
    page.route("**/v1/**", _AWAY)
    expect(page.locator(".age").first).to_be_visible()
    expect(page.locator(".banner")).to_be_visible()


def _failing(path: str, answer: Callable[[Route], None]) -> Act:
    """A part of the page whose request is answered so from its first one on."""

    def act(page: Page) -> None:
        page.route(path, answer)
        page.reload()
        expect(page.get_by_role("alert").first).to_be_visible()

    return act


def _throttled(page: Page) -> None:
    page.route("**/v1/jobs?*", _THROTTLED)
    page.get_by_role("button", name="paused", exact=True).click()
    expect(page.get_by_role("timer").first).to_be_visible()


def _pasted(page: Page) -> None:
    page.get_by_label("From your crontab").fill("30 2 * * * curl -X PUT https://shop.example/hooks/night")
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(page.get_by_text("From your crontab; nothing")).to_be_visible()
    expect(page.locator(".explained")).to_contain_text("02:30")


EMPTY = (
    "/", "/fires", "/fires?view=load", "/alerts", "/jobs", "/executions", "/dead-letters", "/operations", "/queues",
    "/calendars", "/secrets", "/connections", "/audit",
)  # fmt: skip
WITHOUT_DATA = (
    *(
        Scene(f"empty-{path.strip('/').replace('?view=', '-') or 'overview'}", path, _nothing)
        for path in EMPTY
    ),
    Scene("empty-filtered", "/jobs?name=nothing-like-it&state=paused", _nothing),
    Scene("empty-pasted", "/", _pasted),
)
"""For a key of a tenant that has nothing."""
REFUSED = (
    Scene("refused-system", "/system", _nothing),
    Scene("refused-keys", "/keys", _nothing),
    Scene("refused-read", "/jobs", _nothing),
)
"""For a key that may only read."""
TROUBLED = (
    Scene("missing-job", "/jobs/job_00000000000000000000000000", _nothing),
    Scene("missing-page", "/nope", _nothing),
    Scene("away-overview", "/", _away),
    Scene("away-jobs", "/jobs", _away),
    Scene("away-before", "/jobs", _failing("**/v1/jobs?*", _AWAY)),
    Scene("throttled-jobs", "/jobs", _throttled),
    Scene("throttled-before", "/queues", _failing("**/v1/queues*", _THROTTLED)),
    Scene("defect-part", "/", _failing("**/v1/upcoming*", _answer(500, "Internal", "a defect was noted", 1))),
)
"""For anybody."""


def _refused(page: Page) -> None:
    page.get_by_label("API key").fill("tocsin_of_somebody_else")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()


LOGGED_OUT = (Scene("login", "/jobs", _nothing), Scene("login-refused", "/", _refused))
