"""Every operation of the OpenAPI document, asked by everybody who must not get through: nobody, a key without
the scope, another tenant's key, an operator acting for another tenant. The right refusal, and not a word of
the owner's.

The cases are generated from the document. A new path parameter or a new required body fails here until it is
said how the owner's own looks.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import CONTRACT, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.keys import Scope

MARK = "zebra0canary"
OWNER, STRANGER = "owner-tenant", "stranger"
NOOP = {"kind": "noop"}
HOUR_AGO, NOW = "2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z"
# Bodies by name of their schema: whatever a caller with the right key would be let through with.
BODIES: dict[str, Any] = {
    "NewJob": {"schedule": {"every": "1h"}, "target": NOOP},
    "JobBody": {"schedule": {"every": "1h"}, "target": NOOP},
    "JobPatch": {"priority": 1},
    "NewBackfill": {"from": HOUR_AGO, "to": NOW},
    "Declaration": {"jobs": [{"name": "declared", "schedule": {"every": "1h"}, "target": NOOP}]},
    "PreviewRequest": {"schedule": "0 9 * * *"},
    "TargetTrial": {"target": NOOP},
    "CalendarRanges": {"ranges": []},
    "NewConnection": {"name": "fresh-connection", "kind": "nats", "addresses": ["127.0.0.1:9"]},
    "ConnectionBody": {"kind": "nats", "addresses": ["127.0.0.1:9"]},
    "AlertChannel": {"kind": "slack", "url": "http://127.0.0.1:9/"},
    "AlertRule": {"watch": {"kind": "dead_letters"}, "channels": ["owners-channel"]},
    "SecretValue": {"value": "a value"},
    "FitRequest": {"schedule": "0 9 * * *"},
    "TallyHour": {"hour": HOUR_AGO},
    "NewTenant": {"name": "fresh-tenant"},
    "TenantPatch": {"weight": 2},
    "NewOperation": {"do": "pause", "of": "jobs", "where": {}},
    "NewKey": {"name": "fresh", "scopes": ["read"]},
    "NewWorker": {"name": "fresh", "tasks": [{"name": "fresh"}]},
    "Ask": {"seq": 1, "want": 1},
    "Settlements": {"settle": []},
    "Heartbeat": {"held": []},
    "Release": {"claims": []},
}
OPERATIONS = [
    pytest.param(path, method.upper(), operation, id=f"{method.upper()} {path}")
    for path, verbs in CONTRACT.document["paths"].items()
    if path.startswith("/v1/")
    for method, operation in verbs.items()
    if operation.get("security") != []  # asked before there is a key: see `test_session`
]
# An operator's own things: what they tell does not depend on whom he acts for.
OPERATORS = ("/v1/tenants", "/v1/archives", "/v1/shards", "/v1/nodes", "/v1/tallies:rebuild", "/v1/system")
# What a name in the path creates belongs to whoever asked.
MADE_BY_NAME = (
    "PUT /v1/jobs/by-name/{name}", "PUT /v1/calendars/{name}", "PUT /v1/connections/{name}", "PUT /v1/secrets/{name}",
    "PUT /v1/alert-channels/{name}",
    "PUT /v1/declarations/{owner}", "POST /v1/queues/{queue}/pause"
)  # fmt: skip
OF_THE_OWNER = (
    "jobs",
    "executions",
    "history",
    "calendars",
    "connections",
    "alert_channels",
    "alert_rules",
    "alerts",
    "backfills",
    "secrets",
    "idempotency",
    "queues",
    "operations",
    "workers",
    "declarations",
)


class Matrix:
    """An API in which the owner has one of everything, marked in every field that is not an address of it."""

    def __init__(self, api: InProcessApi) -> None:
        self.api = api
        self.owner = api.new_key("read", "write", "worker", tenant=OWNER)
        api.new_key("read", tenant="bystander")
        self.stranger = api.new_key("read", "write", "worker", tenant=STRANGER)
        hook = {
            "kind": "http",
            "url": f"http://127.0.0.1:9/{MARK}",
            "body": MARK,
            "headers": {"X-Mark": MARK},
        }
        words = {"description": MARK, "tags": [MARK], "queue": MARK}
        job = self.put("jobs/by-name/owners-job", schedule={"every": "1h"}, target=hook, **words)
        once = self.post("jobs", schedule={"at": "2020-01-01T00:00:00Z"}, target=hook, **words)
        self.put("calendars/owners-calendar", ranges=[{"from": HOUR_AGO, "to": NOW, "reason": MARK}])
        self.put(
            "connections/owners-connection", kind="nats", addresses=["127.0.0.1:9"],
            username=MARK, password={"secret": MARK},
        )  # fmt: skip
        self.put(
            "alert-channels/owners-channel", kind="json", url=f"http://127.0.0.1:9/{MARK}", body=MARK,
            path_secret={"secret": MARK},
        )  # fmt: skip
        watch = {"kind": "queue_paused", "queue": MARK}
        self.put("alert-rules/owners-rule", watch=watch, channels=["owners-channel"])
        api.fetch(
            "INSERT INTO alerts (tenant_id, rule, alert_group, state, since, seen_at, summary)"
            " SELECT id, 'owners-rule', $1, 'firing', tocsin_now(), tocsin_now(), $1 FROM tenants WHERE name = $2",
            MARK,
            OWNER,
        )
        self.put("secrets/owners-secret", value=MARK)
        declared = {"name": "declared", "schedule": {"every": "1h"}, "target": hook} | words
        self.put("declarations/owners-program", jobs=[declared])
        self.post("queues/owners-queue/pause", reason=MARK)
        operation = self.post("operations", do="delete", of="jobs", where={"queue": "nobody"}, reason=MARK)[
            "operation"
        ]
        worker = self.post("workers", name=MARK, tasks=[{"name": MARK}])
        # Long paced, so that it stays as it is; no engine is running anyway.
        backfill = self.post(f"jobs/{job['id']}/backfills", **{"from": HOUR_AGO, "to": NOW})["backfill"]
        (execution,) = api.get(f"/v1/jobs/{once['id']}/executions", key=self.owner).json()["items"]
        of_tenant = "SELECT k.id FROM api_keys k JOIN tenants t ON t.id = k.tenant_id WHERE t.name = $1"
        (key,) = api.fetch(of_tenant, OWNER)
        self.names = {
            "job_id": job["id"],
            "execution_id": execution["id"],
            "backfill_id": backfill["id"],
            "operation_id": operation["id"],
            "worker_id": worker["worker"],
            "key_id": key["id"],
            "queue": "owners-queue",
            "owner": "owners-program",
            "tenant": "bystander",  # an operator may suspend it whomever he acts for; the owner stays active
            "login": "nobody_here",
            "/v1/jobs/by-name/{name}": "owners-job",
            "/v1/calendars/{name}": "owners-calendar",
            "/v1/connections/{name}": "owners-connection",
            "/v1/connections/{name}/test": "owners-connection",
            "/v1/alert-channels/{name}": "owners-channel",
            "/v1/alert-channels/{name}/test": "owners-channel",
            "/v1/alert-rules/{name}": "owners-rule",
            "/v1/secrets/{name}": "owners-secret",
        }

    def put(self, path: str, **body: Any) -> dict[str, Any]:
        return self._make("PUT", path, body)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        return self._make("POST", path, body)

    def _make(self, method: str, path: str, body: Any) -> dict[str, Any]:
        answer = self.api.call(method, f"/v1/{path}", json.dumps(body).encode(), key=self.owner)
        assert answer.status < 300, answer
        made: dict[str, Any] = answer.json()
        return made

    def address(self, path: str) -> str:
        def fill(found: re.Match[str]) -> str:
            name = found[1] if found[1] != "name" else path
            assert name in self.names, f"say in this test what the owner's {name} is"
            return str(self.names[name])

        return re.sub(r"{(\w+)}", fill, path)

    def forget_the_stranger(self) -> None:
        """What it made under the owner's names is its own, and would be found."""
        for table in (
            "jobs", "calendars", "connections", "alert_channels", "secrets", "queues", "operations", "declarations"
        ):  # fmt: skip
            self.api.fetch(
                f"DELETE FROM {table} WHERE tenant_id = (SELECT id FROM tenants WHERE name = $1)", STRANGER
            )

    def owned(self) -> Any:
        """What the owner has, as a digest."""
        digest = "(SELECT md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM {0} t JOIN tenants o ON o.id = t.tenant_id AND o.name = '{1}')"
        columns = ", ".join(digest.format(table, OWNER) for table in OF_THE_OWNER)
        return tuple(self.api.fetch(f"SELECT {columns}")[0])


