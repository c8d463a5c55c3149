"""The SDK's own command line, and what a worker in development looks at."""

from pathlib import Path

import pytest

from tocsin.domain.errors import Refused
from tocsin.sdk.command import SERVE, load, words_of
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
        ("tocsin:__version__", "is no App"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_refused_in_words(name: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        load(name)
