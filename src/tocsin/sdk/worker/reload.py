"""`tocsin tasks serve --reload`, for development: a worker in a child process, started anew when a file of
the program changes.

A change asks the worker to drain, so it finishes what it runs. A worker that cannot start, because of a
syntax error for example, is tried again with the next change. The files are looked at twice a second: that
needs no dependency, and works on every file system.
"""

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tocsin.sdk.worker.beats import EXIT_STRAYS

_LOOK_EVERY: Final = 0.5
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
_log = logging.getLogger("tocsin.worker")
Look = Mapping[Path, tuple[int, int]]


class Reloader:
    """Keeps a command running. `look` says what its files are now."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], look: Callable[[], Look]
    ) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self._look = look
        self._stopped = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Until SIGTERM or SIGINT, or until the worker ends well by itself. Returns its exit code."""
        before = {
            number: signal.signal(number, self._signalled) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            return self._run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> int:
        while True:
            seen = self._look()
            self._child = subprocess.Popen(self._command, env=self._environment)
            why = self._wait_for_reason(self._child, seen)
            if why is None:
                return self._child.wait()
            _log.info("%s: the worker starts anew", why)
            self._child.terminate()
            self._child.wait()

    def _wait_for_reason(self, child: "subprocess.Popen[bytes]", seen: Look) -> str | None:
        """Why the worker is to be started anew. None: it is to end, or has ended as it should."""
        told = False
        while not self._stopped.wait(_LOOK_EVERY):
            code = child.poll()
            if code == 0:
                return None
            if code == EXIT_STRAYS:
                return "too many tasks did not stop"
            if code is not None and not told:
                told = True
                _log.warning("the worker ended with %d: it starts again when a file changes", code)
            if changed := changes(seen, self._look()):
                return f"{', '.join(sorted(map(str, changed)))} changed"
        return None

    def _signalled(self, number: int, _: object) -> None:
        self._stopped.set()
        if number == signal.SIGTERM and self._child is not None and self._child.poll() is None:
            self._child.terminate()  # a terminal sends SIGINT to the child, too


def changes(before: Look, after: Look) -> set[Path]:
    """The files that are new, gone or other than they were."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def look_at(directory: Path) -> Look:
    """The Python files below a directory, with their time and size."""
    return dict(_files(directory))


def _files(directory: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    for base, folders, names in os.walk(directory):
        folders[:] = [one for one in folders if not one.startswith(".") and one not in _SKIPPED]
        for name in names:
            if name.endswith(".py"):
                path = Path(base, name)
                try:
                    found = path.stat()
                except OSError:  # gone meanwhile
                    continue
                yield path.relative_to(directory), (found.st_mtime_ns, found.st_size)
