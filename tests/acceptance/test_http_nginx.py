"""The HTTP client against a real nginx: what it is most likely to meet.

Runs where `nginx` is on the PATH, or where TEST_NGINX names one; any since 1.19.5. Our other servers do what
a test tells them. This one does what the world does.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.certificates import World
from tests.acceptance.http_attempts import attempts
from tests.acceptance.http_calls import Client, failure_of, on_both_loops
from tests.support.processes import free_port, wait_for
from tocsin.domain.addresses import parse_target_url
from tocsin.domain.outcome import Verdict
from tocsin.domain.secrets import SecretRef
from tocsin.domain.target import ClientTls, HttpTarget
from tocsin.targets.http.client_certificate import ClientCertificates
from tocsin.targets.http.exchange import FailureKind, OutgoingRequest

NGINX = os.environ.get("TEST_NGINX") or shutil.which("nginx")
REQUESTS_PER_CONNECTION = 5
SMALL_BODY = 1024
TEXT = "tocsin rings.\n" * 5000

pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx on the PATH, and TEST_NGINX names none")

# Every answer under / says which connection it came on, and the how-manieth request of that connection it
# was.
CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    default_type text/plain;
    root {folder}/files;
    keepalive_requests {requests};
    server {{
        listen 127.0.0.1:{plain};
        {ipv6}
        add_header X-Connection "$connection" always;
        location = / {{ return 200 "$connection $connection_requests"; }}
        location = /sent {{ return 200 "$request_method [$http_accept_encoding] [$http_expect] [$http_connection]"; }}
        location = /none {{ return 204; }}
        location = /file {{ try_files /text.txt =404; }}
        location = /zipped {{ gzip on; gzip_types *; gzip_min_length 1; try_files /text.txt =404; }}
        location = /chunked {{ ssi on; ssi_types *; try_files /text.txt =404; }}
        location = /relayed {{ proxy_pass http://127.0.0.1:{plain}/sent; client_max_body_size 0; }}
        location = /small {{ proxy_pass http://127.0.0.1:{plain}/sent; client_max_body_size {small}; }}
        location = /away {{ proxy_pass http://127.0.0.1:1/; }}
    }}
    server {{
        listen 127.0.0.1:{hasty};
        keepalive_timeout 10ms;
        location = / {{ return 200 "$connection $connection_requests"; }}
    }}
    server {{
        listen 127.0.0.1:{secure} ssl;
        server_name target.example;
        ssl_certificate {server_file};
        ssl_certificate_key {server_file};
        location = / {{ return 200 "$connection $connection_requests"; }}
        location = /names {{ return 200 "$ssl_server_name $host $server_protocol"; }}
    }}
    server {{
        listen 127.0.0.1:{mutual} ssl;
        server_name target.example;
        ssl_certificate {server_file};
        ssl_certificate_key {server_file};
        ssl_client_certificate {root_file};
        ssl_verify_client on;
        ssl_verify_depth 2;
        location = / {{ return 200 "$ssl_client_s_dn"; }}
    }}
}}
"""


class Nginx:
    """One nginx, with a port for each way in which it behaves."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.plain, self.hasty, self.secure, self.mutual = (free_port() for _ in range(4))
        self.ipv6 = _has_ipv6()
        files = folder / "files"
        files.mkdir()
        (files / "text.txt").write_text(TEXT)
        self._log = folder / "error.log"
        self._configuration = folder / "nginx.conf"
        self._configuration.write_text(
            CONFIGURATION.format(
                folder=folder,
                requests=REQUESTS_PER_CONNECTION,
                plain=self.plain,
                ipv6=f"listen [::1]:{self.plain};" if self.ipv6 else "",
                hasty=self.hasty,
                secure=self.secure,
                mutual=self.mutual,
                small=SMALL_BODY,
                server_file=self.world.server_file,
                root_file=self.world.root_file,
            )
        )
        self.folder = folder

    def url(self, path: str = "/") -> str:
        return f"http://target.example:{self.plain}{path}"

    def run(self) -> Iterator["Nginx"]:
        assert NGINX is not None
        command = [NGINX, "-e", str(self._log), "-p", str(self.folder), "-c", str(self._configuration)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_for(lambda: self._answers() or process.poll() is not None, 10, "nginx does not answer")
            assert process.poll() is None, self._log.read_text()
            yield self
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.plain}/none", timeout=5) as answer:
                return bool(answer.status == 204)
        except OSError:
            return False


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    yield from Nginx(tmp_path_factory.mktemp("nginx")).run()


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def which_connection(client: Client, url: str) -> tuple[str, int]:
    """The connection that a request came on, by nginx's own count, and how many it has carried."""
    answer = await client.fetch(url)
    assert answer.status == 200
    connection, requests = answer.body.decode().split()
    return connection, int(requests)


