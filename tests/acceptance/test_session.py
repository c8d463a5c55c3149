"""Logging in to the dashboard: what a cookie opens, what it does not, and when it ends."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import Answer, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.api.entrance import Doors

OURS = (b"tocsin-dashboard", b"1")


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def log_in(api: InProcessApi, *headers: tuple[bytes, bytes], **body: Any) -> Answer:
    return api.call("POST", "/v1/session", json.dumps(body).encode(), key=None, headers=[OURS, *headers])


def cookie_of(answer: Answer) -> tuple[bytes, bytes]:
    return (b"cookie", answer.headers["set-cookie"].partition(";")[0].encode())


def in_browser(api: InProcessApi, cookie: tuple[bytes, bytes], method: str = "GET", path: str = "/v1/session",
               *headers: tuple[bytes, bytes], body: bytes = b"") -> Answer:  # fmt: skip
    return api.call(method, path, body, key=None, headers=[cookie, OURS, *headers])


def test_a_key_opens_a_session_that_acts_as_the_key(api: InProcessApi) -> None:
    key = api.new_key("read", tenant="acme")
    answer = log_in(api, key=key)
    assert answer.status == 200
    shown = in_browser(api, cookie_of(answer)).json()
    assert (shown["tenant"], shown["scopes"]) == ("acme", ["read"])
    assert in_browser(api, cookie_of(answer), "GET", "/v1/jobs").status == 200
    refused = in_browser(api, cookie_of(answer), "POST", "/v1/jobs", body=b"{}")
    assert refused.status == 403


def test_the_audit_log_says_what_was_done_on_the_dashboard(api: InProcessApi) -> None:
    key = api.new_key("read", "write", "admin", tenant="audited")
    cookie = cookie_of(log_in(api, key=key))
    body = {"target": {"kind": "noop"}, "schedule": {"every": "1h"}}
    clicked = json.dumps({"name": "clicked", **body}).encode()
    assert in_browser(api, cookie, "POST", "/v1/jobs", body=clicked).status == 201
    assert api.post("/v1/jobs", {"name": "called", **body}, key=key).status == 201
    job = api.get("/v1/jobs/by-name/called", key=key).json()["id"]
    assert in_browser(api, cookie, "POST", f"/v1/jobs/{job}/pause").status == 200
    assert api.post(f"/v1/jobs/{job}/resume", key=key).status == 200
    many = json.dumps([{"name": f"of many {n}", **body} for n in range(3)]).encode()
    assert in_browser(api, cookie, "POST", "/v1/jobs:batch", body=many).status in (200, 201)
    assert in_browser(api, cookie, "POST", "/v1/queues/reports/pause").status == 200
    told = [(one["action"], one["via"]) for one in api.get("/v1/audit", key=key).json()["items"]]
    assert [one for one in told if not one[0].startswith("session.")] == [
        ("queue.pause", "dashboard"),
        ("job.create_batch", "dashboard"),
        ("job.resume", None),
        ("job.pause", "dashboard"),
        ("job.create", None),
        ("job.create", "dashboard"),
    ]


def test_scripts_and_other_sites_do_not_get_the_cookie(api: InProcessApi) -> None:
    words = log_in(api, key=api.new_key("read")).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {word.strip() for word in words.split(";")}


def test_the_cookie_is_for_secure_connections_only_where_browsers_keep_such_a_cookie(
    api: InProcessApi,
) -> None:
    loopback = log_in(api, (b"host", b"127.0.0.1:8420"), key=api.new_key("read"))
    elsewhere = log_in(api, key=api.new_key("read"))
    assert elsewhere.headers["set-cookie"].startswith("tocsin=")
    assert "Secure" not in elsewhere.headers["set-cookie"]
    assert in_browser(api, cookie_of(elsewhere)).json()["warning"]
    assert in_browser(api, cookie_of(loopback), "GET", "/v1/session", (b"host", b"localhost")).status == 200


def test_a_cookie_alone_opens_nothing(api: InProcessApi) -> None:
    cookie = cookie_of(log_in(api, key=api.new_key("read", "write")))
    assert api.call("GET", "/v1/jobs", key=None, headers=[cookie]).status == 403
    foreign = [
        (b"origin", b"https://evil.example"),
        (b"sec-fetch-site", b"cross-site"),
        (b"sec-fetch-site", b"same-site"),
    ]
    for header in foreign:
        assert in_browser(api, cookie, "POST", "/v1/jobs", header).status == 403
    ours = [(b"origin", b"http://test"), (b"sec-fetch-site", b"same-origin")]
    assert in_browser(api, cookie, "GET", "/v1/jobs", *ours).status == 200


def test_a_foreign_page_cannot_log_a_browser_in(api: InProcessApi) -> None:
    key = api.new_key("read")
    assert api.post("/v1/session", {"key": key}, key=None).status == 403
    assert log_in(api, (b"origin", b"https://evil.example"), key=key).status == 403


def test_a_cookies_text_is_no_key(api: InProcessApi) -> None:
    cookie = cookie_of(log_in(api, key=api.new_key("read")))
    assert in_browser(api, cookie).status == 200
    token = cookie[1].decode().partition("=")[2]
    assert api.get("/v1/whoami", key=token).status == 401
    assert api.get("/v1/whoami", key=f"session {token}").status == 401


def test_a_ticket_is_good_for_one_login_as_the_key_that_asked(api: InProcessApi) -> None:
    made = api.post("/v1/session/tickets", key=api.new_key("read", tenant="acme")).json()
    first = log_in(api, ticket=made["ticket"])
    assert in_browser(api, cookie_of(first)).json()["tenant"] == "acme"
    assert log_in(api, ticket=made["ticket"]).status == 401


def test_an_old_ticket_is_refused(api: InProcessApi) -> None:
    made = api.post("/v1/session/tickets", key=api.new_key("read")).json()
    api.fetch("UPDATE dashboard_sessions SET expires_at = tocsin_now() WHERE kind = 'ticket'")
    assert log_in(api, ticket=made["ticket"]).status == 401


@pytest.mark.parametrize(
    "end",
    [
        "UPDATE api_keys SET revoked_at = tocsin_now() WHERE id = $1",
        "UPDATE api_keys SET expires_at = tocsin_now() WHERE id = $1",
        "UPDATE tenants SET state = 'suspended' WHERE id = (SELECT tenant_id FROM api_keys WHERE id = $1)",
        "UPDATE dashboard_sessions SET expires_at = tocsin_now() WHERE key_id = $1",
    ],
    ids=["key revoked", "key expired", "tenant suspended", "session over"],
)
def test_a_session_ends_with_what_it_rests_on(api: InProcessApi, end: str) -> None:
    key = api.new_key("read", tenant="ending")
    cookie = cookie_of(log_in(api, key=key))
    key_id = in_browser(api, cookie).json()["key_id"]
    api.fetch(end, key_id)
    api.context.authenticator.forget()
    assert in_browser(api, cookie).status == 401
    api.fetch("UPDATE tenants SET state = 'active'")


def test_logging_out_ends_the_session_at_once(api: InProcessApi) -> None:
    cookie = cookie_of(log_in(api, key=api.new_key("read")))
    assert in_browser(api, cookie, "DELETE").json() == {"ended": True}
    assert in_browser(api, cookie).status == 401


def test_a_session_in_use_lasts_but_not_longer_than_a_week(api: InProcessApi) -> None:
    cookie = cookie_of(log_in(api, key=api.new_key("read", tenant="sliding")))
    key_id = in_browser(api, cookie).json()["key_id"]
    left = "SELECT extract(epoch FROM expires_at - tocsin_now())::float8 / 3600 AS hours FROM dashboard_sessions WHERE key_id = $1"
    api.fetch(
        "UPDATE dashboard_sessions SET expires_at = tocsin_now() + interval '1 hour' WHERE key_id = $1",
        key_id,
    )
    api.context.authenticator.forget()
    assert in_browser(api, cookie).status == 200
    assert api.fetch(left, key_id)[0]["hours"] == pytest.approx(12, abs=0.1)
    old = "UPDATE dashboard_sessions SET created_at = tocsin_now() - interval '167 hours', expires_at = tocsin_now() + interval '30 min' WHERE key_id = $1"
    api.fetch(old, key_id)
    api.context.authenticator.forget()
    assert in_browser(api, cookie).status == 200
    assert api.fetch(left, key_id)[0]["hours"] == pytest.approx(1, abs=0.1)


def test_sessions_of_a_key_are_bounded_and_those_that_are_over_go(api: InProcessApi) -> None:
    key = api.new_key("read", tenant="many")
    cookie = cookie_of(log_in(api, key=key))
    key_id = in_browser(api, cookie).json()["key_id"]
    api.fetch(
        "INSERT INTO dashboard_sessions SELECT sha256(n::text::bytea), 'session', tenant_id, id, tocsin_now(),"
        " tocsin_now() + (CASE WHEN n % 2 = 0 THEN interval '-1 s' ELSE interval '1 hour' END)"
        " FROM api_keys, generate_series(1, 1000) AS n WHERE id = $1",
        key_id,
    )
    log_in(api, key=key)
    log_in(api, key=key)
    count = "SELECT count(*) AS n FROM dashboard_sessions WHERE key_id = $1"
    assert api.fetch(count, key_id)[0]["n"] == 200


@pytest.mark.parametrize(
    ("doors", "host", "status"),
    [
        (Doors(loopback_only=True), "127.0.0.1:8420", 200),
        (Doors(loopback_only=True), "localhost:8420", 200),
        (Doors(loopback_only=True), "[::1]:8420", 200),
        (Doors(loopback_only=True), "evil.example:8420", 403),
        (Doors(public_url="https://tocsin.example/x"), "tocsin.example", 200),
        (Doors(public_url="https://tocsin.example/x"), "evil.example", 403),
        (Doors(), "whatever.example", 200),
    ],
)
def test_browsers_are_answered_under_our_own_names_only(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch, doors: Doors, host: str, status: int
) -> None:
    monkeypatch.setattr(api.context.entrance, "doors", doors)
    assert log_in(api, (b"host", host.encode()), key=api.new_key("read")).status == status
    assert api.call("GET", "/v1/jobs", headers=[(b"host", host.encode())]).status == 200, (
        "a key proves itself"
    )
