"""Targets that know their callers by TLS certificate: real servers that let nobody in without one."""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.acceptance.certificates import World, pem_of
from tests.acceptance.hostile_server import OK, HostileServer, Peer, answering, hostile_server
from tests.acceptance.http_attempts import attempts
from tests.acceptance.http_calls import Client, on_both_loops
from tests.support.api import ADMIN_KEY, fleet
from tocsin.cli.main import cli
from tocsin.domain.errors import Refused
from tocsin.domain.outcome import Verdict
from tocsin.domain.sealing import new_master_key
from tocsin.domain.secrets import SecretRef, check_secret_value
from tocsin.domain.target import ClientTls, HttpTarget, check_target
from tocsin.targets.http import client_certificate
from tocsin.targets.http.client_certificate import ClientCertificates


def attempts_in(world: World, **secrets: str) -> Any:
    """Attempts that trust the world's root and know these secrets."""
    client = Client(ssl_context=world.trust())
    return attempts(secrets, client, certificates=ClientCertificates(world.trust))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("certificates"))


def target_of(server: HostileServer, secret: str | None) -> HttpTarget:
    tls = None if secret is None else ClientTls(SecretRef(secret))
    return HttpTarget(f"https://target.example:{server.port}/", tls=tls)


async def _saying_who_called(peer: Peer) -> None:
    """Answers with the name in the caller's certificate."""
    subject = peer.writer.get_extra_info("peercert")["subject"]
    name = subject[0][0][1].encode()
    while await peer.read_request():
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(name), name))


@on_both_loops
async def test_a_target_that_wants_a_certificate_is_called_with_it(world: World) -> None:
    """Key and certificates may stand in any order; those between the client's and the root are sent too."""
    async with (
        hostile_server(_saying_who_called, tls=world.server_context()) as server,
        attempts_in(world, anna=world.anna, far=world.chained) as made,
    ):
        for secret in ("anna", "far"):
            outcome = await made.outcome(target_of(server, secret))
            assert outcome.verdict is Verdict.SUCCEEDED, outcome
            assert outcome.detail["body"] == secret


@pytest.mark.parametrize("secret", [None, "stranger"])
@on_both_loops
async def test_without_the_right_certificate_the_target_lets_nobody_in(
    world: World, secret: str | None
) -> None:
    async with (
        hostile_server(answering(OK), tls=world.server_context()) as server,
        attempts_in(world, stranger=world.stranger) as made,
    ):
        outcome = await made.outcome(target_of(server, secret))
        assert outcome.verdict is Verdict.FAILED
        assert outcome.error.split(":")[0] in ("tls", "closed")
        assert server.requests == []


@on_both_loops
async def test_connections_are_shared_only_by_those_with_the_same_certificate(world: World) -> None:
    """Another certificate, another tenant or no certificate means another connection; the same ones share
    it."""
    context = world.server_context()
    context.verify_mode = ssl.CERT_OPTIONAL
    async with (
        hostile_server(answering(OK), tls=context) as server,
        attempts_in(world, anna=world.anna, bert=world.bert) as made,
    ):
        connections = []
        for secret, tenant_id in (("anna", 1), ("bert", 1), ("anna", 2), (None, 1), (None, 2)):
            for _ in range(2):
                outcome = await made.outcome(target_of(server, secret), tenant_id=tenant_id)
                assert outcome.verdict is Verdict.SUCCEEDED, outcome
                connections.append(server.connections)
        assert connections == [1, 1, 2, 2, 3, 3, 4, 4, 4, 4]


@on_both_loops
async def test_a_new_value_of_the_secret_is_a_new_certificate(world: World) -> None:
    async with (
        hostile_server(_saying_who_called, tls=world.server_context()) as server,
        attempts_in(world, caller=world.anna) as made,
    ):
        target = target_of(server, "caller")
        assert (await made.outcome(target)).detail["body"] == "anna"
        made.vault.secrets["caller"] = world.bert
        assert (await made.outcome(target)).detail["body"] == "bert"


@on_both_loops
async def test_a_herd_makes_one_context(world: World) -> None:
    """However many need the certificate for the first time at once, the trust store is read once."""
    made_contexts: list[ssl.SSLContext] = []

    def trust() -> ssl.SSLContext:
        made_contexts.append(world.trust())
        return made_contexts[-1]

    certificates = ClientCertificates(trust)
    found = await asyncio.gather(*(certificates.context(1, "anna", world.anna) for _ in range(50)))
    assert len(set(found)) == len(made_contexts) == 1


