"""The stream of events over a real socket: what it tells, and that it holds nothing up."""

import http.client
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.processes import Processes, free_port, wait_for
from tocsin.store.keys import KeyStore

PATIENCE = 30
LEASE_TTL = "1.5"


def events(stream: http.client.HTTPResponse, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the stream tells of these kinds."""
    kind = ""
    while line := stream.readline().decode():
        name, _, value = line.rstrip().partition(": ")
        if name == "event":
            kind = value
        elif name == "data" and kind in kinds:
            yield kind, json.loads(value)


def open_stream(port: int, key: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/v1/events", headers={"authorization": f"Bearer {key}"})
    return connection, connection.getresponse()


def pulse(stream: http.client.HTTPResponse) -> dict[str, Any]:
    """What the next event tells."""
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
        connection, stream = open_stream(api.port, ADMIN_KEY)
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert pulse(stream)["ended"] == []
        api.create(name="told", schedule={"now": True})
        while not (ended := pulse(stream).get("ended")):
            pass
        assert [(one["name"], one["state"]) for one in ended] == [("told", "succeeded")]
        made = api.post("/v1/operations", {"do": "delete", "of": "jobs", "where": {}}).json()["operation"]
        while (told := pulse(stream)).get("id") != made["id"] or told["state"] != "completed":
            pass
        assert (told["do"], told["matched"], told["done"]) == ("delete", 1, 1)
        assert api.get("/v1/jobs").json()["items"] == []
        process.terminate()
        stream.read()  # would raise if the connection were cut after its time of grace
        assert process.wait(PATIENCE) == 0
        connection.close()
        engine.terminate()
        assert engine.wait(PATIENCE) == 0


def test_a_killed_node_and_the_takeover_of_its_shards_are_told_to_operators(url: str) -> None:
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    with tempfile.TemporaryDirectory() as logs, Processes(Path(logs)) as processes:
        api = RealApi(free_port())
        shared = {"database_url": url, "lease_ttl": LEASE_TTL}
        process = processes.tocsin("api", "api", "--port", str(api.port), **shared)
        victim = processes.tocsin("victim", "engine", **shared)
        for one in (process, victim):
            one.start()
        api.wait_until_ready(process, PATIENCE)
        wait_for(lambda: owners(api) != {None}, PATIENCE, "nobody took the shards")
        (lost,) = owners(api)
        connection, stream = open_stream(api.port, ADMIN_KEY)
        heir = processes.tocsin("heir", "engine", **shared)
        told = events(stream, "node", "lease")
        heir.start()
        assert next(one["what"] for kind, one in told if kind == "node") == "joined"
        victim.kill()
        gone = next(one for kind, one in told if kind == "node")
        assert (gone["id"], gone["what"]) == (lost, "gone")
        taken: dict[int, Any] = {}
        while len(owners(api)) > 1 or len(taken) < 16:
            kind, one = next(told)
            if kind == "lease":
                taken |= {move["shard"]: move for move in one["moves"] if move["from"] == lost}
        assert all(move["to"] not in (lost, None) and move["epoch"] > 1 for move in taken.values())
        process.terminate()
        stream.read()
        assert process.wait(PATIENCE) == 0
        connection.close()


def owners(api: RealApi) -> set[int | None]:
    return {shard["owner"] for shard in api.get("/v1/shards").json()["items"]}
