"""What the pages tell a reader to run does run: the first job of the README, the first ten minutes, the
examples.

One real `tocsin serve` in a directory that looks like a checkout. Only ports differ from what is written.
"""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engines import sqs_server
from tests.engines.brokers import SqsKind
from tests.engines.servers import ElasticMq, Kafka, Rabbit, Server
from tests.support.postgres import temporary_directory
from tests.support.processes import Process, Processes, free_port, wait_for
from tocsin.domain.signature import new_signing_secret, signature_headers, signing_secret_text

ROOT = Path(__file__).parents[2]
SINK = "python3 examples/sink.py"
MESSAGES = ROOT / "docs" / "guides" / "messages.md"


class Checkout:
    """A directory in which `make run` and the sink are running."""

    def __init__(self, directory: Path, port: int, sink_port: int, sink: Process) -> None:
        self.directory = directory
        self.url = f"http://127.0.0.1:{port}"
        self.sink = sink
        self._ports = {"127.0.0.1:8420": f"127.0.0.1:{port}", "127.0.0.1:9009": f"127.0.0.1:{sink_port}"}

    def run(self, command: str, **environment: str) -> str:
        """Run a command as a reader would. Returns what it printed."""
        for written, actual in self._ports.items():
            command = command.replace(written, actual)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.directory,
            env=inherited | {"TOCSIN_URL": self.url, "PATH": self._path} | environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def process(self, name: str, command: str) -> Process:
        """Start a command that goes on, as a reader would in a terminal of its own."""
        started = Process(
            name,
            ["bash", "-c", f"exec {command}"],
            {"PATH": self._path, "PYTHONUNBUFFERED": "1"},
            self.directory / f"{name}-{free_port()}.log",
            self.directory,
        )
        started.start()
        return started

    @property
    def _path(self) -> str:
        return f"{self.directory}/.venv/bin:{os.environ['PATH']}"

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@pytest.fixture(scope="module")
def checkout() -> Iterator[Checkout]:
    directory = temporary_directory()
    (directory / ".venv").symlink_to(sys.prefix)
    (directory / "examples").symlink_to(ROOT / "examples")
    port, sink_port = free_port(), free_port()
    with Processes(directory) as processes:
        serve = processes.tocsin(
            "serve", "serve", "--port", str(port), "--engines", "1", cwd=directory, scripts="on"
        )
        sink = Process(
            "sink", ["bash", "-c", f"exec {SINK} {sink_port}"], {}, directory / "sink.log", directory
        )
        made = Checkout(directory, port, sink_port, sink)
        try:
            serve.start()
            sink.start()
            wait_for(made.ready, 30, "serve is not ready")
            wait_for(lambda: "listening on" in sink.output(), 10, "the sink does not listen")
            yield made
            serve.terminate()
            assert serve.wait(30) == 0
        finally:
            sink.close()
    shutil.rmtree(directory, ignore_errors=True)


def test_the_first_job_of_the_readme_runs_as_written(checkout: Checkout) -> None:
    section = (ROOT / "README.md").read_text().split("## First job")[1].split("\n## ")[0]
    start_sink, create_by_curl, create_by_cli = shell_blocks(section)
    assert start_sink == SINK
    job = json.loads(checkout.run(create_by_curl))
    assert (job["name"], job["kind"], job["state"]) == ("hello", "once", "active")
    printed = checkout.run(create_by_cli)
    shown_heading = next(line for line in section.splitlines() if line.startswith("ID "))
    assert (
        shown_heading.split() == next(line for line in printed.splitlines() if line.startswith("ID ")).split()
    )
    wait_for(lambda: "POST /hello attempt=1" in checkout.sink.output(), 20, "the first job is not called")
    wait_for(lambda: "POST /tick attempt=1" in checkout.sink.output(), 20, "the second job is not called")