@on_both_loops
async def test_a_connection_is_reused_until_nginx_says_that_it_is_the_last_request(nginx: Nginx) -> None:
    """`keepalive_requests` ends a connection with `Connection: close`; the next request opens another, and
    none fails."""
    async with Client() as client:
        seen = [await which_connection(client, nginx.url()) for _ in range(2 * REQUESTS_PER_CONNECTION)]
        assert [count for _, count in seen] == [*range(1, REQUESTS_PER_CONNECTION + 1)] * 2
        assert len({connection for connection, _ in seen}) == 2


@on_both_loops
async def test_a_connection_that_nginx_closed_while_idle_is_replaced(nginx: Nginx) -> None:
    """Nothing is sent on the old one: every request is the first of its connection, and each is answered."""
    async with Client() as client:
        for _ in range(5):
            _, count = await which_connection(client, f"http://target.example:{nginx.hasty}/")
            assert count == 1
            (idle,) = client._pool._idle or [None]
            while idle is not None and idle.is_quiet():
                await asyncio.sleep(0.001)


@on_both_loops
async def test_chunked_answers_are_read_whole_and_leave_the_connection_usable(nginx: Nginx) -> None:
    async with Client() as client:
        first = await client.fetch(nginx.url("/chunked"))
        assert first.header("transfer-encoding") == "chunked"
        assert first.header("content-length") is None
        assert first.body_bytes_read == len(TEXT)
        assert first.body == TEXT.encode()[: len(first.body)]
        assert await which_connection(client, nginx.url()) == (first.header("x-connection"), 2)


@on_both_loops
async def test_answers_without_a_body_end_where_they_should(nginx: Nginx) -> None:
    """HEAD with a length but no body, 204, 304: the next answer on the same connection is read from its
    beginning."""
    async with Client() as client:
        head = await client.fetch(nginx.url("/file"), "HEAD")
        assert (head.status, head.header("content-length"), head.body) == (200, str(len(TEXT)), b"")
        nothing = await client.fetch(nginx.url("/none"))
        assert (nothing.status, nothing.body) == (204, b"")
        known = (("if-modified-since", head.header("last-modified") or ""),)
        same = await client.send(OutgoingRequest("GET", parse_target_url(nginx.url("/file")), known))
        assert (same.status, same.body) == (304, b"")
        last = await which_connection(client, nginx.url())
        assert last == (head.header("x-connection"), 4)


@on_both_loops
async def test_nothing_is_compressed_since_nothing_compressed_is_asked_for(nginx: Nginx) -> None:
    """And nothing else is asked for by header, either."""
    async with Client() as client:
        sent = await client.fetch(nginx.url("/sent"))
        assert sent.body == b"GET [] [] []"
        plain = await client.fetch(nginx.url("/zipped"))
        assert plain.header("content-encoding") is None
        assert plain.body == TEXT.encode()[: len(plain.body)]
        wanted = OutgoingRequest(
            "GET", parse_target_url(nginx.url("/zipped")), (("accept-encoding", "gzip"),)
        )
        zipped = await client.send(wanted)
        assert zipped.header("content-encoding") == "gzip"
        assert zipped.body[:2] == b"\x1f\x8b"