@pytest.mark.parametrize(
    ("pem", "reason"),
    [
        (lambda world: "hunter2", "it has no certificate"),
        (lambda world: world.anna_key, "it has no certificate"),
        (lambda world: world.anna_certificate, "it has no private key"),
        (lambda world: world.anna_certificate + world.bert_key, "its private key belongs to another certificate"),
        (lambda world: world.anna.replace("MII", "!!!"), "its certificate or private key cannot be read"),
        (
            lambda world: world.anna_certificate + pem_of(world.root.key, b"password"),
            "its private key is encrypted",
        ),
    ],
)  # fmt: skip
@on_both_loops
async def test_a_wrong_text_is_told_by_the_name_of_its_secret(
    world: World, pem: Callable[[World], str], reason: str
) -> None:
    """The call is rejected; the error names the secret and what is wrong, and shows nothing of the text."""
    wrong = pem(world)
    async with (
        hostile_server(answering(OK), tls=world.server_context()) as server,
        attempts_in(world, broken=wrong) as made,
    ):
        outcome = await made.outcome(target_of(server, "broken"))
        assert outcome.verdict is Verdict.REJECTED
        assert outcome.error == f"the secret 'broken' is no client certificate: {reason}"
        assert server.connections == 0
        missing = await made.outcome(target_of(server, "missing"))
        assert missing.error == "there is no secret 'missing'"


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_key_is_never_in_a_file_that_others_can_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, world: World, *, in_memory: bool
) -> None:
    """In memory where that is possible, else in a file of mode 0600; either way nothing is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.setattr(client_certificate, "_memory_file", lambda: None)
    loaded: list[tuple[Path, int]] = []

    class Watching(ssl.SSLContext):
        def load_cert_chain(self, certfile: Path, *rest: Any, **how: Any) -> None:
            loaded.append((certfile, certfile.stat().st_mode & 0o077))
            super().load_cert_chain(certfile, *rest, **how)

    client_certificate._load(Watching(ssl.PROTOCOL_TLS_CLIENT), world.anna)
    ((path, open_to_others),) = loaded
    assert open_to_others == 0
    assert path.is_relative_to("/proc/self/fd" if in_memory else tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_certificates_are_secrets_and_need_https(world: World) -> None:
    check_secret_value(world.anna)
    check_secret_value(world.chained * 10)
    for value in (world.anna * 50, f" {world.anna}", "a\nb", "-----BEGIN \x00", "-----BEGIN ä\n"):
        with pytest.raises(Refused):
            check_secret_value(value)
    tls = ClientTls(SecretRef("anna"))
    check_target(HttpTarget("HTTPS://target.example/", tls=tls))
    with pytest.raises(Refused) as refused:
        check_target(HttpTarget("http://target.example/", tls=tls))
    assert refused.value.field == "target.tls"
    with pytest.raises(Refused) as refused:
        check_target(HttpTarget("https://target.example/", tls=ClientTls(SecretRef("a b"))))
    assert refused.value.field == "target.tls.client_certificate"


@contextmanager
def real_server(context: ssl.SSLContext) -> Iterator[tuple[int, list[str]]]:
    """A threaded HTTPS server; the names of those who called it."""
    callers: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            certificate = self.connection.getpeercert()  # type: ignore[attr-defined]
            callers.append(certificate["subject"][0][0][1])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port, callers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_running_engine_calls_with_a_certificate_put_by_the_command_line(
    url: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `tocsin secrets put` and `tocsin jobs create --client-certificate` to the server's own sight of
    the caller."""
    monkeypatch.setenv("SSL_CERT_FILE", str(world.root_file))
    pem = tmp_path / "anna.pem"
    pem.write_text(world.anna)
    with (
        real_server(world.server_context()) as (port, callers),
        fleet(url, secret_key=new_master_key()) as api,
    ):
        environment = {"TOCSIN_URL": api.url, "TOCSIN_API_KEY": ADMIN_KEY}

        def tocsin(*arguments: str) -> str:
            done = CliRunner().invoke(cli, arguments, env=environment)
            assert done.exit_code == 0, done.output
            return done.output

        tocsin("secrets", "put", "anna", "--file", str(pem))
        to = ("--target-url", f"https://localhost:{port}/hook", "--client-certificate", "anna")
        job = json.loads(tocsin("jobs", "create", "--now", *to, "--json"))
        execution = api.wait_for(job, "succeeded", "dead")
        assert execution["state"] == "succeeded", execution
        assert callers == ["anna"]
        key = world.anna_key.splitlines()[1]
        seen = "".join(api.get(path).body.decode() for path in ("/v1/jobs", "/v1/audit", "/v1/executions"))
        assert key not in seen
