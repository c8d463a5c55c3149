"""Secrets that this worker cannot open: left to workers that have the key, told and counted."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import structlog

from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.sealing import SecretBox
from tocsin.domain.secrets import SecretRef
from tocsin.domain.target import HttpTarget
from tocsin.domain.waits import Reason
from tocsin.store.secrets import SecretStore
from tocsin.targets.assignment import Assignment
from tocsin.targets.http.caller import HttpCaller
from tocsin.worker.vault import Vault

NOW = 1_900_000_000 * SECOND
HERE, ELSEWHERE = SecretBox([b"h" * 32]), SecretBox([b"e" * 32])
TARGET = HttpTarget("https://example.com/", headers={"X-Token": SecretRef("token")})


class Rows:
    """A database with one secret."""

    def __init__(self, key_id: str, sealed: bytes) -> None:
        self._row = {"name": "token", "key_id": key_id, "sealed": sealed}

    async def fetch(self, *_: object) -> list[dict[str, Any]]:
        return [self._row]


def attempt(
    rows: Rows, box: SecretBox | None, left: Callable[[], None] = lambda: None
) -> Outcome | Postponed:
    vault = Vault(SecretStore(rows, box), SimpleNamespace(), left)  # type: ignore[arg-type]
    clock: Any = SimpleNamespace(now=lambda: NOW)

    async def call() -> Outcome | Postponed:
        due_at = NOW - 7 * SECOND
        assignment = Assignment(UUID(int=1), due_at, 1, 1, 1, due_at, due_at, NOW)
        return await HttpCaller(SimpleNamespace(), clock, vault).call(assignment, TARGET, 5.0)  # type: ignore[arg-type]

    return asyncio.run(call())


@pytest.mark.parametrize("box", [HERE, None], ids=["another key", "no key"])
def test_a_secret_whose_key_is_not_here_spends_no_attempt(box: SecretBox | None) -> None:
    rows, left = Rows(ELSEWHERE.key_id, ELSEWHERE.seal(1, "token", b"s3cret")), []
    with structlog.testing.capture_logs() as logs:
        answer = attempt(rows, box, lambda: left.append(1))
    assert answer == Postponed(7 * SECOND, Reason.KEY)
    assert left == [1]
    assert [(entry["event"], entry["secret"]) for entry in logs] == [("secrets.left_to_others", "token")]


def test_a_secret_that_is_damaged_fails_the_attempt() -> None:
    answer = attempt(Rows(HERE.key_id, b"x" * 40), HERE)
    assert isinstance(answer, Outcome)
    assert answer.verdict is Verdict.FAILED
    assert "damaged" in (answer.error or "")
