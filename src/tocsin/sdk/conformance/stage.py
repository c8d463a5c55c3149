"""What a scenario works with: a gateway, the program, and questions about what was said.

A scenario waits for conditions, never for a while. Where it has to show that something does *not* happen, it
waits for something else that comes after it.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Self

from tocsin.domain.protocol import TaskSettlement
from tocsin.sdk.conformance.book import Book, Execution
from tocsin.sdk.conformance.gateway import KEY, ApiCall, Fault, Gateway
from tocsin.sdk.conformance.program import Program


class Unmet(Exception):
    """The program did something else than a scenario expects; the words say what was seen."""


class Stage:
    """One scenario's gateway and program. Nothing is shared between scenarios."""

    def __init__(
        self,
        command: Sequence[str],
        patience: float,
        *,
        lease_ms: int = 3000,
        heartbeat_ms: int = 200,
        clock_offset: float = 0.0,
    ) -> None:
        self.book = Book(lease_ms=lease_ms, heartbeat_ms=heartbeat_ms, clock_offset=clock_offset)
        self.gateway = Gateway(self.book)
        self.program = Program(command, {"TOCSIN_URL": self.gateway.url, "TOCSIN_API_KEY": KEY})
        self._patience = patience

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.close()
        self.gateway.close()

    def begin(self) -> None:
        """Start the program, and wait for it to register."""
        self.program.start()
        self.until(lambda: self.book.workers, "the worker did not register")

    def enqueue(self, task: str, payload: Any = None, *, timeout_ms: int = 30_000) -> Execution:
        """Work for the program: `task` without its prefix."""
        return self.book.add(f"conformance.{task}", {} if payload is None else payload, timeout_ms)

    def fault(self, *verbs: str, **how: Any) -> Fault:
        """Have something go wrong."""
        fault = Fault(verbs, **how)
        with self.book.changed:
            self.gateway.faults.append(fault)
        return fault

    def settled(self, execution: Execution, *verdicts: str) -> TaskSettlement:
        """How it ended, once it has: as one of these verdicts, if any are given."""
        self.until(lambda: execution.settled, f"{execution.task} was not settled")
        told = execution.settled
        if told is None:
            raise Unmet(f"{execution.task} is not settled")
        if verdicts and told.verdict not in verdicts:
            raise Unmet(f"{execution.task} was settled as {told.verdict}: {told.error or told.reason or ''}")
        return told

    def running(self, execution: Execution) -> None:
        """Wait until a heartbeat has named it."""
        self.until(lambda: execution.named, f"no heartbeat named {execution.task}")

    def still_works(self) -> None:
        """The worker goes on: it runs something more."""
        told = self.settled(self.enqueue("echo", {"value": "still here"}), "succeeded")
        expect(told.result == "still here", f"echo gave {told.result!r}")

    def sent(self, execution: Execution) -> list[ApiCall]:
        """The calls that carried a settlement of it."""
        with self.book.changed:
            return [
                call for call in self.gateway.calls if any(one.id == execution.id for one in call.settlements)
            ]

    def count(self, verb: str) -> int:
        """How often it was called."""
        with self.book.changed:
            return sum(call.verb == verb for call in self.gateway.calls)

    def ended(self, *codes: int) -> int:
        """Wait for the program to end: with one of these codes, if any are given."""
        self.until(lambda: self.program.exit_code is not None, "the worker did not end", ends=True)
        code = self.program.exit_code
        if code is None or (codes and code not in codes):
            raise Unmet(f"the worker ended with {code}")
        return code

    def until(self, condition: Callable[[], object], otherwise: str, *, ends: bool = False) -> None:
        """Wait for a condition. A program that ends meanwhile will not meet it, unless that is what `ends`
        waits for."""
        until = monotonic() + self._patience
        with self.book.changed:
            while not condition():
                code = self.program.exit_code
                if code is not None and not ends:
                    raise Unmet(f"{otherwise}: the worker ended with {code}")
                if monotonic() >= until:
                    raise Unmet(f"{otherwise} within {self._patience:g} s")
                self.book.changed.wait(0.05)

    def judge(self) -> None:
        """What must hold whatever the scenario."""
        with self.book.changed:
            if self.book.violations:
                raise Unmet("; ".join(dict.fromkeys(self.book.violations)))


def expect(holds: object, otherwise: str) -> None:
    """Raises `Unmet` unless it holds."""
    if not holds:
        raise Unmet(otherwise)
