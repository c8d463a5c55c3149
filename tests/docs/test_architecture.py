"""Words with one meaning each, and files that exist: what developers read is right."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tocsin"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
CONCEPTS = ROOT / "docs" / "concepts.md"
ORDINARY = {
    "assembly", "beat", "beginning", "connection", "deadline", "entry", "found", "handing", "host", "kernel", "kind", "late", "lateness",
    "left", "log", "loop", "name", "others", "reason", "ref", "removal", "returner", "served", "timeout", "told", "traced", "unused",
    "view", "wanted",
}  # fmt: skip
"""Words in the names of `queue/` and `worker/` that mean what they mean everywhere."""
ENDINGS = ("ments", "ment", "ings", "ing", "ers", "er", "ies", "ed", "es", "s", "e", "y")


def words(page: Path) -> list[str]:
    return re.findall(r"^\| \*\*([^*]+)\*\* \|", page.read_text(), re.MULTILINE)


def test_every_word_is_explained_once_on_a_page() -> None:
    for page in (ARCHITECTURE, CONCEPTS):
        assert len(set(words(page))) == len(words(page))


def test_every_word_that_names_a_class_or_module_of_the_queue_and_the_worker_is_explained() -> None:
    explained = {
        stem(part) for page in (ARCHITECTURE, CONCEPTS) for word in words(page) for part in word.split()
    }
    used = {word: name for name in names_of("queue", "worker") for word in name.split()}
    missing = {word for word in used if stem(word) not in explained}
    unknown = {word: used[word] for word in missing if stem(word) not in {stem(one) for one in ORDINARY}}
    assert unknown == {}, "explain them in docs/architecture.md"
    assert {stem(one) for one in ORDINARY} <= {stem(word) for word in missing}, "no names have these any more"


def names_of(*folders: str) -> set[str]:
    """The names of modules and public classes, in words."""
    found = set()
    for path in (path for folder in folders for path in (SOURCE / folder).rglob("*.py")):
        found.add(path.stem.strip("_").replace("_", " ") if path.stem != "__init__" else "")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.add(" ".join(re.findall("[A-Z][a-z]*", node.name)).lower())
    return found


def stem(word: str) -> str:
    """What claim, claims, claimer and claiming have in common."""
    word = word.lower()
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
    return word


def test_words_of_the_code_stand_in_order() -> None:
    table = ARCHITECTURE.read_text().partition("## Words that only the code uses")[2].partition("\n## ")[0]
    code = re.findall(r"^\| \*\*([^*]+)\*\* \|", table, re.MULTILINE)
    assert len(code) > 50
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
