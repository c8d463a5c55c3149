"""The sources of the dashboard against the API, and their own tests of pure code."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from tocsin.api.app import ENDPOINTS
from tocsin.api.trail import action_of
from tocsin.dashboard.pages import PAGES
from tocsin.domain.alert_channel import KINDS
from tocsin.domain.alert_rule import Watch, kind_of

WEB = Path(__file__).parents[2] / "web"


def script(name: str) -> ModuleType:
    """One of the scripts beside the sources."""
    spec = importlib.util.spec_from_file_location(name, WEB / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_dashboards_types_are_those_of_the_api() -> None:
    written = (WEB / "src" / "types.ts").read_text()
    assert script("api_types").types() == written, "run .venv/bin/python web/api_types.py"


def test_every_page_of_the_dashboard_is_answered_as_found() -> None:
    main = (WEB / "src" / "main.tsx").read_text()
    loaded = re.findall(r'^  "?([a-z-]+)"?: \(\) => import', main, re.MULTILINE)
    at_once = re.findall(r'case "([a-z-]+)":', main)
    assert {*loaded, *at_once} - {"editor"} == PAGES - {"", "login"}


def test_the_audit_page_offers_actions_that_the_api_has() -> None:
    page = (WEB / "src" / "pages" / "audit.tsx").read_text()
    offered = re.findall(r'"([a-z_]+\.[a-z_]+)"', page)
    known = {action_of(one) for one in ENDPOINTS if one.method != "GET"}
    assert len(offered) > 40
    assert set(offered) <= known


def test_the_page_of_alerts_knows_what_can_be_watched_and_who_can_be_told() -> None:
    rules = (WEB / "src" / "alert_rule.ts").read_text()
    assert set(re.findall(r"^  (\w+): \{", rules, re.MULTILINE)) >= {kind_of(one) for one in get_args(Watch)}
    channels = (WEB / "src" / "pages" / "alert_channels.tsx").read_text()
    assert set(re.findall(r'^  (\w+): "', channels, re.MULTILINE)) >= set(KINDS)


def test_the_lock_file_has_an_integrity_for_every_package_and_names_no_host() -> None:
    lock = (WEB / "package-lock.json").read_text()
    assert lock.count('"integrity": "sha512-') == lock.count('"node_modules/')
    assert "://" not in lock.replace("https://opencollective.com", "").replace("https://github.com", "")


def test_without_node_or_a_wheel_the_build_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = script("build")
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    monkeypatch.setattr(build, "_wheel_home", lambda: None)
    monkeypatch.setattr(build, "_run", lambda *_, **__: None)
    monkeypatch.setattr(build.sys, "argv", ["build.py"])
    with pytest.raises(SystemExit, match="no Node 20"):
        build.main()


@pytest.mark.skipif(
    shutil.which("node") is None or not list(WEB.glob("node_modules/@esbuild/*/bin/esbuild")),
    reason="the dashboard's packages are not installed",
)
def test_the_dashboards_own_tests_pass(tmp_path: Path) -> None:
    esbuild = next(WEB.glob("node_modules/@esbuild/*/bin/esbuild"))
    tests = sorted(map(str, WEB.glob("src/**/*.test.ts")))
    bundle = [
        str(esbuild),
        *tests,
        "--bundle",
        "--platform=node",
        "--format=esm",
        f"--outdir={tmp_path}",
        "--out-extension:.js=.mjs",
    ]
    subprocess.run([*bundle, "--log-level=error"], cwd=WEB, check=True)
    done = subprocess.run(
        ["node", "--test", *map(str, tmp_path.rglob("*.mjs"))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
