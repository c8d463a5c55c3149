"""gRPC targets against a real server: messages, statuses, deadlines, TLS, and what is refused when it is
written."""

import asyncio
import base64
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.acceptance.certificates import Authority
from tests.acceptance.grpc_server import METHOD, GrpcServer, descriptors
from tests.acceptance.receiver import Place, running
from tests.support.api import ADMIN_KEY, in_process_api
from tests.support.postgres import Cluster
from tests.support.processes import Process, free_port, wait_for
from tocsin.cli.main import cli
from tocsin.clock import VirtualClock
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.errors import Refused
from tocsin.domain.grpc_target import CODES, RETRIED, GrpcTarget, GrpcTls
from tocsin.domain.instant import MILLISECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.sealing import new_master_key
from tocsin.domain.secrets import SecretRef
from tocsin.domain.waits import Reason
from tocsin.targets.assignment import Assignment
from tocsin.targets.grpc.caller import GrpcCaller
from tocsin.targets.grpc.channels import Channels
from tocsin.targets.http.resolver import Resolver

ROOT = Path(__file__).parents[2]
HERE = AddressPolicy(allow_loopback=True)
NOW = 1_800_000_000_000_000
ASSIGNMENT = Assignment(UUID(int=7), NOW, 1, 3, 9, NOW, NOW, NOW, name="a name")


@pytest.fixture(scope="module")
def server() -> Iterator[GrpcServer]:
    with GrpcServer().running() as server:
        yield server