@on_both_loops
async def test_a_large_body_is_sent_without_asking_first(nginx: Nginx) -> None:
    """No `Expect` is sent, nor can a user send one."""
    async with Client() as client:
        answer = await client.fetch(nginx.url("/relayed"), "POST", b"x" * 256 * 1024)
        assert answer.body == b"POST [] [] [close]"
        asking = OutgoingRequest(
            "POST", parse_target_url(nginx.url("/relayed")), (("expect", "100-continue"),)
        )
        assert (await failure_of(client.send(asking))).kind is FailureKind.INVALID_REQUEST


@on_both_loops
async def test_an_interim_answer_is_not_taken_for_the_answer(nginx: Nginx) -> None:
    """nginx says 100 and then 200 to one who asked: the client itself does not, so the words are put into its
    mouth."""
    async with Client() as client:
        url = parse_target_url(nginx.url("/relayed"))
        connection = await client._connect(OutgoingRequest("POST", url))
        request = f"POST {url.path} HTTP/1.1\r\nHost: {url.authority}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        deadline = asyncio.get_running_loop().time() + 10
        answer = await connection.exchange(request.encode() + b"hello", bodiless=False, deadline=deadline)
        assert answer.status == 200
        assert answer.body.startswith(b"POST")
        assert connection.reusable


@pytest.mark.parametrize("size", [SMALL_BODY + 1, 256 * 1024, 8 * 1024 * 1024])
@on_both_loops
async def test_a_body_that_is_too_large_for_nginx_is_answered_with_413(nginx: Nginx, size: int) -> None:
    """The answer comes before the body has gone out; it is heard all the same, and the connection not used
    again."""
    async with Client() as client:
        refused = await client.fetch(nginx.url("/small"), "POST", b"x" * size)
        assert refused.status == 413
        connection, count = await which_connection(client, nginx.url())
        assert connection != refused.header("x-connection")
        assert count == 1
        fits = await client.fetch(nginx.url("/small"), "POST", b"x" * SMALL_BODY)
        assert fits.status == 200


@on_both_loops
async def test_an_upstream_that_is_away_is_a_502(nginx: Nginx) -> None:
    async with Client() as client:
        assert (await client.fetch(nginx.url("/away"))).status == 502


@on_both_loops
async def test_an_ipv6_listener_is_called_by_its_address(nginx: Nginx) -> None:
    if not nginx.ipv6:
        pytest.skip("this machine has no IPv6 loopback")
    async with Client() as client:
        url = f"http://[::1]:{nginx.plain}/"
        first, _ = await which_connection(client, url)
        assert await which_connection(client, url) == (first, 2)


@on_both_loops
async def test_tls_with_an_authority_of_ones_own(nginx: Nginx) -> None:
    """The name goes into the handshake and the Host header; the connection is reused; strangers are not
    trusted."""
    async with Client(ssl_context=nginx.world.trust()) as client:
        url = f"https://target.example:{nginx.secure}/"
        first, _ = await which_connection(client, url)
        assert await which_connection(client, url) == (first, 2)
        names = await client.fetch(f"{url}names")
        assert names.body == b"target.example target.example HTTP/1.1"
    async with Client() as client:
        assert (await failure_of(client.fetch(url))).kind is FailureKind.TLS


@on_both_loops
async def test_nginx_knows_its_callers_by_certificate(nginx: Nginx) -> None:
    """With one, also through an authority in between, nginx names the caller; without one it answers 400 and
    says why."""
    world = nginx.world
    client = Client(ssl_context=world.trust())
    secrets = {"anna": world.anna, "far": world.chained}
    async with attempts(secrets, client, certificates=ClientCertificates(world.trust)) as made:
        url = f"https://target.example:{nginx.mutual}/"
        for name in secrets:
            outcome = await made.outcome(HttpTarget(url, "GET", tls=ClientTls(SecretRef(name))))
            assert outcome.verdict is Verdict.SUCCEEDED, outcome
            assert outcome.detail is not None
            assert outcome.detail["body"] == f"CN={name}"
        without = await made.outcome(HttpTarget(url, "GET"))
        assert without.failure == "400"
        assert "No required SSL certificate was sent" in str(without.detail)
