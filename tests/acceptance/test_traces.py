"""Real processes send traces to a collector: of the creation, and of every attempt."""

import json
from pathlib import Path
from typing import Any

from tests.acceptance.receiver import NOW, Place, running
from tests.support.otlp import collecting
from tests.support.postgres import Cluster
from tests.support.processes import wait_for
from tocsin.domain.traces import trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def _fired(place: Place) -> dict[str, Any]:
    """The execution of a one-off that fails once, created by a request that is a part of a trace."""
    body = {
        "schedule": NOW,
        "target": {"kind": "http", "url": place.receiver.url + "/flaky"},
        "retry": {"max_attempts": 2, "initial_backoff": "50ms"},
    }
    caller = (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())
    created = place.api.call("POST", "/v1/jobs", json.dumps(body).encode(), headers=(caller,))
    return place.api.wait_for(created.json(), "succeeded")


def test_a_request_its_execution_and_its_retries_are_told_as_traces(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.new_database()
    with collecting() as collector:
        with running(url, tmp_path, otlp_endpoint=collector.url) as place:
            execution = _fired(place)
            wait_for(lambda: collector.spans("execution") and collector.spans("create"), 60, "no traces came")
            told = [request.headers["traceparent"].split("-") for request in place.receiver.of("/flaky")]
        attempts, (root,) = collector.spans("attempt"), collector.spans("execution")
        (created,) = collector.spans("create")
    cluster.drop(url)
    assert [(span.trace_id.hex(), span.span_id.hex()) for span in attempts] == [
        (one[1], one[2]) for one in told
    ]
    assert root.trace_id.hex() == trace_of(execution["id"])
    assert created.trace_id.hex() == TRACE
    assert [link.span_id for link in created.links] == [root.span_id]
