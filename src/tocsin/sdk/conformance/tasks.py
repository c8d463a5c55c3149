"""The tasks that a conformance run asks for, in Python: our own worker is judged by serving them.

``tocsin conformance -- tocsin tasks serve tocsin.sdk.conformance.tasks:app``
"""

import os
import time
from typing import Any

from tocsin.domain.errors import Refused
from tocsin.sdk.app import App
from tocsin.sdk.context import current
from tocsin.sdk.outcomes import Postpone, Rejected, RetryAfter, Skip

app = App("conformance")


@app.task
def echo(value: Any) -> Any:
    """Give back what was given."""
    return value


@app.task
def attempt() -> dict[str, Any]:
    """Tell which attempt this is, and its key."""
    return {"attempt": current().attempt, "idempotency_key": current().idempotency_key}


@app.task
def fail(message: str) -> None:
    """Fail."""
    raise Refused(message)


@app.task
def reject(message: str) -> None:
    """Fail for good."""
    raise Rejected(message)


@app.task
def again(wait_ms: int) -> None:
    """Fail, and ask for another attempt after a while."""
    raise RetryAfter(wait_ms / 1000)


@app.task
def postpone(wait_ms: int, reason: str) -> None:
    """Not now."""
    raise Postpone(wait_ms / 1000, reason)


@app.task
def skip(reason: str) -> None:
    """Nothing to do."""
    raise Skip(reason)


@app.task
def sleep(seconds: float) -> str:
    """Wait, and be stoppable meanwhile."""
    current().stopped.wait(seconds)
    current().check()
    return "slept"


@app.task
def spin(seconds: float) -> None:
    """Keep a core busy."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@app.task
def progress(share: float, note: str) -> None:
    """Tell how far it is, then wait to be stopped."""
    current().progress(share, note)
    sleep(3600)


@app.task
def log(lines: int, seconds: float) -> None:
    """Write lines, spread over some seconds."""
    for number in range(1, lines + 1):
        current().log.info(f"line {number}", number=number)
        time.sleep(seconds / lines)


@app.task
def large(bytes: int) -> str:  # noqa: A002 - the name in the payload
    """Return a text of that size."""
    return "x" * bytes


@app.task
def crash() -> None:
    """End the process, without a word."""
    os._exit(137)