@pytest.fixture(scope="module", params=["auto", "off"], ids=["behind the wall", "by the queries alone"])
def matrix(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Matrix]:
    """Each wall must hold by itself; that the second does, `tests/store/test_row_security.py` shows."""
    url = cluster.new_database()
    api = in_process_api(url)
    api.row_security = request.param
    with api:
        yield Matrix(api)
    cluster.drop(url)


def body_of(operation: dict[str, Any]) -> bytes:
    """A body that would pass."""
    if "requestBody" not in operation:
        return b""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    listed = schema.get("type") == "array"
    name = (schema["items"] if listed else schema)["$ref"].rpartition("/")[2]
    if not operation["requestBody"]["required"] and name not in BODIES:
        return b""
    assert name in BODIES, f"say in this test what a good {name} is"
    return json.dumps([BODIES[name]] if listed else BODIES[name]).encode()


def scope_of(operation: dict[str, Any]) -> str:
    found = re.search(r"`(\w+)` scope", operation["description"])
    assert found
    return found[1]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_without_a_key_nothing_answers(
    matrix: Matrix, path: str, method: str, operation: dict[str, Any]
) -> None:
    answer = matrix.api.call(method, matrix.address(path), body_of(operation), key=None)
    assert answer.status == 401
    assert MARK not in answer.body.decode()


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_a_key_without_the_scope_is_refused_even_by_the_owner(
    matrix: Matrix, path: str, method: str, operation: dict[str, Any]
) -> None:
    before = matrix.owned()
    others = [scope for scope in Scope if scope not in (scope_of(operation), Scope.ADMIN)]
    key = matrix.api.new_key(*others, tenant="scopes")
    answer = matrix.api.call(method, matrix.address(path), body_of(operation), key=key)
    assert answer.status == 403
    assert MARK not in answer.body.decode()
    assert matrix.owned() == before


