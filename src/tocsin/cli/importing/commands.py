"""What becomes of a command: a call over HTTP, a script, a task of a remote worker, or nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tocsin.cli.importing.reading import Unfit
from tocsin.cli.importing.web_calls import secret_name, web_call


class Commands(StrEnum):
    """What commands that are not calls over HTTP become."""

    SCRIPT = "script"
    TASK = "task"
    SKIP = "skip"


@dataclass(frozen=True)
class Work:
    """A target, and what the command says about the job."""

    target: dict[str, Any]
    job: dict[str, Any]
    notes: tuple[str, ...]
    secrets: dict[str, str]


_SECRET: Final = re.compile(r"pass(word|wd|phrase)?$|secret|token|api_?key|credential", re.IGNORECASE)
_OTHERWISE: Final = (
    "make it an HTTP endpoint; or --commands task, and a remote worker that runs it; or --commands script where"
    " the installation runs scripts"
)


def work_of(
    command: str, variables: Mapping[str, str], commands: Commands, task: str, stdin: str = ""
) -> Work:
    """What a shell command becomes. `task` is the name of the task, if it is to be one."""
    try:
        call = web_call(command, variables)
    except Unfit:
        if commands is Commands.SKIP:
            raise
        call = None
    if call is not None:
        return Work(call.target(), call.job, tuple(call.notes), call.secrets)
    if commands is Commands.SKIP:
        raise Unfit("it runs a command, not a call over HTTP", _OTHERWISE)
    if commands is Commands.TASK:
        return task_work(task, {"command": command}, variables, stdin)
    return _script(command, variables, stdin)


def task_work(task: str, payload: Mapping[str, Any], variables: Mapping[str, str], stdin: str = "") -> Work:
    """A task of a remote worker. Credentials are not for its payload, which all readers of the job see."""
    plain = {name: value for name, value in variables.items() if not is_secret(name)}
    notes = [f"needs a remote worker with the task {task}"]
    notes += [f"{name} is not passed on: give it to the worker" for name in variables if name not in plain]
    given = {**payload} | ({"env": plain} if plain else {}) | ({"stdin": stdin} if stdin else {})
    return Work({"kind": "task", "task": task, "payload": given}, {}, tuple(notes), {})


def is_secret(variable: str) -> bool:
    """Whether a variable is called like a credential."""
    return _SECRET.search(variable) is not None


def _script(command: str, variables: Mapping[str, str], stdin: str) -> Work:
    secrets = {secret_name(value): value for name, value in variables.items() if is_secret(name)}
    env = {
        name: {"secret": secret_name(value)} if is_secret(name) else value
        for name, value in variables.items()
    }
    target: dict[str, Any] = {"kind": "script", "interpreter": "sh", "source": command}
    target |= {"env": env} if env else {}
    target |= {"stdin": stdin} if stdin else {}
    return Work(target, {}, ("runs in a sandbox, without the files of its old machine",), secrets)
