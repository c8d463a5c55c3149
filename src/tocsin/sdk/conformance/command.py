"""`tocsin conformance` as both command lines have it: the server's, and, where only the SDK is installed, the
standard library's."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.domain.errors import Refused
from tocsin.sdk.conformance.run import SCENARIOS, Verdict, judge


def conform(
    command: Sequence[str], *, only: str | None, at_once: int, patience: float, listed: bool, as_json: bool
) -> int:
    """Judge a command, and print a line per scenario. Returns the exit code."""
    chosen = [one for one in SCENARIOS if only is None or only.lower() in one.name.lower()]
    if not chosen:
        raise Refused(f"no scenario has {only!r} in its name; --list names them", field="only")
    if listed:
        for one in chosen:
            _say(f"{one.name}: {one.expects}")
        return 0
    if not command:
        raise Refused("name the command of the worker, after --", field="command")
    missed = 0
    for number, verdict in enumerate(judge(command, chosen, at_once=at_once, patience=patience), start=1):
        missed += not verdict.passed
        _say(_as_json(verdict) if as_json else _as_text(number, verdict))
    if not as_json:
        _say(f"{len(chosen) - missed} of {len(chosen)} scenarios passed")
    return 1 if missed else 0


def run(words: Sequence[str]) -> int:
    """The words after `tocsin conformance`, read by the standard library."""
    parser = argparse.ArgumentParser(
        "tocsin conformance", description="Test a worker against the worker protocol."
    )
    parser.add_argument("--only", metavar="TEXT", help="Play the scenarios whose name has this text in it.")
    parser.add_argument(
        "--at-once",
        type=int,
        choices=range(1, 33),
        default=4,
        metavar="NUMBER",
        help="Scenarios played at once.",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="How long the worker has for each step.",
    )
    parser.add_argument(
        "--list", dest="listed", action="store_true", help="List the scenarios and run nothing."
    )
    parser.add_argument(
        "--json", dest="as_json", action="store_true", help="Print a line of JSON per scenario."
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="The worker's command, after --.")
    given = vars(parser.parse_args(words))
    try:
        return conform(given.pop("command"), **given)
    except Refused as error:
        parser.error(str(error))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command speaks to its terminal


def _as_text(number: int, verdict: Verdict) -> str:
    one = verdict.scenario
    word = _coloured("passed", 32) if verdict.passed else _coloured("FAILED", 31)
    line = f"{number:2} {word}  {one.name:26}  expected: {one.expects}; seen: {verdict.seen}"
    printed = "".join(f"\n             | {text}" for text in verdict.printed.splitlines()[-12:])
    return line + printed


def _coloured(word: str, code: int) -> str:
    return f"\033[{code}m{word}\033[0m" if sys.stdout.isatty() else word


def _as_json(verdict: Verdict) -> str:
    one = verdict.scenario
    told: dict[str, Any] = {
        "name": one.name, "expected": one.expects, "passed": verdict.passed, "seen": verdict.seen,
        "printed": verdict.printed,
    }  # fmt: skip
    return msgspec.json.encode(told).decode()
