"""Crontabs: of a user, or of the system with a user's name before each command.

`CRON_TZ` holds for the lines below it, and so do variables. `%` ends a command: what follows is its standard
input, unless it is written `\\%`. `@reboot` is no time, so it is not taken over.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from tocsin.cli.importing.commands import Commands, work_of
from tocsin.cli.importing.reading import Found, Left, Reading, Unfit, left_of, named_apart, slug
from tocsin.domain.cron import Cron
from tocsin.domain.cron_syntax import SHORTHANDS
from tocsin.domain.errors import Refused

_ASSIGNMENT: Final = re.compile(r"""\s*(["']?)(\w+)\1\s*=\s*(.*?)\s*""")
_PERCENT: Final = re.compile(r"(?<!\\)%")
_NAME_COMMENT: Final = re.compile(r"#+\s*name:\s*(\S.*?)\s*", re.IGNORECASE)
# Cron's own; they mean nothing to a call elsewhere.
_OF_CRON: Final = frozenset({"SHELL", "PATH", "HOME", "LOGNAME", "USER", "MAILFROM", "CONTENT_TYPE", "LANG"})
_AT_START: Final = (
    "a unit of the init system starts things with the machine (systemd: WantedBy=multi-user.target)"
)


def read_crontab(text: str, *, system: bool, time_zone: str | None, commands: Commands) -> Reading:
    """The jobs of a crontab. `time_zone` is that of lines without a CRON_TZ; None is UTC."""
    reader = _Crontab(system, time_zone, commands)
    for number, line in enumerate(text.splitlines(), 1):
        reader.line(number, line.strip())
    return reader.reading()


class _Crontab:
    """What was read so far, and what holds for the next line."""

    def __init__(self, system: bool, time_zone: str | None, commands: Commands) -> None:
        self._system = system
        self._time_zone = time_zone
        self._commands = commands
        self._variables: dict[str, str] = {}
        self._name: str | None = None
        self._found: list[Found] = []
        self._left: list[Left] = []
        self._notes: list[str] = []

    def line(self, number: int, line: str) -> None:
        if line.startswith("#"):
            named = _NAME_COMMENT.fullmatch(line)
            self._name = named[1] if named else self._name
        elif found := _ASSIGNMENT.fullmatch(line):
            self._assign(found[2], found[3])
        elif line:
            self._entry(f"line {number}", line)
            self._name = None

    def reading(self) -> Reading:
        if self._time_zone is None and self._found:
            self._notes.append("no time zone is said: read as UTC; --time-zone names that of the machine")
        return Reading(named_apart(self._found), tuple(self._left), tuple(self._notes))

    def _assign(self, name: str, value: str) -> None:
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        match name:
            case "CRON_TZ":
                self._time_zone = value or None
            case "MAILTO" if value:
                self._notes.append(f"MAILTO={value}: Tocsin sends no mail per run; failures are dead letters")
            case "MAILTO":
                pass
            case "RANDOM_DELAY":
                self._notes.append("RANDOM_DELAY is not taken over; jitter spreads jobs")
            case _ if name not in _OF_CRON:
                self._variables[name] = value

    def _entry(self, where: str, line: str) -> None:
        try:
            self._found.append(self._job(where, line))
        except (Unfit, Refused) as error:
            self._left.append(left_of(where, line, error))

    def _job(self, where: str, line: str) -> Found:
        cron, rest = _split(line)
        user = None
        if self._system:
            user, _, rest = rest.partition(" ")
            rest = rest.strip()
        if not rest:
            raise Unfit(
                "it has no command", "of a system's crontab? then give --system" if not self._system else ""
            )
        command, stdin = _command(rest)
        task = slug(self._name or _telling(command)).replace("/", ".")
        work = work_of(command, self._variables, self._commands, task, stdin)
        name = self._name or slug(_telling(work.target.get("url", command)))
        schedule: dict[str, Any] = {"cron": cron} | (
            {"time_zone": self._time_zone} if self._time_zone else {}
        )
        notes = (*((f"ran as {user}",) if user else ()), *work.notes)
        job = {
            "schedule": schedule,
            "target": work.target,
            "description": f"crontab: {line}"[:2000],
        } | work.job
        return Found(where, name, _without_secrets(job, work.secrets), notes, work.secrets)


def _split(line: str) -> tuple[str, str]:
    """The expression as Tocsin writes it, and the rest of the line."""
    line = line.removeprefix("-")  # "do not log", in some crons
    if line.startswith("@"):
        word, _, rest = line.partition(" ")
        if word.lower() == "@reboot":
            raise Unfit("@reboot is no time", _AT_START)
        if word.lower() not in SHORTHANDS:
            raise Unfit(f"{word} is not known")
        return word.lower(), rest.strip()
    parts = line.split(None, 5)
    if len(parts) < 6:
        raise Unfit("it is neither an entry nor a variable")
    cron = " ".join(parts[:5])
    if "~" in cron:
        raise Unfit("~ draws a random time", "write a fixed time, and give the job a jitter")
    Cron.parse(cron, "schedule")
    return cron, parts[5]


def _command(text: str) -> tuple[str, str]:
    command, *lines = _PERCENT.split(text)
    return command.replace("\\%", "%").strip(), "\n".join(line.replace("\\%", "%") for line in lines)


def _telling(command: str) -> str:
    """What a command is about, for its name: the address or the program, without quotes and options."""
    url = re.search(r"https?://([^\s\"'?#]+)", command)
    if url:
        return re.sub(r"^[^/@]*@", "", url[1])
    words = [word for word in re.split(r"[\s\"'<>|&;]+", command) if word and not word.startswith("-")]
    return "-".join(word.rsplit("/", 1)[-1] for word in words[:3])


def _without_secrets(job: dict[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """The same with credentials struck out of its description."""
    for value in sorted(secrets.values(), key=len, reverse=True):
        job["description"] = job["description"].replace(value, "***")
    return job
