"""Prose in Markdown is at most 110 columns wide, like the code."""

import re
from pathlib import Path

import pytest

from tests.docs.test_links import PAGES, ROOT

WIDTH = 110
FENCE = re.compile(r"\s*(```|~~~)")
NOT_PROSE = ("|", "#", "!", "<")  # tables, headings, images, HTML
WHOLE = re.compile(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+")  # what is never broken: code, links, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_not_too_wide(page: Path) -> None:
    wide, fenced = [], False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and too_wide(line):
            wide.append(f"{number}: {line[:60]} …")
    assert not wide, "\n".join(wide)


@pytest.mark.parametrize(
    ("line", "wide"),
    [
        ("word " * 21 + "words", False),
        ("word " * 21 + "longer", True),
        ("| " + "cell " * 30 + "|", False),
        (f"`{'a command ' * 12}`.", False),
        (f"- [{'a link ' * 12}](somewhere.md)", False),
        (f"Run `{'a command ' * 12}` and see.", True),
    ],
)
def test_what_counts_as_too_wide(line: str, wide: bool) -> None:
    assert too_wide(line) is wide


def too_wide(line: str) -> bool:
    """A line that could be broken: it has more than one piece beside a mark of a list."""
    if len(line) <= WIDTH or line.lstrip().startswith(NOT_PROSE):
        return False
    return len(WHOLE.findall(re.sub(r"^\s*(?:[-*+]|\d+\.)\s", "", line))) > 1