class Vault:
    """Secrets by name."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    async def signing_secrets(self, tenant_id: int) -> tuple[bytes, ...]:
        raise AssertionError(tenant_id)

    async def values(self, tenant_id: int, names: Any) -> dict[str, str]:
        assert tenant_id == 1
        return {name: self._values[name] for name in names}


async def _lookup(name: str) -> list[Any]:
    return {"localhost": [IPv4Address("127.0.0.1")], "inner.test": [IPv4Address("169.254.169.254")]}[name]


def calls(
    *targets: GrpcTarget, timeout: float = 10.0, policy: AddressPolicy = HERE, secrets: Any = None
) -> list[Any]:
    """What becomes of calls, one after the other, by one caller."""

    async def call() -> list[Any]:
        channels = Channels(Resolver(_lookup), policy)
        caller = GrpcCaller(channels, VirtualClock(ASSIGNMENT.fire_at), secrets)
        outcomes = [await caller.call(ASSIGNMENT, target, timeout) for target in targets]
        await channels.close()
        return outcomes

    return asyncio.run(call())


def target(server: GrpcServer, body: dict[str, Any], **fields: Any) -> GrpcTarget:
    known = {"address": server.address, "method": METHOD, "plaintext": True, "descriptors": descriptors()}
    return GrpcTarget(**known | {"body": body} | fields)


def one(server: GrpcServer, body: dict[str, Any], **fields: Any) -> Outcome:
    (outcome,) = calls(target(server, body, **fields))
    return outcome


def describe(wanted: GrpcTarget, policy: AddressPolicy = HERE, secrets: Any = None) -> bytes:
    async def ask() -> bytes:
        channels = Channels(Resolver(_lookup), policy)
        try:
            return await GrpcCaller(channels, VirtualClock(ASSIGNMENT.fire_at), secrets).describe(1, wanted)
        finally:
            await channels.close()

    return asyncio.run(ask())


def test_a_message_arrives_with_its_identity_and_the_answer_is_kept_as_json(server: GrpcServer) -> None:
    body = {"number": "9007199254740993", "echo": "hello", "at": "2026-01-01T00:00:00Z"}
    done = one(server, body, metadata={"x-region": "eu"})
    assert (done.verdict, done.detail) == (
        Verdict.SUCCEEDED,
        {"status": "OK", "message": {"number": "9007199254740993", "text": "hello"}},
    )
    metadata, order = server.calls[-1]
    assert (order.number, order.at.seconds) == (9007199254740993, 1767225600)
    assert metadata["x-region"] == "eu"
    assert metadata["idempotency-key"] == metadata["tocsin-execution"] == ASSIGNMENT.execution
    assert (metadata["tocsin-attempt"], metadata["traceparent"]) == ("3", ASSIGNMENT.traceparent)


def test_every_status_is_retried_or_not_as_the_target_says(server: GrpcServer) -> None:
    outcomes = calls(*(target(server, {"status": code}) for code in CODES))
    expected = {
        code: Verdict.TIMED_OUT
        if code == "DEADLINE_EXCEEDED"
        else Verdict.FAILED
        if code in RETRIED
        else Verdict.REJECTED
        for code in CODES
    }
    assert {code: done.verdict for code, done in zip(CODES, outcomes, strict=True)} == expected
    assert all(done.detail["status"] == code for code, done in zip(CODES, outcomes, strict=True))
    otherwise = one(server, {"status": "NOT_FOUND"}, retry_on=("NOT_FOUND",))
    assert (otherwise.verdict, otherwise.error) == (Verdict.FAILED, "the target answered NOT_FOUND")
    assert one(server, {"status": "UNAVAILABLE"}, retry_on=()).verdict is Verdict.REJECTED


def test_a_server_may_ask_to_wait_or_not_to_be_asked_again(server: GrpcServer) -> None:
    assert one(server, {"status": "UNAVAILABLE 1500"}).retry_after == 1500 * MILLISECOND
    assert one(server, {"status": "UNAVAILABLE -1"}).verdict is Verdict.REJECTED


def test_a_deadline_holds_and_travels(server: GrpcServer) -> None:
    (done,) = calls(target(server, {"number": "1"}), timeout=70)
    assert done.verdict is Verdict.SUCCEEDED
    assert 60 < server.seconds_left[-1] < 75  # gRPC rounds up on the wire
    (late,) = calls(target(server, {"number": "2", "wait_ms": 60_000}), timeout=0.3)
    assert (late.verdict, late.failure) == (Verdict.TIMED_OUT, "timeout")
    wait_for(lambda: 2 in server.given_up, 20, "the server goes on for nobody")


def test_a_call_that_is_cancelled_ends_at_the_server(server: GrpcServer) -> None:
    async def cancel() -> None:
        channels = Channels(Resolver(_lookup), HERE)
        caller = GrpcCaller(channels, VirtualClock(ASSIGNMENT.fire_at))
        waits = target(server, {"number": "3", "wait_ms": 60_000})
        calling = asyncio.create_task(caller.call(ASSIGNMENT, waits, 90))
        while not any(order.number == 3 for _, order in server.calls):
            await asyncio.sleep(0.01)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await channels.close()

    asyncio.run(cancel())
    wait_for(lambda: 3 in server.given_up, 20, "the server goes on for nobody")


def test_answers_that_are_too_large_or_no_message_end_as_outcomes(server: GrpcServer) -> None:
    kept = one(server, {"size": 100_000})
    assert (kept.verdict, kept.detail) == (Verdict.SUCCEEDED, {"status": "OK", "truncated": True})
    assert one(server, {"size": 3_000_000}).detail["status"] == "RESOURCE_EXHAUSTED"
    bad = one(server, {"garbage": True})
    assert bad.verdict is Verdict.REJECTED
    assert "shop.Receipt" in str(bad.error)


def test_nobody_listening_is_a_network_failure_and_gives_the_host_a_rest(server: GrpcServer) -> None:
    gone = target(server, {}, address="127.0.0.1:1")
    outcomes = calls(*[gone] * 11, timeout=2)
    assert {(done.verdict, done.failure) for done in outcomes[:10]} == {(Verdict.FAILED, "network")}
    assert isinstance(outcomes[10], Postponed)
    assert outcomes[10].waits_for is Reason.HOST_REST


def test_places_of_a_body_are_filled_in(server: GrpcServer) -> None:
    done = one(server, {"echo": "{attempt} of {execution} {{}}"}, template=True)
    assert done.detail["message"]["text"] == f"3 of {ASSIGNMENT.execution} {{}}"


def test_secrets_reach_the_server_and_nothing_else(server: GrpcServer) -> None:
    wanted = target(
        server, {"status": "NOT_FOUND", "echo": "s3cret-value"}, metadata={"authorization": SecretRef("t")}
    )
    (done,) = calls(wanted, secrets=Vault({"t": "s3cret-value"}))
    assert server.calls[-1][0]["authorization"] == "s3cret-value"
    assert done.detail["message"] == "as asked: ***"


@pytest.mark.parametrize(
    ("address", "policy"),
    [
        ("127.0.0.1:443", AddressPolicy()),
        ("inner.test:443", HERE),
        ("localhost:443", AddressPolicy()),
        ("[::1]:443", AddressPolicy()),
        ("[::ffff:169.254.169.254]:443", HERE),
        ("0.0.0.0:443", AddressPolicy()),
        ("10.0.0.7:443", HERE),
    ],
)
def test_inner_addresses_are_neither_called_nor_asked(address: str, policy: AddressPolicy) -> None:
    wanted = GrpcTarget(address, METHOD, descriptors=descriptors())
    (done,) = calls(wanted, policy=policy)
    assert done.verdict is Verdict.REJECTED
    with pytest.raises(Refused) as refused:
        describe(GrpcTarget(address, METHOD), policy)
    assert refused.value.field == "target.address"


def test_reflection_says_what_the_descriptors_would_have(server: GrpcServer) -> None:
    asked = describe(target(server, {"number": 7}, descriptors=None))
    (done,) = calls(target(server, {"number": 7}, descriptors=base64.b64encode(asked).decode()))
    assert done.detail["message"] == {"number": "7"}
    with GrpcServer(reflects=False).running() as silent, pytest.raises(Refused) as refused:
        describe(target(silent, {}, descriptors=None))
    assert refused.value.field == "target.descriptors"


@pytest.mark.parametrize(
    ("fields", "field", "word"),
    [
        ({"body": {"numbr": 1}}, "target.body", "numbr"),
        ({"body": {"number": "many"}}, "target.body", "number"),
        ({"body": {"at": "yesterday"}}, "target.body", "at"),
        ({"method": "shop.Orders/Watch"}, "target.method", "stream"),
        ({"method": "shop.Orders/Nothing"}, "target.method", "Nothing"),
        ({"method": "shop.Nobody/Place"}, "target.method", "Nobody"),
        ({"descriptors": base64.b64encode(b"\xff\xff").decode()}, "target.descriptors", "FileDescriptorSet"),
    ],
)
def test_what_does_not_fit_the_descriptors_is_refused_with_its_field(
    server: GrpcServer, fields: dict[str, Any], field: str, word: str
) -> None:
    body = fields.pop("body", {}) if "body" in fields else {}
    with pytest.raises(Refused) as refused:
        describe(target(server, body, **fields))
    assert refused.value.field == field
    assert word in refused.value.detail


def test_tls_knows_the_server_by_name_and_mtls_the_caller() -> None:
    authority = Authority("root")
    ca = authority.pem
    certificate_pem, key_pem = (text.encode() for text in authority.issue("the server"))
    credentials = grpc.ssl_server_credentials(
        [(key_pem, certificate_pem)], ca.encode(), require_client_auth=True
    )
    with GrpcServer(credentials).running() as server:
        address = f"localhost:{server.port}"
        certificate = GrpcTls(ca=ca, client_certificate=SecretRef("client"))
        secure = target(server, {"number": 7}, address=address, plaintext=False)
        known, stranger, untrusted, wrong_name = calls(
            replace(secure, tls=certificate),
            replace(secure, tls=GrpcTls(ca=ca)),
            secure,
            replace(secure, address=server.address, tls=certificate),
            secrets=Vault({"client": "".join(authority.issue("a client"))}), timeout=5,
        )  # fmt: skip
    assert (known.verdict, known.detail["message"]) == (Verdict.SUCCEEDED, {"number": "7"})
    assert {one.verdict for one in (stranger, untrusted, wrong_name)} == {Verdict.FAILED}


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        yield stack.enter_context(
            running(cluster.new_database(), tmp_path_factory.mktemp("grpc"), secret_key=new_master_key())
        )


def test_a_job_without_descriptors_keeps_what_reflection_said_and_fires_without_asking(
    place: Place, server: GrpcServer
) -> None:
    wanted = {
        "kind": "grpc",
        "address": server.address,
        "method": METHOD,
        "plaintext": True,
        "body": {"echo": "job"},
    }
    job = place.api.create(schedule={"now": True}, target=wanted)
    assert job["target"]["descriptors"]
    place.api.wait_for(job, "succeeded")
    assert [order.echo for _, order in server.calls].count("job") == 1
    tried = place.api.post("/v1/targets/test", {"target": wanted}).json()
    assert (tried["verdict"], tried["detail"]["message"]) == ("succeeded", {"text": "job"})
    items = [{"schedule": {"now": True}, "target": wanted | {"body": body}} for body in ({}, {"x": 1})]
    answer = place.api.post("/v1/jobs:batch", items).json()
    assert (answer["created"], answer["refused"]) == (1, 1)


def test_without_the_extra_a_job_is_refused_with_what_to_install(cluster: Cluster) -> None:
    with in_process_api(cluster.new_database()) as api:
        wanted = {"kind": "grpc", "address": "orders.example.com:443", "method": METHOD}
        answer = api.post("/v1/jobs", {"schedule": "@daily", "target": wanted})
    assert (answer.status, answer.problem()["field"]) == (422, "target.kind")
    assert "tocsin[grpc]" in answer.problem()["detail"]


def test_the_example_is_called_by_the_command_line(place: Place, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "examples/grpc/server.py", str(port)]
    example = Process("example", command, {}, tmp_path / "example.log", ROOT)
    target_text = (ROOT / "examples" / "grpc" / "target.json").read_text().replace("9010", str(port))
    example.start()
    try:
        wait_for(lambda: "listening on" in example.output(), 20, "the example does not listen")
        command = ["try", "--url", place.api.url, "--key", ADMIN_KEY, "--target", target_text]
        done = CliRunner().invoke(cli, command)
    finally:
        example.close()
    assert done.exit_code == 0, done.output
    assert "Hello, world!" in done.output
    assert "Hello world fire_at = 20" in example.output()
