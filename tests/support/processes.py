"""Real `tocsin` processes that a test can kill, freeze, thaw and ask to stop.

Each writes what it says to a file of its own, shown when a test fails. A process ends with the test process
in any case: it holds the reading end of a pipe whose closing tells it to stop, and `Processes` kills what is
left.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

TAIL = 4000


class Process:
    """One process. It can be started again after it has died, under a new pid."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: dict[str, str],
        log: Path,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.environment = environment
        self.log = log
        self._cwd = cwd
        self._popen: subprocess.Popen[bytes] | None = None
        self._asked_to_end = False
        self._earlier_deaths: list[int] = []

    @property
    def pid(self) -> int:
        assert self._popen is not None, f"{self.name} was never started"
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return None if self._popen is None else self._popen.poll()

    @property
    def deaths(self) -> list[int]:
        """Exit codes of the times that it ended although nobody asked it to, nor killed it."""
        code = self.exit_code
        alone = code is not None and code != -signal.SIGKILL and not self._asked_to_end
        return [*self._earlier_deaths, code] if alone else self._earlier_deaths

    def start(self, **environment: str) -> None:
        """Start, with `environment` on top of the usual one."""
        assert not self.alive, f"{self.name} runs already"
        self._earlier_deaths = self.deaths
        self._asked_to_end = False
        self._close_pipe()
        with self.log.open("ab") as out:
            self._popen = subprocess.Popen(
                self.command,
                env=_bare_environment() | self.environment | environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=self._cwd,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it without a chance to do anything about it."""
        self._signal(signal.SIGKILL)
        self.wait(10)

    def freeze(self) -> None:
        """Stop it in its tracks; it does not know."""
        self._signal(signal.SIGSTOP)
        wait_for(lambda: state_of(self.pid) in "TZX", 10, f"{self.name} does not freeze")

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to stop in order."""
        self._asked_to_end = True
        self._signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended."""
        assert self._popen is not None, f"{self.name} was never started"
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds} s\n{self.last_words()}") from None

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def last_words(self) -> str:
        return f"--- the end of {self.name}'s log\n{self.output()[-TAIL:]}"

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.alive:
            self._signal(signal.SIGKILL)
            self.wait(10)
        self._close_pipe()

    def _signal(self, signum: signal.Signals) -> None:
        if self._popen is not None:
            self._popen.send_signal(signum)

    def _close_pipe(self) -> None:
        if self._popen is not None and self._popen.stdin is not None:
            self._popen.stdin.close()


class Processes:
    """The processes of one test, with one directory for their logs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._all: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._all:
            process.close()
        if kind is not None:
            for process in self._all:
                print(process.last_words())

    def tocsin(
        self,
        name: str,
        *arguments: str,
        wrap: Sequence[str] = (),
        cwd: Path | None = None,
        **environment: str,
    ) -> Process:
        """A `tocsin` command that is not started yet. `environment` gives `TOCSIN_…` variables in lower
        case."""
        variables = {f"TOCSIN_{key.upper()}": value for key, value in environment.items()}
        command = [*wrap, sys.executable, "-m", "tocsin", *arguments]
        process = Process(name, command, variables, self.directory / f"{name}.log", cwd)
        self._all.append(process)
        return process


_kept_ports: list[socket.socket] = []


def free_port() -> int:
    """A port of loopback that nobody listens on, kept for whoever asked until this process ends.

    A bound socket that does not listen keeps the kernel from giving the port to anybody else, be it another
    test or an outgoing connection, while servers, which reuse addresses, can still listen on it.
    """
    keeper = socket.socket()
    keeper.bind(("127.0.0.1", 0))
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _kept_ports.append(keeper)
    port: int = keeper.getsockname()[1]
    return port


def state_of(pid: int) -> str:
    """The kernel's letter for a process: R, S, D, T for frozen, Z for a zombie, X for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def children_of(pid: int) -> list[int]:
    """The processes that `pid` started and that are still there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid and state_of(int(entry.name)) not in "ZX":
                found.append(int(entry.name))
    return sorted(found)


def descendants_of(pid: int) -> list[int]:
    """Everything below a process, nearest first."""
    found = children_of(pid)
    for child in tuple(found):
        found += descendants_of(child)
    return found


def command_of(pid: int) -> list[str]:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def wait_for(condition: Callable[[], object], seconds: float, words: str) -> None:
    """Wait until `condition` holds; fail with `words` when it has not after a generous while."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{words} within {seconds} s"
        time.sleep(0.02)


def _bare_environment() -> dict[str, str]:
    """Ours without any TOCSIN_ variable that happens to be set."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
