"""The SDK's own command line, and what a worker in development looks at."""

import json
from pathlib import Path
from typing import Any

import pytest

from tocsin import App
from tocsin.domain.errors import Refused
from tocsin.sdk.command import SERVE, declare, load, words_of
from tocsin.sdk.worker.reload import changes, look_at


def test_a_worker_that_starts_anew_is_given_its_options_and_its_key_by_the_environment() -> None:
    given = {"queues": "a,b", "concurrency": 7, "api_key": "secret", "url": None, "reload": True}
    words, environment = words_of(SERVE, "shop:app", given)
    assert words == ("serve", "shop:app", "--queues", "a,b", "--concurrency", "7")
    assert environment == {"TOCSIN_API_KEY": "secret"}


def test_files_that_are_new_gone_or_changed_are_seen_and_those_of_others_are_not(tmp_path: Path) -> None:
    for name in ("kept.py", "gone.py", "changed.py", ".venv/theirs.py", "pkg/__pycache__/x.py", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    before = look_at(tmp_path)
    assert set(map(str, before)) == {"kept.py", "gone.py", "changed.py"}
    (tmp_path / "gone.py").unlink()
    (tmp_path / "changed.py").write_text("22")
    (tmp_path / "pkg/new.py").write_text("1")
    assert set(map(str, changes(before, look_at(tmp_path)))) == {"gone.py", "changed.py", "pkg/new.py"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shop.tasks", "is not MODULE:APP"),
        ("no_such_module:app", "cannot load no_such_module:app"),
        ("no_such_module:app", "run this where no_such_module is"),
        ("tocsin:__version__", "is not a tocsin.App"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_refused_in_words(name: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        load(name)


def test_what_was_declared_is_printed_as_the_answer_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: dict[str, Any] = {"status": "applied", "counts": {"refused": 1}, "plan": []}
    monkeypatch.setattr(App, "declare", lambda *_, **__: answer)
    assert declare(App("shop"), {"revision": 7, "dry_run": False, "json": True}) == 1
    assert json.loads(capsys.readouterr().out) == answer
