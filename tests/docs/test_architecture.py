"""Words with one meaning each, and files that exist: what developers read is right."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tocsin"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
CONCEPTS = ROOT / "docs" / "concepts.md"
WORDS_OF_THE_QUEUE = {
    "Allotment", "Armed", "Call", "Caller", "Claim", "Crowd", "Gate", "Held", "Holder", "Lane", "Line", "Look",
    "Low mark", "Offer", "Parked", "Place", "Queue", "Reclaim", "Route", "Settle", "Signal", "Slot", "Task",
    "Tenant caps", "Timetable", "Turn", "Wait", "Work", "Worker",
}  # fmt: skip


def words(page: Path) -> list[str]:
    return re.findall(r"^\| \*\*([^*]+)\*\* \|", page.read_text(), re.MULTILINE)


def test_every_word_of_the_queue_is_explained_once_on_a_page() -> None:
    for page in (ARCHITECTURE, CONCEPTS):
        assert len(set(words(page))) == len(words(page))
    assert WORDS_OF_THE_QUEUE - set(words(ARCHITECTURE)) - set(words(CONCEPTS)) == set()


def test_words_of_the_code_stand_in_order() -> None:
    code = [word for word in words(ARCHITECTURE) if word[0].isupper() and word in WORDS_OF_THE_QUEUE]
    assert code == sorted(code)


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.(?:py|sql))`", ARCHITECTURE.read_text())
    assert len(named) > 60
    assert [name for name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    """By its path in the sources or the repository, or by its name alone."""
    if (SOURCE / name).is_file() or (ROOT / name).is_file() or (ROOT / "src" / name).is_file():
        return True
    return "/" not in name and any(SOURCE.rglob(name))