@pytest.mark.parametrize("who", ["a stranger's key", "an operator acting for the stranger"])
@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_another_tenant_finds_and_changes_nothing(
    matrix: Matrix, path: str, method: str, operation: dict[str, Any], who: str
) -> None:
    matrix.forget_the_stranger()
    before = matrix.owned()
    operator = who.startswith("an operator")
    if operator:
        answer = matrix.api.call(
            method, matrix.address(path), body_of(operation), headers=[(b"tocsin-tenant", STRANGER.encode())]
        )
    else:
        answer = matrix.api.call(method, matrix.address(path), body_of(operation), key=matrix.stranger)
    assert matrix.owned() == before
    assert MARK not in answer.body.decode()
    if scope_of(operation) == Scope.ADMIN and not operator:
        assert answer.status == 403
    elif path.startswith(OPERATORS):
        assert answer.status < 500
    elif f"{method} {path}" == "PUT /v1/alert-rules/{name}":
        assert answer.problem()["field"] == "channels", "the owner's channel is not there for others"
    elif "{" in path and f"{method} {path}" not in MADE_BY_NAME:
        assert answer.status == 404
    else:
        assert answer.status in (200, 201, 202, 409)
        assert str(matrix.names["job_id"]) not in answer.body.decode()


@pytest.mark.parametrize("parameter", ["job", "object", "cursor"])
def test_ids_in_queries_find_nothing_of_another_tenant(matrix: Matrix, parameter: str) -> None:
    for path in ("/v1/executions", "/v1/dead-letters", "/v1/audit", "/v1/jobs"):
        documented = CONTRACT.document["paths"][path]["get"]["parameters"]
        if parameter not in {known["name"] for known in documented}:
            continue
        owners = matrix.api.get(path, key=matrix.owner, limit=1).json()
        value = owners["next_cursor"] if parameter == "cursor" else matrix.names["job_id"]
        if value is not None:
            answer = matrix.api.get(path, key=matrix.stranger, **{parameter: value})
            assert answer.status == 200
            assert str(matrix.names["job_id"]) not in answer.body.decode()
            assert MARK not in answer.body.decode()


def test_a_key_cannot_name_another_tenant_to_act_for(matrix: Matrix) -> None:
    for name, status in ((OWNER, 403), ("no-such-tenant", 403), (STRANGER, 200)):
        answer = matrix.api.call(
            "GET", "/v1/jobs", key=matrix.stranger, headers=[(b"tocsin-tenant", name.encode())]
        )
        assert answer.status == status, name


def test_an_operator_who_names_the_owner_sees_what_the_owner_sees(matrix: Matrix) -> None:
    acting = [(b"tocsin-tenant", OWNER.encode())]
    for path in ("/v1/jobs", "/v1/executions", "/v1/calendars", "/v1/secrets"):
        theirs = matrix.api.call("GET", path, key=matrix.owner)
        assert matrix.api.call("GET", path, headers=acting).json() == theirs.json()
        assert theirs.json()["items"]
    unknown = matrix.api.call("GET", "/v1/jobs", headers=[(b"tocsin-tenant", b"no-such-tenant")])
    assert unknown.status == 404