def test_the_first_task_of_the_readme_runs_as_written(checkout: Checkout) -> None:
    section = (ROOT / "README.md").read_text().split("## First task")[1].split("\n## ")[0]
    (module,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    serve, enqueue = shell_blocks(section)
    (printed,) = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (checkout.directory / "shop.py").write_text(module)
    worker = Process(
        "worker", ["bash", "-c", f"exec {serve}"], {"TOCSIN_URL": checkout.url},
        checkout.directory / "worker.log", checkout.directory,
    )  # fmt: skip
    worker.start()
    try:
        assert checkout.run(enqueue) == printed
    finally:
        worker.terminate()
        assert worker.wait(30) == 0, worker.last_words()


def test_the_first_ten_minutes_run_as_written(checkout: Checkout) -> None:
    blocks = shell_blocks((ROOT / "docs" / "start.md").read_text())
    printed = [checkout.run(block) for block in blocks if block != SINK]
    assert json.loads(printed[0])["status"] == "ready"
    wait_for(lambda: "POST /beat attempt=1" in checkout.sink.output(), 20, "the recurring job is not called")
    wait_for(
        lambda: "POST /flaky/2 attempt=3" in checkout.sink.output(), 20, "the flaky job is not tried again"
    )
    dead = lambda: "the target answered 500" in checkout.run(blocks[-1])  # noqa: E731
    wait_for(dead, 20, "the broken job is not a dead letter")


def test_the_example_in_shell_runs(checkout: Checkout) -> None:
    printed = checkout.run("sh examples/first_job.sh", SINK_PORT=str(free_port()))
    assert "POST /hello attempt=1" in printed
    assert printed.rstrip().endswith("execution succeeded")


def test_the_example_in_python_runs(checkout: Checkout) -> None:
    printed = checkout.run("python3 examples/reminders.py")
    assert printed.count("ring: stretch") == 3
    assert printed.count("ring: tea is ready") == 1
    assert "the meeting was called off" in printed
    assert "ring: the meeting begins" not in printed


def test_the_receiver_that_verifies_signatures_takes_tocsins_requests_and_no_others(
    checkout: Checkout,
) -> None:
    shown = json.loads(checkout.run(".venv/bin/tocsin webhook-secret show --json"))
    port = free_port()
    receiver = Process(
        "receiver",
        [sys.executable, "examples/verify_signature.py"],
        {"WEBHOOK_SECRET": shown["items"][0]["secret"], "PORT": str(port), "PYTHONUNBUFFERED": "1"},
        checkout.directory / "receiver.log",
        checkout.directory,
    )
    url = f"http://127.0.0.1:{port}/hook"
    try:
        receiver.start()
        wait_for(lambda: "listening on" in receiver.output(), 10, "the receiver does not listen")
        checkout.run(
            f'.venv/bin/tocsin jobs create --now --target-url {url} --body \'{{"report": "daily"}}\''
        )
        wait_for(lambda: "verified exec_" in receiver.output(), 20, "the request is not verified")
        assert '{"report":"daily"}' in receiver.output()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, b"forged", timeout=10)
        with refused.value:
            assert refused.value.code == 401
        wait_for(lambda: "refused" in receiver.output(), 10, "the forged request is not refused")
    finally:
        receiver.close()


def test_a_signature_verifies_by_hand_as_the_guide_says() -> None:
    guide = (ROOT / "docs" / "guides" / "verify-a-signature.md").read_text()
    (code,) = [
        block
        for block in re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
        if "def " in block
    ]
    written: dict[str, Any] = {}
    exec(code, written)
    is_signed, secrets, body = written["is_signed"], (new_signing_secret(), new_signing_secret()), b"body"
    now = int(time.time())
    headers = {"webhook-id": "exec_1", **signature_headers(secrets, "exec_1", now, body)}
    for secret in secrets:
        assert is_signed(signing_secret_text(secret), headers, body)
    assert not is_signed(signing_secret_text(new_signing_secret()), headers, body)
    assert not is_signed(signing_secret_text(secrets[0]), headers, b"another body")
    assert not is_signed(signing_secret_text(secrets[0]), headers | {"webhook-id": "exec_2"}, body)
    old = {"webhook-id": "exec_1", **signature_headers(secrets, "exec_1", now - 400, body)}
    assert not is_signed(signing_secret_text(secrets[0]), old, body)


