"""A shell command line as its words, if the shell would do nothing but pass them on.

Whatever needs a real shell (pipes, lists of commands, substitutions, unknown variables) is an `Unfit`.
Nothing is ever run.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tocsin.cli.importing.reading import Unfit

_REDIRECT: Final = re.compile(r"(\d?)(>>|>&|&>>|&>|>|<)\s*(&?[^\s;&|<>]+)")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_OPERATORS: Final = frozenset(";|&()<>")


class Line(NamedTuple):
    """The words of a command, and the files that its output goes to."""

    words: list[str]
    outputs: list[str]


def read_line(command: str, variables: Mapping[str, str]) -> Line:
    """The words of a command, with variables that are known filled in."""
    reader = _Reader(command.strip(), variables)
    return reader.read()


class _Reader:
    """`_word` is None between words."""

    def __init__(self, text: str, variables: Mapping[str, str]) -> None:
        self._text = text
        self._variables = variables
        self._at = 0
        self._word: str | None = None
        self._line = Line([], [])

    def read(self) -> Line:
        while self._at < len(self._text):
            letter = self._text[self._at]
            if self._word is None and (redirect := _REDIRECT.match(self._text, self._at)):
                self._redirect(redirect)
            elif letter.isspace():
                self._end_word()
                self._at += 1
            elif letter in _OPERATORS:
                if letter in "<>" or self._text.startswith("&>", self._at):
                    self._end_word()
                    continue
                raise Unfit("it needs a shell: more than one command in a line")
            else:
                self._letter(letter)
        self._end_word()
        return self._line

    def _redirect(self, found: re.Match[str]) -> None:
        if found[2] == "<":
            raise Unfit("it reads a file of its machine")
        if not found[3].startswith("&") and found[2] != ">&" and found[3] != "/dev/null":
            self._line.outputs.append(found[3])
        self._at = found.end()

    def _letter(self, letter: str) -> None:
        match letter:
            case "'":
                self._quoted(self._closing("'"))
            case '"':
                self._double_quoted()
            case "\\":
                self._add(self._text[self._at + 1 : self._at + 2])
                self._at += 2
            case "$":
                self._variable()
            case "`":
                raise Unfit("it needs a shell: a command within the command")
            case "#" if self._word is None:
                self._at = len(self._text)
            case _:
                self._add(letter)
                self._at += 1

    def _closing(self, quote: str) -> int:
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            raise Unfit("a quotation mark is not closed")
        return end

    def _quoted(self, end: int) -> None:
        self._add(self._text[self._at + 1 : end])
        self._at = end + 1

    def _double_quoted(self) -> None:
        self._add("")
        self._at += 1
        while (letter := self._text[self._at : self._at + 1]) != '"':
            if not letter:
                raise Unfit("a quotation mark is not closed")
            if letter == "\\" and self._text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`"):
                self._add(self._text[self._at + 1])
                self._at += 2
            elif letter == "$":
                self._variable()
            elif letter == "`":
                raise Unfit("it needs a shell: a command within the command")
            else:
                self._add(letter)
                self._at += 1
        self._at += 1

    def _variable(self) -> None:
        found = _VARIABLE.match(self._text, self._at)
        if found is None:
            if self._text.startswith(("$(", "${"), self._at):
                raise Unfit("it needs a shell: a command or a rule within the command")
            self._add("$")
            self._at += 1
            return
        name = found[1] or found[2]
        if name not in self._variables:
            raise Unfit(f"it needs ${name} of its machine")
        self._add(self._variables[name])
        self._at = found.end()

    def _add(self, text: str) -> None:
        self._word = (self._word or "") + text

    def _end_word(self) -> None:
        if self._word is not None:
            self._line.words.append(self._word)
        self._word = None
