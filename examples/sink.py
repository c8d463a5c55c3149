"""A tiny HTTP sink: prints every request that arrives. Standard library only.

Run it:

    python3 examples/sink.py            # listens on 127.0.0.1:9009
    python3 examples/sink.py 9100       # another port

What a path answers:

    /anything        200
    /status/503      that status
    /flaky/2         503 to the first 2 attempts of an execution, 200 to the third
    /slow/20         200, after 20 seconds

Each arrival is one line: time, method, path, attempt, fire time, execution, body.
"""

import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_STOPPING = threading.Event()


class Sink(BaseHTTPRequestHandler):
    """Answers by path and prints what came."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        """Print the request, then answer it."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        arrived = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        attempt = self.headers.get("tocsin-attempt", "-")
        print(
            arrived,
            self.command,
            self.path,
            f"attempt={attempt}",
            f"fire_at={self.headers.get('tocsin-fire-at', '-')}",
            self.headers.get("tocsin-execution", "-"),
            body.decode("utf-8", "backslashreplace"),
            flush=True,
        )
        status = _status(self.path, attempt)
        try:
            self._send(status, f"{status}\n".encode())
        except ConnectionError:
            print("  the caller hung up before the answer", flush=True)
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the base class's names

    def _send(self, status: int, words: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(words)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(words)

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as it is called there
        """Our own line says more than the default one."""


def _status(path: str, attempt: str) -> int:
    match path.strip("/").split("/"):
        case ["status", code] if code.isdigit() and 200 <= int(code) <= 599:
            return int(code)
        case ["flaky", count] if count.isdigit():
            return 503 if attempt.isdigit() and int(attempt) <= int(count) else 200
        case ["slow", seconds] if seconds.isdigit():
            _STOPPING.wait(int(seconds))
            return 200
        case _:
            return 200


def main() -> None:
    """Serve until interrupted."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9009
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Sink)
    except OSError as error:
        sys.exit(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; give another port: sink.py {port + 1}"
        )
    server.daemon_threads = True
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        _STOPPING.set()
        server.server_close()


if __name__ == "__main__":
    main()
