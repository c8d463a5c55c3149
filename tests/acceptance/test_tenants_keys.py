"""Keys over the API and the command line: shown once, rotated with an overlap, revoked at once on every API
process."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.api import ADMIN_KEY, InProcessApi, RealApi, in_process_api, with_database
from tests.support.postgres import Cluster
from tests.support.processes import Processes, free_port, wait_for
from tocsin.api.auth import KeyUse
from tocsin.cli.main import cli
from tocsin.domain.keys import take_apart
from tocsin.store.keys import KeyStore

BRING_FORWARD = 3.0  # seconds; without a word from the database a key is remembered for 5


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        api.post("/v1/tenants", {"name": "acme"})
        api.post("/v1/tenants", {"name": "other"})
        yield api
    cluster.drop(url)


def make(api: InProcessApi, **fields: Any) -> dict[str, Any]:
    answer = api.post("/v1/keys", {"name": "a key", "scopes": ["read", "write"], "tenant": "acme"} | fields)
    assert answer.status == 201, answer
    made: dict[str, Any] = answer.json()
    return made


def test_a_key_is_shown_once_and_only_its_hash_is_kept(api: InProcessApi) -> None:
    made = make(api, name="ci")
    text, key = made["text"], made["key"]
    assert text.startswith(key["prefix"])
    assert re.fullmatch(r"tocsin_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", text)
    assert take_apart(text) is not None
    assert take_apart(text[:-1] + ("a" if text[-1] != "a" else "b")) is None, (
        "a typing error is told from a wrong key"
    )
    secret = text.removeprefix(key["prefix"])
    assert secret not in api.get("/v1/keys", limit=500).body.decode()
    assert secret not in api.get(f"/v1/keys/{key['id']}").body.decode()
    assert secret not in api.get("/v1/audit").body.decode()
    assert secret not in str([tuple(row) for row in api.fetch("SELECT k::text FROM api_keys k")])
    assert api.get("/v1/jobs", key=text).status == 200


def test_a_key_acts_for_the_tenant_it_was_made_for(api: InProcessApi) -> None:
    text = make(api)["text"]
    job = api.post("/v1/jobs", {"schedule": {"in": "1h"}, "target": {"kind": "noop"}}, key=text).json()
    assert api.get(f"/v1/jobs/{job['id']}", key=make(api, tenant="other")["text"]).status == 404
    acting = [(b"tocsin-tenant", b"acme")]
    assert api.call("GET", f"/v1/jobs/{job['id']}", headers=acting).status == 200


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes[0]"),
        ({"name": ""}, "name"),
        ({"name": "x\ny"}, "name"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2090-01-01T00:00:00Z", "expires_in": "1h"}, "expires_in"),
        ({"expires_in": "-1s"}, "expires_in"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_by_field(
    api: InProcessApi, fields: dict[str, Any], field: str
) -> None:
    answer = api.post("/v1/keys", {"name": "a key", "scopes": ["read"]} | fields)
    assert (answer.status, answer.problem()["field"]) == (422, field)


def test_a_key_for_an_unknown_tenant_is_not_found_and_for_another_than_acted_for_refused(
    api: InProcessApi,
) -> None:
    assert api.post("/v1/keys", {"name": "k", "scopes": ["read"], "tenant": "nobody"}).status == 404
    body = json.dumps({"name": "k", "scopes": ["read"], "tenant": "other"}).encode()
    assert api.call("POST", "/v1/keys", body, headers=[(b"tocsin-tenant", b"acme")]).status == 422


def _looked_up_again(api: InProcessApi, key: str) -> int:
    """The status of a request whose key nobody remembers."""
    api.context.authenticator.forget()
    return api.get("/v1/jobs", key=key).status


def test_a_key_ends_when_it_expires(api: InProcessApi) -> None:
    text = make(api, expires_in="1s")["text"]
    assert api.get("/v1/jobs", key=text).status == 200
    wait_for(lambda: _looked_up_again(api, text) == 401, 10, "the key does not end")


def test_after_a_rotation_both_keys_work_until_the_overlap_is_over(api: InProcessApi) -> None:
    old = make(api, name="rotated")
    rotated = api.post(f"/v1/keys/{old['key']['id']}/rotate", {"overlap": "1s"})
    assert rotated.status == 201
    new = rotated.json()
    assert (new["key"]["name"], new["key"]["scopes"], new["key"]["tenant"]) == (
        "rotated",
        ["read", "write"],
        "acme",
    )
    assert [api.get("/v1/jobs", key=text).status for text in (old["text"], new["text"])] == [200, 200]
    assert api.get(f"/v1/keys/{old['key']['id']}").json()["replaced_by"] == new["key"]["id"]
    wait_for(lambda: _looked_up_again(api, old["text"]) == 401, 10, "the old key does not end")
    assert api.get("/v1/jobs", key=new["text"]).status == 200
    assert api.post(f"/v1/keys/{old['key']['id']}/rotate").status == 409


def test_an_overlap_never_makes_a_key_live_longer(api: InProcessApi) -> None:
    old = make(api, expires_in="1h")["key"]
    api.post(f"/v1/keys/{old['id']}/rotate", {"overlap": "1d"})
    assert api.get(f"/v1/keys/{old['id']}").json()["expires_at"] == old["expires_at"]
    assert api.post(f"/v1/keys/{make(api)['key']['id']}/rotate", {"overlap": "31d"}).status == 422


def test_a_revoked_key_is_refused_by_the_next_request(api: InProcessApi) -> None:
    made = make(api)
    assert api.get("/v1/jobs", key=made["text"]).status == 200
    revoked = api.post(f"/v1/keys/{made['key']['id']}/revoke").json()
    assert revoked["revoked_at"] is not None
    assert revoked["valid"] is False
    assert api.get("/v1/jobs", key=made["text"]).status == 401
    assert api.post(f"/v1/keys/{made['key']['id']}/revoke").status == 409


def test_a_key_does_not_revoke_itself(api: InProcessApi) -> None:
    assert api.post("/v1/keys/bootstrap/revoke").status == 409
    assert api.get("/v1/jobs").status == 200


def test_an_operator_who_names_a_tenant_sees_that_tenants_keys_only(api: InProcessApi) -> None:
    theirs = make(api, tenant="other")["key"]["id"]
    acting = [(b"tocsin-tenant", b"acme")]
    listed = api.call("GET", "/v1/keys?limit=500", headers=acting).json()["items"]
    assert {item["tenant"] for item in listed} == {"acme"}
    for method, path in (("GET", ""), ("POST", "/rotate"), ("POST", "/revoke")):
        assert api.call(method, f"/v1/keys/{theirs}{path}", headers=acting).status == 404
        assert api.call(method, f"/v1/keys/nobody{path}").status == 404
    every = {item["tenant"] for page in api.pages("/v1/keys", limit=3) for item in page}
    assert {"acme", "other", "default"} <= every


def test_when_a_key_was_last_used_is_written_now_and_then_for_all_at_once(api: InProcessApi) -> None:
    made = [make(api) for _ in range(3)]
    for one in made[:2]:
        api.get("/v1/jobs", key=one["text"])
    use = KeyUse(api.context.authenticator, api.context.keys)
    api.run(use.run_once(0))
    shown = [api.get(f"/v1/keys/{one['key']['id']}").json()["last_used_at"] for one in made]
    assert shown[0] is not None
    assert shown[1] is not None
    assert shown[2] is None
    api.run(use.run_once(0))
    assert api.run(use.run_once(0)).done == 0, "an idle process writes nothing"


# Real processes.


def test_other_api_processes_follow_within_seconds_and_the_command_line_does_it_all(
    url: str, tmp_path: Path
) -> None:
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    with Processes(tmp_path) as processes:
        apis = [RealApi(free_port()) for _ in range(2)]
        for number, one in enumerate(apis):
            process = processes.tocsin(
                f"api-{number}",
                "api",
                "--port",
                str(one.port),
                database_url=url,
                limit_requests_per_second="1000",
            )
            process.start()
        for number, one in enumerate(apis):
            one.wait_until_ready(processes._all[number])
        near, far = apis
        assert near.get("/readyz").json() == {"status": "ready", "detail": None}

        def tocsin(*words: str) -> str:
            done = CliRunner().invoke(
                cli, words, env={"TOCSIN_URL": near.url, "TOCSIN_API_KEY": ADMIN_KEY, "TZ": "UTC"}
            )
            assert done.exit_code == 0, done.output
            return done.output

        tocsin("tenants", "create", "acme", "--weight", "3")
        made = json.loads(tocsin("keys", "create", "ci", "--tenant", "acme", "--scope", "read", "--json"))
        text, key_id = made["text"], made["key"]["id"]
        assert text in tocsin("keys", "rotate", key_id, "--overlap", "1h") or key_id in tocsin("keys", "list")

        def status() -> int:
            return far.get("/v1/jobs", key=text).status

        assert status() == 200
        assert far.get("/v1/jobs", key=text).headers["ratelimit-policy"] == '"requests";q=1000;w=1', (
            "from the settings"
        )
        tocsin("tenants", "change", "acme", "--requests-per-second", "2", "--request-burst", "2")
        wait_for(lambda: status() == 429, BRING_FORWARD, "the other process does not follow the limit")
        tocsin("tenants", "change", "acme", "--requests-per-second", "default", "--request-burst", "default")
        wait_for(lambda: status() == 200, BRING_FORWARD, "the other process does not lift the limit")
        tocsin("tenants", "suspend", "acme", "--reason", "a test")
        wait_for(lambda: status() == 403, BRING_FORWARD, "the other process does not follow the suspension")
        tocsin("tenants", "resume", "acme")
        wait_for(lambda: status() == 200, BRING_FORWARD, "the other process does not follow the resumption")
        tocsin("keys", "revoke", key_id)
        wait_for(lambda: status() == 401, BRING_FORWARD, "the other process does not follow the revocation")

        assert "acme" in tocsin("tenants", "list")
        assert "weight" in tocsin("tenants", "show", "acme")
        assert key_id in tocsin("keys", "show", key_id)
        assert "key.revoke" in tocsin("audit", "list", "--tenant", "acme")
        exported = [json.loads(line) for line in tocsin("audit", "export").splitlines()]
        assert [entry["action"] for entry in exported][:2] == ["key.revoke", "tenant.resume"]
        assert {entry["address"] for entry in exported} == {"127.0.0.1"}
