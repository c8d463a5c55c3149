"""What `deploy/` names exists: commands, options, settings, ports, probes, and enough time to stop in."""

import configparser
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml

from tests.support.commands import every_command
from tocsin.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "docker" / "compose.yml").read_text())
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()
ARCHIVE = "/var/lib/tocsin/archive"
PLAIN = {"/healthz", "/readyz"}
DRAIN = Settings().drain_timeout + 15
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SETTINGS = {f"TOCSIN_{field.name.upper()}" for field in msgspec.structs.fields(Settings)}


def manifests() -> dict[tuple[str, str], Any]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    found = [one for file in files for one in yaml.safe_load_all(file.read_text())]
    return {(one["kind"], one.get("metadata", {}).get("name", "")): one for one in found}


def pods() -> Iterator[tuple[str, Any]]:
    for (kind, name), one in manifests().items():
        if kind in {"Deployment", "Job"}:
            yield name, one["spec"]["template"]["spec"]


def unit(file: Path) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(file)
    return parsed


def check_command(words: list[str]) -> None:
    """That there is such a command, and that it takes these options."""
    [(_, command)] = every_command(words[0])
    known = {name for p in command.params if isinstance(p, click.Option) for name in p.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_every_setting_that_they_name_exists() -> None:
    texts = [file.read_text() for file in DEPLOY.rglob("*") if file.is_file()]
    named = {name for text in texts for name in re.findall(r"TOCSIN_[A-Z_]*[A-Z]", text)}
    assert len(named) > 5
    assert named <= SETTINGS


def test_every_command_that_they_run_exists_with_its_options() -> None:
    commands = [[*service["command"]] for service in COMPOSE["services"].values()]
    commands += [pod["containers"][0]["args"] for _, pod in pods()]
    commands += [shlex.split(unit(file)["Service"]["ExecStart"])[1:] for file in UNITS]
    [default] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    commands.append(yaml.safe_load(default))
    assert {words[0] for words in commands} == {"api", "engine", "migrate"}
    for words in commands:
        check_command(words)


def test_the_image_runs_without_root_from_files_that_exist_and_listens_on_the_port() -> None:
    lines = DOCKERFILE.splitlines()
    [user] = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert int(user) > 0
    assert f"EXPOSE {Settings().port}" in lines
    assert (ROOT / "requirements" / "image.txt").exists()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for source in re.findall(r"^COPY (?!--from)(\S+)", DOCKERFILE, re.MULTILINE):
        assert any(Path(source).match(kept.lstrip("!")) or kept == f"!{source}" for kept in ignored) or (
            source == "dist/tocsin-*.whl" and "!dist/*.whl" in ignored
        )
    version = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
    assert COMPOSE["services"]["api"]["image"] == f"tocsin:{version}"
    assert manifests()["Kustomization", ""]["images"][0]["newTag"] == version


def test_the_image_has_what_every_extra_needs() -> None:
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, needs in project["optional-dependencies"].items():
        names = {re.split(r"[\[<>=]", need)[0] for need in needs} - {"tocsin"}
        assert names <= pinned, (extra, names - pinned)


def test_what_archives_or_reads_the_archive_can_write_to_a_temporary_directory_and_to_its_own() -> None:
    """Roots are read-only: pieces of days and files of a bucket go through the temporary directory."""
    for name in ("api", "engine"):
        assert COMPOSE["services"][name]["read_only"]
        mounts = COMPOSE["services"][name]["volumes"]
        assert mounts == ["/tmp", f"archive:{ARCHIVE}"]
        assert "archive" in COMPOSE["volumes"]
    for name, pod in pods():
        [container] = pod["containers"]
        mounts = {one["mountPath"]: one["name"] for one in container.get("volumeMounts", ())}
        volumes = {one["name"]: one for one in pod.get("volumes", ())}
        assert "migrate" in name or "emptyDir" in volumes[mounts["/tmp"]]
    assert f"install -d -o tocsin {ARCHIVE}" in DOCKERFILE
    for file in UNITS:
        service = unit(file)["Service"]
        assert service["PrivateTmp"] == "true"
        assert (
            "migrate" in file.name or ARCHIVE.removeprefix("/var/lib/") in service["StateDirectory"].split()
        )
    assert f"#TOCSIN_ARCHIVE={ARCHIVE}\n" in (DEPLOY / "systemd" / "tocsin.env").read_text()


def test_the_compose_file_migrates_first_and_lets_processes_drain() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert float(service["stop_grace_period"].rstrip("s")) >= DRAIN
        waits = service.get("depends_on", {}).get("migrate", {}).get("condition")
        assert name == "migrate" or waits == "service_completed_successfully"
    assert services["api"]["ports"] == [f"127.0.0.1:{Settings().port}:{Settings().port}"]
    assert f"127.0.0.1:{Settings().port}/readyz" in services["api"]["healthcheck"]["test"][-1]
    assert "postgres" not in services


def test_pods_run_without_root_and_have_time_to_drain() -> None:
    drain = float(manifests()["ConfigMap", "tocsin"]["data"]["TOCSIN_DRAIN_TIMEOUT"]) + 15
    for name, pod in pods():
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert f"USER {pod['securityContext']['runAsUser']}\n" in DOCKERFILE
        assert container["securityContext"]["readOnlyRootFilesystem"]
        sources = [next(iter(one.values()))["name"] for one in container["envFrom"]]
        assert sources == ["tocsin", "tocsin"]
        pause = float(
            container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [0])[-1]
        )
        assert "migrate" in name or pod["terminationGracePeriodSeconds"] >= drain + pause


