"""The stream of events over a real socket: what it tells, and that it holds nothing up."""

import http.client
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.processes import Processes, free_port
from tocsin.store.keys import KeyStore

PATIENCE = 30


def pulse(stream: http.client.HTTPResponse) -> dict[str, Any]:
    """The next pulse."""
    while True:
        line = stream.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            told: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            return told


def test_a_stream_tells_what_ended_and_ends_in_order_when_the_process_is_told_to_stop(url: str) -> None:
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    with tempfile.TemporaryDirectory() as logs, Processes(Path(logs)) as processes:
        api = RealApi(free_port())
        shared = {"database_url": url, "allow_loopback": "true"}
        process = processes.tocsin("api", "api", "--port", str(api.port), **shared)
        engine = processes.tocsin("engine", "engine", **shared)
        process.start()
        engine.start()
        api.wait_until_ready(process, PATIENCE)
        connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE)
        connection.request("GET", "/v1/events", headers={"authorization": f"Bearer {ADMIN_KEY}"})
        stream = connection.getresponse()
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert pulse(stream)["ended"] == []
        api.create(name="told", schedule={"now": True})
        while not (ended := pulse(stream)["ended"]):
            pass
        assert [(one["name"], one["state"]) for one in ended] == [("told", "succeeded")]
        process.terminate()
        stream.read()  # would raise if the connection were cut after its time of grace
        assert process.wait(PATIENCE) == 0
        connection.close()
        engine.terminate()
        assert engine.wait(PATIENCE) == 0