@pytest.mark.parametrize(
    ("heading", "port", "server"),
    [
        ("Kafka", 9092, Kafka),
        ("NATS JetStream", 4222, "-p"),
        ("RabbitMQ", 5672, Rabbit),
        ("Redis", 6379, "--port"),
        ("SQS, by a stand-in", 9324, ElasticMq),
    ],
    ids=["kafka", "nats", "rabbitmq", "redis", "sqs"],
)
def test_from_a_broker_to_a_message_that_arrives_as_the_guide_says(
    checkout: Checkout, heading: str, port: int, server: type[Server] | str
) -> None:
    section = MESSAGES.read_text().split(f"### {heading}\n")[1].split("\n##")[0]
    start, consume, publish = shell_blocks(section)
    with broker(checkout, start, server) as address:
        consumer = checkout.process("consumer", f"{consume} {address}")
        try:
            wait_for(lambda: "waiting for messages" in consumer.output(), 30, "the consumer does not start")
            assert "reached in" in checkout.run(publish.replace(f"127.0.0.1:{port}", address))
            wait_for(lambda: consumer.output().count('{"order":7}') == 2, 30, "no message")
            assert consumer.output().count("exec_") == 2
        finally:
            consumer.close()


def test_from_a_grpc_server_to_a_call_that_it_gets_as_the_guide_says(checkout: Checkout) -> None:
    start, call = shell_blocks((ROOT / "docs" / "guides" / "grpc.md").read_text())
    port = free_port()
    server = checkout.process("grpc", f"{start} {port}")
    written = "examples/grpc/target.json"
    try:
        wait_for(lambda: "listening on" in server.output(), 20, "the server does not listen")
        printed = checkout.run(call.replace(f"$(cat {written})", f"$(sed s/9010/{port}/ {written})"))
        assert "Hello, world!" in printed
        wait_for(lambda: server.output().count("Hello world fire_at = 20") == 2, 30, "no call")
    finally:
        server.close()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_from_a_script_to_what_it_printed_as_the_guide_says(checkout: Checkout) -> None:
    start, run, look = shell_blocks((ROOT / "docs" / "guides" / "scripts.md").read_text())
    assert start == "TOCSIN_SCRIPTS=on tocsin serve"  # as the fixture does
    assert "order 7 at 20" in checkout.run(run)
    wait_for(lambda: "succeeded" in checkout.run(look), 30, "the script did not run")
    (execution,) = json.loads(checkout.run(f"{look} --json"))["items"]
    assert "order 7 at 20" in checkout.run(f"tocsin executions show {execution['id']}")


@contextmanager
def broker(checkout: Checkout, start: str, server: type[Server] | str) -> Iterator[str]:
    """The address of a broker: started as the guide does, on a port that this option sets, or a server of the
    tests in place of a container."""
    if not isinstance(server, str):
        assert start.startswith("docker run ")
        running = server()
        try:
            yield running.address
        finally:
            running.stop()
        return
    port = free_port()
    process = checkout.process("broker", f"{start} {server} {port}")
    try:
        wait_for(lambda: listens(port), 10, f"no broker: {process.last_words()}")
        yield f"127.0.0.1:{port}"
    finally:
        process.close()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_message_to_amazons_sqs_leaves_as_the_guide_says(checkout: Checkout) -> None:
    """A stand-in that verifies signatures gets it."""
    kind, written = SqsKind(), "sqs.eu-central-1.amazonaws.com --tls"
    (block,) = [one for one in shell_blocks(MESSAGES.read_text()) if f"--address {written}" in one]
    running = kind.server()
    try:
        asyncio.run(kind.make_stream(running))
        command = block.replace(written, running.address)
        assert "reached in" in checkout.run(command, SQS_SECRET_KEY=sqs_server.SECRET)
        wait_for(lambda: asyncio.run(kind.received(running)), 30, "no message")
        (message,) = asyncio.run(kind.received(running))
    finally:
        running.stop()
    assert json.loads(message.body) == {"order": 7}
    assert message.fields["idempotency-key"].startswith("exec_")


@pytest.mark.parametrize(
    "example",
    sorted([*(ROOT / "examples").glob("*.*"), *(ROOT / "examples" / "messages").glob("*")]),
    ids=lambda file: file.name,
)
def test_every_example_says_how_to_run_it(example: Path) -> None:
    assert re.search(rf"(python3|sh) {example.relative_to(ROOT)}", example.read_text()[:800])


def shell_blocks(text: str) -> list[str]:
    """What stands in fences marked `sh`: commands to run as they are."""
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