def test_probes_ask_routes_that_need_no_key_on_the_port_that_is_served() -> None:
    found = manifests()
    [container] = found["Deployment", "tocsin-api"]["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": Settings().port}]
    probes = {name: probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")}
    assert {probe["path"] for probe in probes.values()} == PLAIN
    assert probes["livenessProbe"]["path"] == "/healthz"  # a database that is away is no reason to be killed
    assert probes["readinessProbe"]["path"] == "/readyz"
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert found["Service", "tocsin"]["spec"]["ports"][0]["targetPort"] == "http"


def test_selectors_find_their_pods_and_the_kustomization_names_every_file() -> None:
    found = manifests()
    labels = {
        name: one["spec"]["template"]["metadata"]["labels"]
        for (kind, name), one in found.items()
        if kind == "Deployment"
    }
    for (kind, name), one in found.items():
        if kind in {"Deployment", "PodDisruptionBudget"}:
            assert one["spec"]["selector"]["matchLabels"] == labels[name]
    assert found["Service", "tocsin"]["spec"]["selector"] == labels["tocsin-api"]
    files = {file.name for file in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(found["Kustomization", ""]["resources"]) == files


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_a_unit_runs_without_root_waits_for_migrations_and_lets_a_process_drain(file: Path) -> None:
    parsed = unit(file)
    service = parsed["Service"]
    assert service["User"] == "tocsin"
    assert service["EnvironmentFile"].endswith("tocsin.env")
    if "migrate" in file.name:
        assert service["Type"] == "oneshot"
        return
    assert parsed["Unit"]["Requires"] == "tocsin-migrate.service"
    assert float(service["TimeoutStopSec"]) >= DRAIN
    assert service["Restart"] == "always"


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    for file in UNITS:
        text = file.read_text().replace("/opt/tocsin/bin/tocsin", "/bin/true")
        (tmp_path / file.name).write_text(text.replace("EnvironmentFile=", "EnvironmentFile=-"))
    names = [str(tmp_path / file.name.replace("@", "@1")) for file in UNITS]
    for file, name in zip(UNITS, names, strict=True):
        if "@" in file.name:
            (tmp_path / file.name).rename(name)
    done = subprocess.run([analyze, "verify", *names], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if str(tmp_path) in line], done.stderr
