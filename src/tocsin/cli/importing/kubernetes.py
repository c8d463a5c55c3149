"""CronJobs of Kubernetes, as `kubectl get cronjobs -o yaml` prints them or people write them.

Its cron differs from Debian's in two things. A day field such as `*/2` does not count as `*`, so date and
weekday are joined by OR beside it. What clocks skip does not fire, and what they repeat fires twice.
Containers cannot be started from here: what calls an HTTP address is taken over as that call, other commands
as tasks or not at all.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import yaml

from tocsin.cli.importing.commands import Commands, Work, task_work, work_of
from tocsin.cli.importing.fields import unstarred, zoned
from tocsin.cli.importing.reading import Found, Reading, Unfit, left_of, named_apart, slug
from tocsin.domain.cron import Cron, Dst
from tocsin.domain.errors import Refused
from tocsin.domain.instant import parse_span

_OVERLAP: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
_SHELLS: Final = ("sh", "bash", "ash", "dash")
_DAY_SECONDS: Final = 86_400
_IMAGE_HINT: Final = "give the work an HTTP endpoint; or --commands task, and a remote worker that runs it"


def read_cron_jobs(text: str, *, time_zone: str | None, commands: Commands) -> Reading:
    """The CronJobs of a file with one or more documents."""
    found, left, others = [], [], 0
    try:
        objects = list(_objects(yaml.safe_load_all(text)))
    except yaml.YAMLError as error:
        raise Unfit(f"not YAML: {' '.join(str(error).split())}") from None
    for one in objects:
        if one.get("kind") != "CronJob":
            others += 1
            continue
        where, name = _place(one)
        try:
            found.append(_job(one, where, name, time_zone, commands))
        except (Unfit, Refused) as error:
            left.append(left_of(where, name, error))
    notes = [f"{others} objects that are not CronJobs were passed over"] if others else []
    if any(one.job["schedule"].get("time_zone") is None for one in found):
        notes.append(
            "a CronJob without timeZone follows its controller's clock, read as UTC; --time-zone names another"
        )
    return Reading(named_apart(found), tuple(left), tuple(notes))


def _objects(documents: Iterator[Any]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        if isinstance(document, Mapping) and isinstance(document.get("items"), list):
            yield from _objects(iter(document["items"]))
        elif isinstance(document, Mapping):
            yield document


def _place(one: Mapping[str, Any]) -> tuple[str, str]:
    meta = _map(one, "metadata")
    name, space = str(meta.get("name") or "cronjob"), meta.get("namespace")
    whole = f"{space}/{name}" if space and space != "default" else name
    return f"CronJob {whole}", whole


def _job(one: Mapping[str, Any], where: str, name: str, time_zone: str | None, commands: Commands) -> Found:
    spec = _map(one, "spec")
    template = _map(_map(spec, "jobTemplate"), "spec")
    work = _work(_map(_map(template, "template"), "spec"), name, commands)
    schedule = _schedule(str(spec.get("schedule") or ""), spec.get("timeZone") or time_zone)
    job: dict[str, Any] = {"schedule": schedule, "target": work.target} | work.job
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy not in _OVERLAP:
        raise Unfit(f"{policy!r} is not a concurrencyPolicy")
    job |= {"overlap": _OVERLAP[policy]} if policy != "Allow" else {}
    if deadline := spec.get("startingDeadlineSeconds"):
        job |= {"start_within": f"{deadline}s", "misfire": {"lookback": f"{deadline}s"}}
    if (limit := template.get("backoffLimit")) is not None:
        job["retry"] = {"max_attempts": min(100, int(limit) + 1)}
    if running := template.get("activeDeadlineSeconds"):
        job["timeout"] = f"{min(int(running), _DAY_SECONDS)}s"
    notes = [*work.notes]
    if template.get("completions", 1) != 1 or template.get("parallelism", 1) != 1:
        notes.append("completions and parallelism are not taken over: it runs once a fire")
    return Found(where, name, job, tuple(notes), work.secrets, suspended=spec.get("suspend") is True)


def _schedule(text: str, time_zone: str | None) -> dict[str, Any]:
    first, _, rest = text.partition(" ")
    if first.partition("=")[0] in ("TZ", "CRON_TZ"):
        text, time_zone = rest.strip(), first.partition("=")[2]
    if text.startswith("@every "):
        interval = text.removeprefix("@every ").strip()
        parse_span(interval, "schedule")
        return {"every": interval}
    fields = text.split()
    if len(fields) == 5:
        fields[2], fields[4] = unstarred(fields[2], "1-31"), unstarred(fields[4], "0-6")
    cron = " ".join(fields)
    Cron.parse(cron, "schedule")
    return zoned(cron, time_zone, Dst.LITERAL)


def _work(pod: Mapping[str, Any], name: str, commands: Commands) -> Work:
    containers = pod.get("containers")
    if not isinstance(containers, list) or len(containers) != 1 or not isinstance(containers[0], Mapping):
        raise Unfit("it has not exactly one container", _IMAGE_HINT)
    container = containers[0]
    image = str(container.get("image") or "")
    words = [str(word) for word in (container.get("command") or ())]
    arguments = [str(word) for word in (container.get("args") or ())]
    program = image.rsplit("/", 1)[-1].partition(":")[0]
    line = words + arguments if words or program not in ("curl", "wget") else [program, *arguments]
    variables = {
        str(one["name"]): str(one["value"])
        for one in container.get("env") or ()
        if isinstance(one, Mapping) and "name" in one and one.get("value") is not None
    }
    try:
        return work_of(_command(line), variables, Commands.SKIP, name)
    except Unfit as unfit:
        if commands is Commands.SKIP:
            raise Unfit(
                unfit.why if "curl" in line[:1] else f"it runs the image {image}", _IMAGE_HINT
            ) from None
    work = task_work(
        slug(name).replace("/", "."), {"image": image, "command": words, "args": arguments}, variables
    )
    if any("valueFrom" in one for one in container.get("env") or ()):
        work = replace(work, notes=(*work.notes, "variables from ConfigMaps and Secrets are not passed on"))
    return work


def _command(line: list[str]) -> str:
    """What a shell would be given."""
    if (
        len(line) >= 3
        and line[0].rsplit("/", 1)[-1] in _SHELLS
        and line[1].startswith("-")
        and "c" in line[1]
    ):
        return line[2]
    return shlex.join(line)


def _map(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}
