"""The program under test: started, signalled, and ended with everything it started."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

_TAIL: Final = 2000


class Program:
    """One process of the command, in a process group of its own. What it prints is kept."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; also again, once it has ended."""
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=self._output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def terminate(self) -> None:
        """SIGTERM, to the process itself and not to its children."""
        if self._process is not None and self.exit_code is None:
            self._process.terminate()

    def kill(self) -> None:
        """End it and whatever it started, at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Leave nothing behind."""
        self.kill()
        self._output.close()

    def printed(self) -> str:
        """The end of what it has printed."""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _TAIL))
        text = self._output.read().decode(errors="replace")
        self._output.seek(0, os.SEEK_END)
        return text.strip()
