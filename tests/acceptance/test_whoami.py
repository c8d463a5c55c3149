"""What a key is told about itself."""

from collections.abc import Iterator

import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def test_a_key_learns_its_scopes_its_tenant_and_the_limits_in_force(api: InProcessApi) -> None:
    api.post("/v1/tenants", {"name": "acme", "limits": {"fires_per_second": 5, "pending_jobs": 7}})
    answer = api.get("/v1/whoami", key=api.new_key("read", "write", tenant="acme"))
    assert answer.status == 200
    found = answer.json()
    assert (found["tenant"], found["scopes"]) == ("acme", ["read", "write"])
    assert found["key_id"]
    limits = {name: value for name, value in found["limits_in_force"].items() if value is not None}
    assert limits == {"fires_per_second": 5, "pending_jobs": 7}


def test_it_tells_nothing_that_the_key_does_not_hold(api: InProcessApi) -> None:
    key = api.new_key("read", tenant="quiet")
    assert set(api.get("/v1/whoami", key=key).json()) == {"key_id", "scopes", "tenant", "limits_in_force"}
    assert key not in api.get("/v1/whoami", key=key).body.decode()
    assert api.get("/v1/whoami", key=None).status == 401


def test_an_operator_learns_the_limits_of_the_tenant_that_he_acts_for(api: InProcessApi) -> None:
    api.post("/v1/tenants", {"name": "acted-for", "limits": {"in_flight": 3}})
    answer = api.call("GET", "/v1/whoami", headers=[(b"tocsin-tenant", b"acted-for")]).json()
    assert (answer["tenant"], answer["limits_in_force"]["in_flight"]) == ("acted-for", 3)
    assert "admin" in answer["scopes"]
    assert api.get("/v1/whoami").json()["tenant"] == "default"
