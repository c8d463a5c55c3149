"""A script: source text that a worker runs in a sandbox, within limits.

Installations run no scripts unless their operator says so (`ScriptRules`), and then only in the interpreters
on the operator's list. What a script may use is bounded by its own limits, and these by the bounds here.
"""

import re
from typing import Annotated, Any, ClassVar, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import HOUR, SECOND, Span, parse_span
from tocsin.domain.nesting import check_depth, too_deep
from tocsin.domain.secrets import SecretRef, check_secret_name
from tocsin.domain.written import WrittenTimeout, at_most, between, described

SCRIPT: Final = "script"
KIB: Final = 1024
MIB: Final = 1024 * KIB
MAX_SOURCE: Final = 256 * KIB
MAX_STDIN: Final = 256 * KIB
MAX_ARGS: Final = 64
MAX_ARG: Final = 4 * KIB
MAX_ENV: Final = 64
MAX_TIME: Final = HOUR
SCRIPT_MARGIN: Final = 10 * SECOND
"""What a worker may need beyond the script's own time, to start it and to end it."""
_SIZE: Final = r"[0-9]{1,6} ?(KiB|MiB|GiB)"
_UNITS: Final = {"KiB": KIB, "MiB": MIB, "GiB": 1024 * MIB}
_BOUNDS: Final = {
    "memory": (16 * MIB, 4096 * MIB),
    "output": (1, 256 * KIB),
    "disk": (64 * KIB, 4096 * MIB),
}
_INTERPRETER: Final = r"[a-z0-9][a-z0-9._+-]{0,62}"
_VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
_OURS: Final = ("TOCSIN_", "TRACEPARENT")
WrittenSize = (
    Annotated[str, described(pattern=f"^{_SIZE}$", examples=["256MiB"])]
    | Annotated[int, between(1, 4096 * MIB)]
)


class ScriptRules(msgspec.Struct, frozen=True):
    """What the operator allows."""

    interpreters: tuple[str, ...]
    network: bool = False
    """Whether a script may ask for the network of the worker's machine."""


class ScriptLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a script may use."""

    time: WrittenTimeout = "30s"
    memory: WrittenSize = "256MiB"
    """Of each process as address space, and of all of them together as resident memory."""
    processes: Annotated[int, between(1, 512)] = 32
    output: WrittenSize = "64KiB"
    """Kept of each of stdout and stderr."""
    disk: WrittenSize = "64MiB"
    """Of files in /tmp."""
    network: bool = False


class ScriptTarget(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="script",
):
    """A script in a sandbox. `stdin` that is not a string is given as JSON."""

    answers_at_once: ClassVar[bool] = False
    interpreter: Annotated[str, described(pattern=f"^{_INTERPRETER}$", examples=["python3", "bash"])]
    source: Annotated[str, described(minLength=1, maxLength=MAX_SOURCE)]
    args: Annotated[tuple[Annotated[str, described(maxLength=MAX_ARG)], ...], at_most(MAX_ARGS)] = ()
    env: Annotated[
        dict[Annotated[str, described(pattern=f"^{_VARIABLE}$")], str | SecretRef],
        described(maxProperties=MAX_ENV),
    ] = {}
    stdin: Any = None
    limits: ScriptLimits = ScriptLimits()


def size_of(written: int | str, field: str) -> int:
    """A size in bytes."""
    if isinstance(written, int):
        return written
    if not re.fullmatch(_SIZE, written):
        raise Refused(f"{written[:20]!r} is not a size such as 64KiB or 256MiB", field=field)
    return int(written[:-3]) * _UNITS[written[-3:]]


def script_timeout(target: ScriptTarget, of_job: str | float | None) -> Span:
    """How long an attempt may take in all: the script's time, or the job's timeout if that is shorter, and a
    margin in which the script is started and ended."""
    given = [parse_span(target.limits.time, "target.limits.time")]
    if of_job is not None:
        given.append(parse_span(of_job, "timeout"))
    return min(given) + SCRIPT_MARGIN


def stdin_of(target: ScriptTarget) -> bytes:
    """What the script reads."""
    match target.stdin:
        case None:
            return b""
        case str() as text:
            return text.encode()
        case value:
            return msgspec.json.encode(value)


def check_script(target: ScriptTarget) -> None:
    """Refuse what no worker could run."""
    if not re.fullmatch(_INTERPRETER, target.interpreter):
        raise Refused("an interpreter is a plain name such as python3", field="target.interpreter")
    _check_text(target.source, "target.source", MAX_SOURCE)
    if not target.source:
        raise Refused("the script is empty", field="target.source")
    if len(target.args) > MAX_ARGS:
        raise Refused(f"at most {MAX_ARGS} arguments", field="target.args")
    for number, argument in enumerate(target.args):
        _check_text(argument, f"target.args[{number}]", MAX_ARG)
    _check_env(target.env)
    _check_stdin(target)
    _check_limits(target.limits)


def check_interpreters(names: tuple[str, ...], field: str) -> None:
    """Refuse a list of interpreters that names none, or what cannot be one."""
    if not names or not all(re.fullmatch(_INTERPRETER, name) for name in names):
        raise Refused("interpreters are plain names such as python3, one at least", field=field)


def check_rules(target: ScriptTarget, rules: ScriptRules | None) -> None:
    """Refuse what the operator does not allow. None: no scripts at all."""
    if rules is None:
        raise Refused(
            "this installation runs no scripts",
            field="target.kind",
            hint="an operator may set TOCSIN_SCRIPTS=on, on API processes and workers",
        )
    if target.interpreter not in rules.interpreters:
        known = ", ".join(rules.interpreters)
        raise Refused(f"the interpreters of this installation are {known}", field="target.interpreter")
    if target.limits.network and not rules.network:
        raise Refused(
            "scripts have no network on this installation",
            field="target.limits.network",
            hint="an operator may set TOCSIN_SCRIPT_NETWORK=true",
        )


def _check_env(env: dict[str, str | SecretRef]) -> None:
    if len(env) > MAX_ENV:
        raise Refused(f"at most {MAX_ENV} variables", field="target.env")
    for name, value in env.items():
        field = f"target.env.{name[:64]}"
        if not re.fullmatch(_VARIABLE, name):
            raise Refused("a variable has letters, digits and _, and no digit first", field=field)
        if name.startswith(_OURS):
            raise Refused("this variable is set by Tocsin", field=field)
        if isinstance(value, SecretRef):
            check_secret_name(value.secret, field)
        else:
            _check_text(value, field, MAX_ARG)


def _check_stdin(target: ScriptTarget) -> None:
    try:
        stdin = stdin_of(target)
    except RecursionError:
        raise too_deep("stdin", "target.stdin") from None
    if len(stdin) > MAX_STDIN:
        raise Refused(f"stdin is larger than {MAX_STDIN // KIB} KiB", field="target.stdin")
    check_depth(target.stdin, stdin, "stdin", "target.stdin")


def _check_limits(limits: ScriptLimits) -> None:
    if not SECOND // 10 <= parse_span(limits.time, "target.limits.time") <= MAX_TIME:
        raise Refused("time lies between 0.1s and 1h", field="target.limits.time")
    if not 1 <= limits.processes <= 512:
        raise Refused("processes lie between 1 and 512", field="target.limits.processes")
    for name, (least, most) in _BOUNDS.items():
        field = f"target.limits.{name}"
        if not least <= size_of(getattr(limits, name), field) <= most:
            raise Refused(f"{name} lies between {least:,} and {most:,} bytes", field=field)


def _check_text(text: str, field: str, most: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Refused("text that is not Unicode", field=field) from None
    if size > most or "\x00" in text:
        raise Refused(f"at most {most:,} bytes, none of them NUL", field=field)
