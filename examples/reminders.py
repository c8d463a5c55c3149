"""Reminders: creates a few jobs over HTTP, follows them, and cancels one in time. Standard library only.

Run it in the directory where `make run` (or `tocsin serve`) was started:

    python3 examples/reminders.py

The script listens on a free loopback port for the reminders, so the server must be allowed to call loopback
addresses. `tocsin serve` with its embedded database is; elsewhere set TOCSIN_ALLOW_LOOPBACK=true.
Another server: TOCSIN_URL=http://host:8420 TOCSIN_API_KEY=… python3 examples/reminders.py
"""

import json
import os
import threading
import time
import urllib.request
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FINAL = {"succeeded", "dead", "cancelled", "skipped", "expired"}
GIVE_UP_AFTER = 30.0


class Tocsin:
    """As much of a client as the script needs."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def get(self, path: str) -> Any:
        """Read something."""
        return self._ask("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        """Do something."""
        return self._ask("POST", path, b"" if body is None else json.dumps(body).encode())

    def _ask(self, method: str, path: str, data: bytes | None = None) -> Any:
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


class Bell(BaseHTTPRequestHandler):
    """Prints each reminder as it arrives."""

    def do_POST(self) -> None:
        """A reminder is due."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        print(f"  ring: {body['text']}  (due {self.headers['tocsin-fire-at']})", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as it is called there
        """The line above is enough."""


def connect() -> Tocsin:
    """The server and key that the environment names, else those of a local `serve`."""
    key = os.environ.get("TOCSIN_API_KEY")
    if not key:
        directory = os.environ.get("TOCSIN_DATA_DIR") or ".tocsin"
        key = Path(directory, "admin-key").read_text().strip()
    return Tocsin(os.environ.get("TOCSIN_URL") or "http://127.0.0.1:8420", key)


def remind(tocsin: Tocsin, bell: str, text: str, schedule: dict[str, Any]) -> str:
    """Create one reminder. Returns the job's id."""
    job = tocsin.post(
        "/v1/jobs",
        {
            "name": text,
            "schedule": schedule,
            "target": {"kind": "http", "url": bell, "body": {"text": text}, "timeout": "5s"},
            "retry": {"max_attempts": 3},
            "tags": ["reminder"],
        },
    )
    print(f"{job['id']}  {text}: first at {job['next_fire_at']}", flush=True)
    return str(job["id"])


def follow(tocsin: Tocsin, job_ids: list[str]) -> list[dict[str, Any]]:
    """Wait until the jobs have nothing left to do. Returns their executions."""
    give_up_at = time.monotonic() + GIVE_UP_AFTER
    while time.monotonic() < give_up_at:
        states = {tocsin.get(f"/v1/jobs/{job_id}")["state"] for job_id in job_ids}
        executions = [e for i in job_ids for e in tocsin.get(f"/v1/jobs/{i}/executions")["items"]]
        if states <= {"completed", "cancelled"} and all(e["state"] in FINAL for e in executions):
            return executions
        time.sleep(0.2)
    raise SystemExit(f"not done after {GIVE_UP_AFTER:.0f} s")


def main() -> None:
    """Create, cancel one, follow the others."""
    tocsin = connect()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bell)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bell = f"http://127.0.0.1:{server.server_port}/ring"

    tea = remind(tocsin, bell, "tea is ready", {"in": "2s"})
    stretch = remind(tocsin, bell, f"stretch {os.getpid()}", {"every": "1s", "max_fires": 3})
    meeting = remind(tocsin, bell, "the meeting begins", {"in": "1h"})

    answer = tocsin.post(f"/v1/jobs/{meeting}/cancel", {"reason": "the meeting was called off"})
    print(f"{meeting}  {answer['job']['state']}: {answer['cancelled']} execution called off", flush=True)

    executions = follow(tocsin, [tea, stretch, meeting])
    server.shutdown()
    print()
    for execution in sorted(executions, key=lambda e: datetime.fromisoformat(e["fire_at"])):
        lag = "" if execution["lag_ms"] is None else f"lag {execution['lag_ms']:.1f} ms"
        print(f"{execution['fire_at']:<28} {execution['state']:<10} {execution['reason'] or lag}")


if __name__ == "__main__":
    main()
